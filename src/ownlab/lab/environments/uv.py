"""Runs uv: where it is, which indexes it uses, and what its output says about its progress.

On a terminal uv draws a bar per download with exact numbers; elsewhere it prints a line per file at most. It therefore gets a
terminal of its own (a pty), and the bars are read from it. Addresses of indexes may contain passwords: they are passed in the
environment, never as arguments.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ownlab.config.settings import LabOptions
from ownlab.errors import LabError, OwnlabError
from ownlab.processes import runner
from ownlab.text import CONTROL_CHARACTERS, text

__all__ = ["Downloads", "UvFailed", "find_uv", "read_output", "run_uv", "uv_environment", "without_credentials"]

_RESOLVE_SECONDS = 600.0
_PIP_SECONDS = 20.0
_GRACE_SECONDS = 5.0
# Rows and columns of uv's terminal: a row per download, and no bar is cut off.
_ROWS, _COLUMNS = 120, 200
# Variables with which a person tells uv where packages are. If one is set, pip's configuration is not looked at.
_INDEX_VARIABLES = (
    "UV_INDEX",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_CONFIG_FILE",
)
# Of another project or environment; uv would use them instead of ours.
_FOREIGN = ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT", "UV_PROJECT_ENVIRONMENT", "UV_SYSTEM_PYTHON", "UV_NO_PROGRESS")
_SECRET = re.compile(r"(?<=://)[^/@\s]+@")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_BAR = re.compile(r"([A-Za-z0-9][\w.-]*) +-{5,} +([\d.]+) ([KMGT]?i?B)/([\d.]+) ([KMGT]?i?B)")
_FRAME = "Preparing packages..."  # how uv begins to draw
_INSTALLS = re.compile(r"Installing wheels|Installed \d|ytecode compil")
_COUNT = re.compile(r" \((\d+)/(\d+)\)")
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_KEPT = 20_000  # characters of uv's output; the error is at its end


class UvFailed(LabError):
    """uv ended with an error. The message quotes what it printed, without credentials."""

    def __init__(self, message: str, *, hint: str = "", unreachable: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.unreachable = unreachable  # an index cannot be reached


class Downloads(NamedTuple):
    """What uv's bars show."""

    files: Mapping[str, tuple[int, int]]  # package -> bytes that arrived, and all bytes
    prepared: int  # packages that are ready to be installed
    packages: int  # that are not in uv's cache
    installing: bool


def find_uv(environ: Mapping[str, str] = os.environ) -> str:
    """Return uv: the one installed with ownlab, or the one on PATH."""
    own = os.path.join(sysconfig.get_path("scripts"), "uv")
    found = own if os.access(own, os.X_OK) else shutil.which("uv", path=environ.get("PATH"))
    if found is None:
        raise LabError(
            text("uv, which builds environments, is not installed."),
            hint=text("Install it: {command}", command=f"{shlex.quote(sys.executable)} -m pip install uv"),
        )
    return found


def uv_environment(options: LabOptions, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for uv: the user's, with the configured index, or else with the indexes that pip uses."""
    variables = {name: value for name, value in environ.items() if name not in _FOREIGN}
    variables |= {"NO_COLOR": "1", "TERM": "xterm", "UV_PREVIEW_FEATURES": "pylock"}
    variables.setdefault("UV_COMPILE_BYTECODE", "1")  # otherwise the first cell of the first notebook does that
    variables.setdefault("UV_HTTP_TIMEOUT", "120")
    variables.setdefault("UV_HTTP_RETRIES", "5")  # registries refuse bursts for a while
    if options.package_index:
        variables["UV_DEFAULT_INDEX"] = options.package_index
        variables.pop("UV_INDEX_URL", None)
    elif not any(environ.get(name) for name in _INDEX_VARIABLES):
        variables |= _from_pip(environ)
    return variables


def _from_pip(environ: Mapping[str, str]) -> dict[str, str]:
    """Translate pip's configuration: on many machines only pip knows the index that can be reached."""
    try:
        listed = runner.run([sys.executable, "-m", "pip", "config", "list"], deadline=_PIP_SECONDS, env=environ).stdout
    except OwnlabError:  # no pip, or it hangs: uv's own defaults
        return {}
    found: dict[str, str] = {}
    for table in (":env:.", "install.", "global."):  # as pip: the first wins
        for line in listed.splitlines():
            name, _, value = line.partition("=")
            if name.startswith(table):  # the value is printed as a Python literal
                found.setdefault(name.removeprefix(table), " ".join(shlex.split(value)).replace("\\n", " "))
    translated = {}
    if found.get("index-url"):
        translated["UV_DEFAULT_INDEX"] = found["index-url"]
    if found.get("extra-index-url"):
        translated["UV_INDEX"] = " ".join(found["extra-index-url"].split())
        translated["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # as pip: the best of all indexes
    if found.get("find-links"):
        translated["UV_FIND_LINKS"] = ",".join(found["find-links"].split())
    if found.get("cert") and not environ.get("SSL_CERT_FILE"):
        translated["SSL_CERT_FILE"] = found["cert"]
    return translated


def without_credentials(output: str) -> str:
    """Remove user names and passwords from addresses, and what could control a terminal."""
    return _SECRET.sub("", _ESCAPE.sub("", output)).translate(CONTROL_CHARACTERS)


def run_uv(arguments: Sequence[str], variables: Mapping[str, str]) -> str:
    """Run uv to its end, and return what it printed on stderr. UvFailed with its own message otherwise."""
    ran = runner.run([find_uv(variables), *arguments], deadline=_RESOLVE_SECONDS, env=variables)
    if ran.returncode != 0:
        raise _failure(ran.output, ran.returncode)
    return without_credentials(ran.stderr)


def read_output(arguments: Sequence[str], variables: Mapping[str, str], report: Callable[[Downloads], None]) -> None:
    """Run uv on a terminal of its own, and report how its downloads proceed. UvFailed if it fails.

    An exception that `report` raises, or a signal handler, ends uv.
    """
    controller, terminal = pty.openpty()
    child = None
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
        try:
            child = subprocess.Popen(
                [find_uv(variables), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=terminal,
                env=dict(variables),
                start_new_session=True,
            )
        finally:
            os.close(terminal)
        output = _follow(controller, report)
        if child.wait() != 0:
            raise _failure(output, child.returncode)
    finally:
        os.close(controller)
        if child is not None and child.poll() is None:
            _end(child)


def _follow(controller: int, report: Callable[[Downloads], None]) -> str:
    """Read until uv closes its terminal; return what it printed beside bars."""
    screen = _Screen()
    while True:
        try:
            part = os.read(controller, 1 << 16)
        except OSError:  # EIO: the other end is closed
            part = b""
        if not part:
            return screen.lines()
        if screen.feed(part.decode(errors="replace")):
            report(screen.downloads)


class _Screen:
    """What uv draws: frames that begin with the number of prepared packages and have a bar per running download."""

    def __init__(self) -> None:
        self._output = ""  # everything but complete frames
        self._pending = ""
        self._files: dict[str, tuple[int, int]] = {}
        self._prepared = self._packages = 0
        self._installing = False

    @property
    def downloads(self) -> Downloads:
        return Downloads(self._files, self._prepared, self._packages, self._installing)

    def feed(self, part: str) -> bool:
        """Add what arrived; return whether the state may have changed."""
        # After joining: an escape sequence, or the beginning of a frame, may come in two parts.
        arrived = _ESCAPE.sub("", self._pending + part)
        before, *frames = arrived.split(_FRAME)
        # Also where everything was in uv's cache, and nothing is prepared.
        self._installing = self._installing or _INSTALLS.search(before) is not None
        if not frames:
            end = max(before.rfind("\n") + 1, len(before) - len(_FRAME))
            self._output, self._pending = (self._output + before[:end])[-_KEPT:], before[end:]
            return True
        self._output = (self._output + before)[-_KEPT:]
        for frame in frames[:-1]:
            self._read_frame(frame)
        self._pending = _FRAME + frames[-1]
        self._end_of_frames()
        return len(frames) > 1 or self._installing

    def _end_of_frames(self) -> None:
        """Nothing is drawn after the last frame but lines."""
        _, newline, rest = self._pending.partition("\n")
        if newline:
            self._output, self._pending, self._installing = self._output + rest, "", True

    def _read_frame(self, frame: str) -> None:
        count = _COUNT.match(frame)
        if count is not None:
            self._prepared, self._packages = int(count[1]), int(count[2])
        running = {}
        for bar in _BAR.finditer(frame):
            name = re.sub(r"[-_.]+", "-", bar[1]).lower()
            running[name] = _size(bar[2], bar[3]), _size(bar[4], bar[5])
        # The bar of a download disappears when it is complete.
        complete = {name: (size, size) for name, (_, size) in self._files.items() if name not in running}
        self._files = complete | running

    def lines(self) -> str:
        """Return what uv printed beside its bars."""
        lines = (line.rstrip().rpartition("\r")[2] for line in (self._output + self._pending).split("\n"))
        return "".join(f"{line}\n" for line in lines if line and _FRAME not in line)


def _size(number: str, unit: str) -> int:
    return int(float(number) * _UNITS[unit])


def _end(child: subprocess.Popen[bytes]) -> None:
    """Interrupt uv as Ctrl-C does; kill it if it does not end."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_SECONDS)
            return


# How the network's errors begin in uv's output (0.9 to 0.13).
_UNREACHABLE = re.compile(
    r"error sending request|dns error|failed to lookup|connection refused|connection reset|timed out|tunnel error|"
    r"network is unreachable|network connectivity is disabled|network was disabled|could not connect",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"https?://[^\s`'\")]+")


def _failure(output: str, code: int) -> UvFailed:
    said = without_credentials(output).strip() or runner.describe_exit(code)
    unreachable = _UNREACHABLE.search(said) is not None
    if "No space left on device" in said:
        message = text("The disk is full.\n{output}", output=said)
    elif unreachable:
        address = _ADDRESS.search(said)
        where = address[0] if address else text("the package index")
        message = text("{address} cannot be reached. uv reports:\n{output}", address=where, output=said)
    elif "No solution found" in said:
        message = text("No versions satisfy these requirements. uv reports:\n{output}", output=said)
    else:
        message = text("uv failed. It reports:\n{output}", output=said)
    return UvFailed(message, unreachable=unreachable)

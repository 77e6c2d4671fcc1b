"""Reads a Python interpreter: its version, its packages, and the report of each framework, in one child process each.

A framework may raise, crash or hang on import. Each of these is a fact about the machine, with the framework's own
message.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ownlab import guest_client
from ownlab.errors import DeadlineError, InterpreterError, OwnlabError
from ownlab.machine.facts import Fact, Known, Unknown, first_known
from ownlab.machine.records import Framework, Interpreter, Package
from ownlab.processes import runner
from ownlab.processes.background import BackgroundCall, call_each
from ownlab.text import text

__all__ = ["GUEST_ENVIRONMENT", "read_interpreter"]

# For every guest that loads a framework: reading facts must not take the memory of a card away from other programs.
GUEST_ENVIRONMENT = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "TF_CPP_MIN_LOG_LEVEL": "0",  # TensorFlow writes only to stderr why it sees no GPU
}

_PACKAGES_SECONDS = 10.0
_PATH_SECONDS = 3.0  # for all folders of PATH together: one may lie on a dead network mount
_OLDEST = (3, 9)  # the syntax of ownlab_guest
_OTHERS_AT_MOST = 5
_PYTHON_NAME = re.compile(r"python3(\.\d+)?(\.exe)?")
# How many of the last lines of a failed framework are shown.
_LINES_KEPT = 8

# faulthandler's reports in the guest's transcript. Frames come innermost first.
_REPORT = re.compile(r"^(Fatal Python error: |Timeout \(\d)", re.MULTILINE)
_FRAMES = re.compile(
    r"^(?P<thread>Current thread|Thread) 0x\S+.*\(most recent call first\):\n(?P<frames>(?:  .*\n?)+)", re.MULTILINE
)
_FRAME = re.compile(r'File "(?P<file>[^"<]+)", line (?P<line>\d+)')


class _Packages(Struct, frozen=True):
    """The answer of `ownlab_guest.probe.packages`."""

    version: str
    architecture: str
    prefix: str
    packages: tuple[Package, ...]
    frameworks: tuple[str, ...]


def read_interpreter(
    python: str,
    origin: str,
    *,
    deadline: float = 60.0,
    frameworks: bool = True,
    env: Mapping[str, str] | None = None,
) -> Interpreter:
    """Read an interpreter and, with `frameworks`, the report of each framework. Never raises for a broken one.

    `deadline` is in seconds for each framework; all are probed at the same time. `env` is added to this process's own
    environment.
    """
    program = shutil.which(python)
    path = Known(os.path.abspath(program) if program else python, source=origin)
    others = _read_others(path.value, {**os.environ, **(env or {})})
    try:
        answer = guest_client.ask(
            python, "probe.packages", answer=_Packages, deadline=min(deadline, _PACKAGES_SECONDS), env=env
        )
    except guest_client.GuestCrashed as exc:
        version = _version_without_guest(python, env)
        reason = Unknown(_too_old(version.value) if isinstance(version, Known) else exc.message)
        return Interpreter(path, first_known(version, reason), origin, reason, reason, others, reason)
    except OwnlabError as exc:
        reason = Unknown(_why_unusable(python, exc))
        return Interpreter(path, reason, origin, reason, reason, others, reason)
    return Interpreter(
        path=path,
        version=Known(answer.version, source="platform.python_version()"),
        origin=origin,
        packages=Known(answer.packages, source=text("names of *.dist-info and conda-meta")),
        frameworks=_read_frameworks(python, answer, deadline, env)
        if frameworks
        else Unknown(text("frameworks were not probed")),
        others=others,
        architecture=Known(answer.architecture, source="platform.machine()"),
    )


# --- frameworks -------------------------------------------------------------------------------------------------------


def _read_frameworks(
    python: str, installed: _Packages, deadline: float, env: Mapping[str, str] | None
) -> Known[tuple[Framework, ...]] | Unknown:
    if tuple(int(part) for part in installed.version.split(".")[:2]) < _OLDEST:
        return Unknown(_too_old(installed.version))
    with contextlib.ExitStack() as cleanup:
        folder = None
        with contextlib.suppress(OSError):  # without room for temporary files, only the transcripts are lost
            folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="ownlab-", ignore_cleanup_errors=True))

        def read(name: str) -> Framework:
            return _read_framework(python, name, folder and os.path.join(folder, name), deadline, env)

        return Known(call_each(read, installed.frameworks), source=text("a child process each"))


def _read_framework(
    python: str, name: str, transcript: str | None, deadline: float, env: Mapping[str, str] | None
) -> Framework:
    try:
        return guest_client.ask(
            python,
            "probe.frameworks",
            [name, transcript or "", str(deadline)],
            answer=Framework,
            deadline=deadline,
            env={**GUEST_ENVIRONMENT, **(env or {})},
        )
    except DeadlineError:
        failure, stderr = "hang", ""
        event: str = text("{framework} did not answer in {seconds:g} s", framework=name, seconds=deadline)
    except guest_client.GuestCrashed as exc:
        failure, stderr = "crash", exc.stderr
        event = text("the probe of {framework} {ending}", framework=name, ending=runner.describe_exit(exc.returncode))
    except InterpreterError as exc:
        failure, event, stderr = "crash", exc.message, ""
    output = (_read_text(transcript) if transcript else "") + stderr
    location = _failing_line(output)
    headline = text("{event}, in {location}", event=event, location=location) if location else event
    error = "\n".join([headline, *_last_lines(output)])
    return Framework(name=name, devices=Unknown(event), error=error, failure=failure)


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:  # the guest ended before it opened its transcript
        return ""


def _last_lines(output: str) -> list[str]:
    """Return the framework's own last lines, without faulthandler's report."""
    report = _REPORT.search(output)
    own = output[: report.start()] if report else output
    return [line.rstrip() for line in own.splitlines() if line.strip()][-_LINES_KEPT:]


def _failing_line(output: str) -> str | None:
    """Return where Python crashed or hung: "torch/__init__.py, line 7"."""
    blocks = list(_FRAMES.finditer(output))
    if not blocks:
        return None
    # After a crash, the thread that crashed; after a hang, the main thread, which faulthandler writes last.
    block = next((each for each in blocks if each["thread"] == "Current thread"), blocks[-1])
    frame = _FRAME.search(block["frames"])
    return f"{frame['file']}, line {frame['line']}" if frame else None


# --- the interpreter --------------------------------------------------------------------------------------------------


def _version_without_guest(python: str, env: Mapping[str, str] | None) -> Known[str] | Unknown:
    """Return the version of a Python that is too old to run guest code."""
    code = "import sys; print('Python %d.%d.%d' % sys.version_info[:3])"
    try:
        ran = runner.run([python, "-c", code], deadline=_PACKAGES_SECONDS, env={**os.environ, **(env or {})})
    except OwnlabError as exc:
        return Unknown(exc.message)
    match = re.fullmatch(r"Python (2\.\d+\.\d+|3\.[0-8]\.\d+)", ran.stdout.strip())
    return (
        Known(match[1], source="sys.version_info")
        if match
        else Unknown(text("the version is not that of an old Python"))
    )


def _too_old(version: str) -> str:
    oldest = ".".join(str(part) for part in _OLDEST)
    return text(
        "Python {version} is too old to be probed: ownlab needs {oldest} or newer", version=version, oldest=oldest
    )


def _why_unusable(python: str, exc: OwnlabError) -> str:
    try:
        os.stat(python)
    except FileNotFoundError:
        if os.sep in python and not os.path.lexists(python):
            return text("{python} does not exist", python=python)
        return exc.message
    except OSError as error:  # a forbidden folder, for example
        return text("{python} cannot be accessed: {error}", python=python, error=error.strerror)
    if os.path.isfile(python) and not os.access(python, os.X_OK):
        return text("{python} is not executable", python=python)
    return exc.message


def _read_others(python: str, environ: Mapping[str, str]) -> Fact[tuple[str, ...]]:
    try:
        paths = BackgroundCall(lambda: tuple(_other_interpreters(python, environ))).result(_PATH_SECONDS)
    except DeadlineError:
        return Unknown(text("the folders of PATH did not answer in {seconds:g} s", seconds=_PATH_SECONDS))
    return Known(paths, source="PATH")


def _other_interpreters(python: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Find other Pythons on PATH by their file names, one per environment."""
    seen = {_environment_of(python)}
    for folder in environ.get("PATH", "").split(os.pathsep):
        try:
            names = sorted(os.listdir(folder)) if folder else []
        except OSError:  # PATH may name folders that do not exist
            continue
        for name in names:
            path = os.path.join(folder, name)
            if not _PYTHON_NAME.fullmatch(name) or _environment_of(path) in seen or not os.access(path, os.X_OK):
                continue
            seen.add(_environment_of(path))
            if len(seen) > _OTHERS_AT_MOST + 1:
                return
            yield path


def _environment_of(python: str) -> str:
    """Identify an interpreter: by its virtual environment's folder, else by the program behind all links.

    The program alone is not enough: that of a virtual environment is a link to the Python that made it.
    """
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    return prefix if os.path.exists(os.path.join(prefix, "pyvenv.cfg")) else os.path.realpath(python)

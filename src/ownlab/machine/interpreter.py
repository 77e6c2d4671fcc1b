"""Reads an interpreter: its version, its packages, and what each framework in it says, one child process apiece.

A framework may raise, crash or hang on import: each is a fact about the machine, with the framework's own words.
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

__all__ = ["GUEST_ENVIRONMENT", "read_interpreter"]

# What every guest that loads a framework is given, so that a look at a card does not take its memory away from others.
GUEST_ENVIRONMENT = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "TF_CPP_MIN_LOG_LEVEL": "0",  # TensorFlow says only on stderr why it sees no GPU
}

_PACKAGES_SECONDS = 10.0
_PATH_SECONDS = 3.0  # for all folders of PATH together: one may lie on a dead network mount
_OLDEST = (3, 9)  # the syntax of ownlab_guest
_OTHERS_AT_MOST = 5
_PYTHON_NAME = re.compile(r"python3(\.\d+)?(\.exe)?")
# What a dying framework wrote last; of more, people read nothing.
_LINES_KEPT = 8

# faulthandler's reports, which the guest has written into its transcript. Frames come innermost first.
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
    """What is installed in an interpreter and, with `frameworks`, what each framework says; never raises for a broken one.

    `deadline` is in seconds, for each framework by itself; they are asked at the same time. `env` is added to our own.
    """
    found = shutil.which(python)
    path = Known(os.path.abspath(found) if found else python, source=origin)
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
        reason = Unknown(_why_not(python, exc))
        return Interpreter(path, reason, origin, reason, reason, others, reason)
    return Interpreter(
        path=path,
        version=Known(answer.version, source="platform.python_version()"),
        origin=origin,
        packages=Known(answer.packages, source="names of *.dist-info and conda-meta"),
        frameworks=_read_frameworks(python, answer, deadline, env)
        if frameworks
        else Unknown("frameworks were not asked"),
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
        with contextlib.suppress(OSError):  # no room for temporary files: then last words are lost, and no more
            folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="ownlab-", ignore_cleanup_errors=True))

        def read(name: str) -> Framework:
            return _read_framework(python, name, folder and os.path.join(folder, name), deadline, env)

        return Known(call_each(read, installed.frameworks), source="a child process each")


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
        failure, happened, stderr = "hang", f"{name} did not answer in {deadline:g} s", ""
    except guest_client.GuestCrashed as exc:
        failure, stderr = "crash", exc.stderr
        happened = f"{runner.describe_exit(exc.returncode)} while {name} was asked"
    except InterpreterError as exc:
        failure, happened, stderr = "crash", exc.message, ""
    said = (_read_text(transcript) if transcript else "") + stderr
    place = _scene(said)
    error = "\n".join([happened + (f", in {place}" if place else ""), *_last_words(said)])
    return Framework(name=name, devices=Unknown(happened), error=error, failure=failure)


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:  # it ended before it had begun to keep one: nothing was said
        return ""


def _last_words(said: str) -> list[str]:
    """What the framework itself wrote last, without faulthandler's report of the end."""
    report = _REPORT.search(said)
    own = said[: report.start()] if report else said
    return [line.rstrip() for line in own.splitlines() if line.strip()][-_LINES_KEPT:]


def _scene(said: str) -> str | None:
    """Where Python stood when it crashed or hung: "torch/__init__.py, line 7"."""
    blocks = list(_FRAMES.finditer(said))
    if not blocks:
        return None
    # Of a crash, the thread that crashed; of a hang, the main thread, which faulthandler writes last.
    block = next((each for each in blocks if each["thread"] == "Current thread"), blocks[-1])
    frame = _FRAME.search(block["frames"])
    return f"{frame['file']}, line {frame['line']}" if frame else None


# --- the interpreter --------------------------------------------------------------------------------------------------


def _version_without_guest(python: str, env: Mapping[str, str] | None) -> Known[str] | Unknown:
    """The version of a Python that is too old even to start our guest code."""
    code = "import sys; print('Python %d.%d.%d' % sys.version_info[:3])"
    try:
        ran = runner.run([python, "-c", code], deadline=_PACKAGES_SECONDS, env={**os.environ, **(env or {})})
    except OwnlabError as exc:
        return Unknown(exc.message)
    match = re.fullmatch(r"Python (2\.\d+\.\d+|3\.[0-8]\.\d+)", ran.stdout.strip())
    return Known(match[1], source="sys.version_info") if match else Unknown("it is not an old Python")


def _too_old(version: str) -> str:
    oldest = ".".join(str(part) for part in _OLDEST)
    return f"Python {version} is too old to be asked: ownlab needs {oldest} or newer there"


def _why_not(python: str, exc: OwnlabError) -> str:
    try:
        os.stat(python)
    except FileNotFoundError:
        return f"{python} does not exist" if os.sep in python and not os.path.lexists(python) else exc.message
    except OSError as refusal:  # a closed folder, say
        return f"{python} cannot be looked at: {refusal.strerror}"
    if os.path.isfile(python) and not os.access(python, os.X_OK):
        return f"{python} may not be executed"
    return exc.message


def _read_others(python: str, environ: Mapping[str, str]) -> Fact[tuple[str, ...]]:
    try:
        found = BackgroundCall(lambda: tuple(_other_interpreters(python, environ))).result(_PATH_SECONDS)
    except DeadlineError:
        return Unknown(f"the folders of PATH did not answer in {_PATH_SECONDS:g} s")
    return Known(found, source="PATH")


def _other_interpreters(python: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Further Pythons on PATH, by their names alone, an environment each."""
    seen = {_environment_of(python)}
    for folder in environ.get("PATH", "").split(os.pathsep):
        try:
            names = sorted(os.listdir(folder)) if folder else []
        except OSError:  # PATH names folders that are not there
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
    """What tells two interpreters apart: a virtual environment's folder, else the program behind all links.

    The program alone does not do: a virtual environment's is the one that it was made with.
    """
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    return prefix if os.path.exists(os.path.join(prefix, "pyvenv.cfg")) else os.path.realpath(python)

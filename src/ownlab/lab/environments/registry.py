"""The Python environments that runtimes can start in: ownlab's own, and those that a person added by name."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab import guest_client
from ownlab.config.paths import state_folder
from ownlab.config.target import OWN_PYTHON, resolve_machine_options
from ownlab.errors import InterpreterError, LabError, RecordError, UsageError
from ownlab.file_lock import LOCK_SECONDS, wait_for_lock
from ownlab.files import replace_file
from ownlab.json_encoding import encode_json
from ownlab.text import text

__all__ = [
    "DEFAULT",
    "Environment",
    "EnvironmentList",
    "EnvironmentUnfit",
    "add_environment",
    "find_python",
    "list_environments",
    "own_python",
    "remove_environment",
]

DEFAULT = "default"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
# Importing ipykernel from a cold network disk takes its time.
_PROBE_SECONDS = 60.0
_OLDEST = (3, 9)


class Environment(Struct, frozen=True):
    """An interpreter that has ipykernel, under a name."""

    name: str
    python: str
    version: str = ""  # of Python, when it was added
    ipykernel: str = ""

    @property
    def is_there(self) -> bool:
        """Whether its interpreter can still be started."""
        return os.access(self.python, os.X_OK)


class EnvironmentList(Struct, frozen=True):
    """What environments.json holds, and what `ownlab env --json` prints."""

    environments: tuple[Environment, ...] = ()


class EnvironmentUnfit(InterpreterError):
    """The Python runs, and lacks what a runtime needs. The message says all of it."""

    meaning = ""


class _Answer(Struct, frozen=True):
    """What `ownlab_guest/probe/ipykernel_check.py` answers."""

    version: str
    prefix: str
    ipykernel: str | None = None
    error: str | None = None
    missing: bool = False


def list_environments(environ: Mapping[str, str] = os.environ) -> tuple[Environment, ...]:
    """Those that were added, in the order of their names."""
    path = _file(environ, make=False)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as exc:
        raise LabError(f"{path} cannot be read: {exc.strerror}") from exc
    try:
        found = msgspec.json.decode(data, type=EnvironmentList).environments
    except msgspec.DecodeError as exc:
        raise RecordError(
            f"{path} is damaged: {exc}", hint="Remove it, then add your environments anew: ownlab env add"
        ) from exc
    return tuple(sorted(found, key=lambda environment: environment.name))


def find_python(asked: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """The interpreter that is meant: the one asked for, else that of the active environment."""
    options = resolve_machine_options(python=asked, environ=environ)
    if asked is None and (options.python_origin == OWN_PYTHON or _is_own(options.python)):
        raise UsageError(
            "no environment but ownlab's own is active, and that one is there already",
            hint="Name an interpreter or an environment's folder: --python PATH. Or activate one first.",
        )
    # Never realpath: an environment's python is a link, and being called by its own name is what makes it that one.
    return os.path.abspath(options.python)


def own_python() -> str:
    """The interpreter that runs ownlab, under one name: it may have been started as python, python3 or python3.11."""
    usual = os.path.join(os.path.dirname(sys.executable), "python")
    return usual if os.path.exists(usual) and os.path.samefile(usual, sys.executable) else sys.executable


def _is_own(python: str) -> bool:
    return os.path.dirname(os.path.abspath(python)) == os.path.dirname(sys.executable)


def add_environment(name: str, python: str, environ: Mapping[str, str] = os.environ) -> Environment:
    """Record an interpreter under a name, once it has shown that it can run a kernel."""
    if _NAME.fullmatch(name) is None or name == DEFAULT:
        raise UsageError(
            f"{name!r} is no name for an environment",
            hint=f"A name is of small letters, digits and hyphens, 40 at the most, and not {DEFAULT!r}.",
        )
    _refuse_twice(name, list_environments(environ))
    added = _probe(name, python)
    with _locked(environ):
        known = list_environments(environ)
        _refuse_twice(name, known)
        _write((*known, added), environ)
    return added


def remove_environment(name: str, environ: Mapping[str, str] = os.environ) -> Environment:
    """Forget an environment. Nothing of it is deleted."""
    with _locked(environ):
        known = {environment.name: environment for environment in list_environments(environ)}
        if name not in known:
            there = f"There is: {', '.join(known)}." if known else "None was added yet."
            raise UsageError(f"there is no environment named {name!r}", hint=there)
        removed = known.pop(name)
        _write(tuple(known.values()), environ)
    return removed


def _refuse_twice(name: str, known: tuple[Environment, ...]) -> None:
    for environment in known:
        if environment.name == name:
            raise UsageError(
                f"there is an environment named {name!r} already: {environment.python}",
                hint=f"Choose another name, or first: ownlab env remove {name}",
            )


def _probe(name: str, python: str) -> Environment:
    _refuse_no_interpreter(python)
    answer = guest_client.ask(python, "probe.ipykernel_check", answer=_Answer, deadline=_PROBE_SECONDS)
    if tuple(int(part) for part in re.findall(r"\d+", answer.version)[:2]) < _OLDEST:
        raise EnvironmentUnfit(f"{python} is Python {answer.version}; a runtime needs 3.9 or newer")
    if answer.ipykernel is None:
        install = f"{shlex.quote(python)} -m pip install"
        if answer.missing:
            raise EnvironmentUnfit(
                f"{python} has no ipykernel, so no notebook can run in it",
                hint=f"Install it, then add the environment again: {install} ipykernel",
            )
        raise EnvironmentUnfit(
            f"{python} has an ipykernel that does not work: {answer.error}",
            hint=f"Mend it, then add the environment again: {install} --force-reinstall ipykernel",
        )
    return Environment(name, python, answer.version, answer.ipykernel)


def _refuse_no_interpreter(python: str) -> None:
    if os.path.isdir(python):
        raise EnvironmentUnfit(f"the folder {python} has no bin/python in it", hint="Name an environment's folder.")
    if not os.path.exists(python):
        raise EnvironmentUnfit(f"{python} is not there", hint="Name an interpreter, or an environment's folder.")
    if not os.access(python, os.X_OK):
        raise EnvironmentUnfit(
            f"{python} is a file that you may not run: it is no Python interpreter",
            hint="Name an interpreter, or an environment's folder.",
        )


def _file(environ: Mapping[str, str], *, make: bool) -> Path:
    return state_folder(environ, make=make) / "environments.json"


def _write(environments: tuple[Environment, ...], environ: Mapping[str, str]) -> None:
    path = _file(environ, make=True)
    text = msgspec.json.format(encode_json(EnvironmentList(environments)), indent=1).decode()
    try:
        replace_file(str(path), text + "\n")
    except OSError as exc:
        raise LabError(f"{path} cannot be written: {exc.strerror}") from exc


@contextlib.contextmanager
def _locked(environ: Mapping[str, str]) -> Iterator[None]:
    """One writer at a time: each reads what there is, and writes it back changed."""
    path = f"{_file(environ, make=True)}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise LabError(f"{path} cannot be made: {exc.strerror}") from exc
    try:
        message = text("Another ownlab process has locked {path} for {seconds:g} s.", path=path, seconds=LOCK_SECONDS)
        wait_for_lock(descriptor, LabError(message))
        yield
    finally:
        os.close(descriptor)

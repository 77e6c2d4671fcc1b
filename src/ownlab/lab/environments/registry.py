"""The Python environments that runtimes can start in: ownlab's own, and those that the user added by name."""

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
from ownlab.atomic_files import replace_file
from ownlab.config.machine_options import OWN_PYTHON, resolve_machine_options
from ownlab.config.paths import state_folder
from ownlab.errors import InterpreterError, LabError, RecordError, UsageError
from ownlab.file_lock import LOCK_SECONDS, wait_for_lock
from ownlab.json_encoding import encode_json
from ownlab.text import listing, text

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
# Importing ipykernel from a cold network disk is slow.
_PROBE_SECONDS = 60.0
_OLDEST = (3, 9)


class Environment(Struct, frozen=True):
    """A named interpreter that has ipykernel."""

    name: str
    python: str
    version: str = ""  # of Python, when it was added
    ipykernel: str = ""

    @property
    def is_there(self) -> bool:
        """Whether its interpreter can still be started."""
        return os.access(self.python, os.X_OK)


class EnvironmentList(Struct, frozen=True):
    """The content of environments.json, and of `ownlab env --json`."""

    environments: tuple[Environment, ...] = ()


class EnvironmentUnfit(InterpreterError):
    """The interpreter works but lacks what a runtime needs. The message is complete."""

    meaning = ""


class _Answer(Struct, frozen=True):
    """The answer of `ownlab_guest/probe/ipykernel_check.py`."""

    version: str
    prefix: str
    ipykernel: str | None = None
    error: str | None = None
    missing: bool = False


def list_environments(environ: Mapping[str, str] = os.environ) -> tuple[Environment, ...]:
    """Return the environments that were added, sorted by name."""
    path = _file(environ, make=False)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as exc:
        raise LabError(text("{path} cannot be read: {reason}.", path=path, reason=exc.strerror)) from exc
    try:
        environments = msgspec.json.decode(data, type=EnvironmentList).environments
    except msgspec.DecodeError as exc:
        raise RecordError(
            text("{path} is damaged: {error}.", path=path, error=exc),
            hint=text("Remove it, then add your environments again: ownlab env add"),
        ) from exc
    return tuple(sorted(environments, key=lambda environment: environment.name))


def find_python(asked: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the requested interpreter, or that of the active environment."""
    options = resolve_machine_options(python=asked, environ=environ)
    if asked is None and (options.python_origin == OWN_PYTHON or _is_own(options.python)):
        raise UsageError(
            text("The only active environment is ownlab's own, which is always available."),
            hint=text(
                "Name an interpreter or an environment's folder (--python PATH), or activate an environment first."
            ),
        )
    # Never realpath: an environment's python is a link, and Python finds the environment by the name it is called with.
    return os.path.abspath(options.python)


def own_python() -> str:
    """The interpreter that runs ownlab, always under the same name: it may be started as python, python3 or python3.11."""
    usual = os.path.join(os.path.dirname(sys.executable), "python")
    return usual if os.path.exists(usual) and os.path.samefile(usual, sys.executable) else sys.executable


def _is_own(python: str) -> bool:
    return os.path.dirname(os.path.abspath(python)) == os.path.dirname(sys.executable)


def add_environment(name: str, python: str, environ: Mapping[str, str] = os.environ) -> Environment:
    """Add an interpreter under a name, after checking that it can run a kernel."""
    if _NAME.fullmatch(name) is None or name == DEFAULT:
        raise UsageError(
            text("{name!r} is not a valid name for an environment.", name=name),
            hint=text("Use at most 40 lower-case letters, digits and hyphens, and not {reserved!r}.", reserved=DEFAULT),
        )
    _check_new(name, list_environments(environ))
    added = _probe(name, python)
    with _locked(environ):
        known = list_environments(environ)
        _check_new(name, known)
        _write((*known, added), environ)
    return added


def remove_environment(name: str, environ: Mapping[str, str] = os.environ) -> Environment:
    """Remove an environment from the list. Its files are not deleted."""
    with _locked(environ):
        known = {environment.name: environment for environment in list_environments(environ)}
        if name not in known:
            hint = (
                text("Known environments: {names}.", names=listing(known))
                if known
                else text("None has been added yet.")
            )
            raise UsageError(text("There is no environment named {name!r}.", name=name), hint=hint)
        removed = known.pop(name)
        _write(tuple(known.values()), environ)
    return removed


def _check_new(name: str, known: tuple[Environment, ...]) -> None:
    for environment in known:
        if environment.name == name:
            raise UsageError(
                text("There is already an environment named {name!r}: {python}.", name=name, python=environment.python),
                hint=text("Choose another name, or remove it first: ownlab env remove {name}", name=name),
            )


def _probe(name: str, python: str) -> Environment:
    _check_interpreter(python)
    answer = guest_client.ask(python, "probe.ipykernel_check", answer=_Answer, deadline=_PROBE_SECONDS)
    if tuple(int(part) for part in re.findall(r"\d+", answer.version)[:2]) < _OLDEST:
        message = text(
            "{python} is Python {version}; a runtime needs 3.9 or newer.", python=python, version=answer.version
        )
        raise EnvironmentUnfit(message)
    if answer.ipykernel is None:
        pip = f"{shlex.quote(python)} -m pip install"
        if answer.missing:
            raise EnvironmentUnfit(
                text("{python} has no ipykernel, so it cannot run notebooks.", python=python),
                hint=text("Install it, then add the environment again: {pip} ipykernel", pip=pip),
            )
        raise EnvironmentUnfit(
            text("{python} has an ipykernel that does not work: {error}.", python=python, error=answer.error),
            hint=text("Fix it, then add the environment again: {pip} --force-reinstall ipykernel", pip=pip),
        )
    return Environment(name, python, answer.version, answer.ipykernel)


def _check_interpreter(python: str) -> None:
    if os.path.isdir(python):
        message = text("The folder {python} does not contain bin/python.", python=python)
        raise EnvironmentUnfit(message, hint=text("Name an environment's folder."))
    if not os.path.exists(python):
        message = text("{python} does not exist.", python=python)
        raise EnvironmentUnfit(message, hint=text("Name an interpreter, or an environment's folder."))
    if not os.access(python, os.X_OK):
        raise EnvironmentUnfit(
            text("{python} is not executable: it is not a Python interpreter.", python=python),
            hint=text("Name an interpreter, or an environment's folder."),
        )


def _file(environ: Mapping[str, str], *, make: bool) -> Path:
    return state_folder(environ, make=make) / "environments.json"


def _write(environments: tuple[Environment, ...], environ: Mapping[str, str]) -> None:
    path = _file(environ, make=True)
    content = msgspec.json.format(encode_json(EnvironmentList(environments)), indent=1).decode()
    try:
        replace_file(str(path), content + "\n")
    except OSError as exc:
        raise LabError(text("{path} cannot be written: {reason}.", path=path, reason=exc.strerror)) from exc


@contextlib.contextmanager
def _locked(environ: Mapping[str, str]) -> Iterator[None]:
    """Allow one writer at a time: each reads the list, changes it and writes it back."""
    path = f"{_file(environ, make=True)}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise LabError(text("{path} cannot be created: {reason}.", path=path, reason=exc.strerror)) from exc
    try:
        message = text("Another ownlab process has locked {path} for {seconds:g} s.", path=path, seconds=LOCK_SECONDS)
        wait_for_lock(descriptor, LabError(message))
        yield
    finally:
        os.close(descriptor)

"""The Python environments that runtimes can start in: ownlab's own, and those that the user added by name."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab import guest_client
from ownlab.atomic_files import replace_file
from ownlab.config.machine_options import OWN_PYTHON, resolve_machine_options
from ownlab.config.paths import state_folder
from ownlab.errors import InterpreterError, LabError, RecordError, UsageError
from ownlab.file_lock import LOCK_SECONDS, wait_for_lock
from ownlab.input_files import read_bytes
from ownlab.json_encoding import decode_json, encode_json
from ownlab.text import listing, text

__all__ = [
    "DEFAULT",
    "Environment",
    "EnvironmentList",
    "EnvironmentUnfit",
    "add_environment",
    "add_offered",
    "check_free",
    "check_name",
    "environments_file",
    "find_environment",
    "find_python",
    "is_declined",
    "list_environments",
    "own_python",
    "probe_environment",
    "register_environment",
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
    offered: bool = False  # added by `ownlab up`, because it was active
    created: bool = False  # by ownlab (`ownlab env create`), which deletes its files when it is removed

    @property
    def is_there(self) -> bool:
        """Whether its interpreter can still be started."""
        return os.access(self.python, os.X_OK)


class EnvironmentList(Struct, frozen=True):
    """The content of environments.json."""

    environments: tuple[Environment, ...] = ()
    declined: tuple[str, ...] = ()  # interpreters of active environments that a person removed from the list


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
    return tuple(sorted(_read(environ).environments, key=lambda environment: environment.name))


def _read(environ: Mapping[str, str]) -> EnvironmentList:
    path = _file(environ, make=False)
    if not os.path.lexists(path):
        return EnvironmentList()
    data = read_bytes(path)
    try:
        return decode_json(data, EnvironmentList)
    except msgspec.DecodeError as exc:
        raise RecordError(
            text("{path} is damaged: {error}.", path=path, error=exc),
            hint=text("Remove it, then add your environments again: ownlab env add"),
        ) from exc


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
    check_name(name)
    check_free(name, list_environments(environ))
    return _add(probe_environment(name, python), environ)


def add_offered(name: str, python: str, environ: Mapping[str, str] = os.environ) -> Environment:
    """Add an active environment that nobody asked for. Once a person removes it, it is not offered again."""
    return _add(msgspec.structs.replace(probe_environment(name, python), offered=True), environ)


def is_declined(python: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a person removed this interpreter from the list after it had been offered."""
    return python in _read(environ).declined


def _add(added: Environment, environ: Mapping[str, str]) -> Environment:
    with _locked(environ):
        content = _read(environ)
        check_free(added.name, content.environments)
        declined = tuple(python for python in content.declined if python != added.python)
        _write(EnvironmentList((*content.environments, added), declined), environ)
    return added


def check_name(name: str, *, reserved: bool = True) -> None:
    """Refuse a name that cannot be one of an environment. The default environment has a reserved one."""
    if _NAME.fullmatch(name) is None or (reserved and name == DEFAULT):
        hint = text("Use at most 40 lower-case letters, digits and hyphens.")
        if reserved:
            hint = text(
                "Use at most 40 lower-case letters, digits and hyphens, and not {reserved!r}.", reserved=DEFAULT
            )
        raise UsageError(text("{name!r} is not a valid name for an environment.", name=name), hint=hint)


def register_environment(environment: Environment, environ: Mapping[str, str] = os.environ) -> None:
    """List an environment that was checked, in place of an earlier one of its name."""
    with _locked(environ):
        content = _read(environ)
        others = tuple(each for each in content.environments if each.name != environment.name)
        _write(EnvironmentList((*others, environment), content.declined), environ)


def remove_environment(name: str, environ: Mapping[str, str] = os.environ) -> Environment:
    """Remove an environment from the list. Its files are not deleted."""
    with _locked(environ):
        content = _read(environ)
        removed = _find(name, content.environments)
        declined = (*content.declined, removed.python) if removed.offered else content.declined
        others = tuple(each for each in content.environments if each.name != name)
        _write(EnvironmentList(others, declined), environ)
    return removed


def find_environment(name: str, environ: Mapping[str, str] = os.environ) -> Environment:
    """Return the environment of that name. UsageError, with the known names, if there is none."""
    return _find(name, list_environments(environ))


def _find(name: str, known: Sequence[Environment]) -> Environment:
    for environment in known:
        if environment.name == name:
            return environment
    names = [environment.name for environment in known]
    hint = text("Known environments: {names}.", names=listing(names)) if names else text("None has been added yet.")
    raise UsageError(text("There is no environment named {name!r}.", name=name), hint=hint)


def check_free(name: str, known: Iterable[Environment]) -> None:
    """Refuse a name that one of these environments has."""
    for environment in known:
        if environment.name == name:
            raise UsageError(
                text("There is already an environment named {name!r}: {python}.", name=name, python=environment.python),
                hint=text("Choose another name, or remove it first: ownlab env remove {name}", name=name),
            )


def probe_environment(name: str, python: str) -> Environment:
    """Check that an interpreter can run a kernel. EnvironmentUnfit, with the remedy, if it cannot."""
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


def environments_file(environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of environments.json, whether or not it exists."""
    return str(_file(environ, make=False))


def _file(environ: Mapping[str, str], *, make: bool) -> Path:
    return state_folder(environ, make=make) / "environments.json"


def _write(content: EnvironmentList, environ: Mapping[str, str]) -> None:
    path = _file(environ, make=True)
    try:
        replace_file(str(path), msgspec.json.format(encode_json(content), indent=1) + b"\n")
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

"""Builds of environments: their state on disk, and how they are started, followed, cancelled and listed.

Files of the environment NAME, in the folder of environments:
NAME/                     the environment
.builds/NAME/build.json   the request, and how far its build is or how it ended
.builds/NAME/lock         held by the process that builds; contains its pid and host
.builds/NAME/log          the output of a build in the background
.builds/NAME/pylock.toml  what is installed, as resolved
A build is registered (environments.json) when it is complete and was checked, never before.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ownlab.atomic_files import replace_file
from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import environments_folder
from ownlab.errors import LabError, UsageError
from ownlab.file_lock import try_lock
from ownlab.json_encoding import encode_json
from ownlab.lab.environments.presets import PRESETS, package_name, requirements
from ownlab.lab.environments.records import (
    BuildStatus,
    EnvironmentProgress,
    Environments,
    EnvironmentState,
    NewEnvironment,
)
from ownlab.lab.environments.registry import (
    DEFAULT,
    Environment,
    check_free,
    check_name,
    list_environments,
    remove_environment,
)
from ownlab.languages import english_environment
from ownlab.text import Text, listing, text

__all__ = [
    "Build",
    "EnvironmentDocument",
    "build_folder",
    "build_lock",
    "cancel_build",
    "complete_request",
    "environment_folder",
    "environment_states",
    "first_progress",
    "is_building",
    "is_ready",
    "read_build",
    "remove_environment_or_build",
    "start_build",
    "write_build",
]

_FILE, _LOCK, _LOG = "build.json", "lock", "log"
_CANCEL_SECONDS = 15.0
# "removed": a person removed it, so that `ownlab up` does not build it again.
Outcome = Literal["building", "updating", "ready", "failed", "cancelled", "removed"]


class Build(Struct, frozen=True):
    """The content of build.json."""

    request: NewEnvironment
    outcome: Outcome
    progress: EnvironmentProgress | None = None
    error: str = ""
    hint: str = ""
    notes: tuple[str, ...] = ()
    proof: str = ""
    proven: bool | None = None
    size_bytes: int | None = None
    seconds: float | None = None  # the build took


class EnvironmentDocument(Struct, frozen=True):
    """`ownlab env --json`."""

    environments: tuple[Environment, ...]  # those that runtimes can start in
    states: tuple[EnvironmentState, ...] = ()  # also builds, with their progress


def _folder(environ: Mapping[str, str]) -> Path:
    chosen = resolve_lab_options(environ=environ).environments_folder
    return Path(chosen) if chosen else environments_folder(environ)


def environment_folder(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of an environment that ownlab creates."""
    return _folder(environ) / name


def build_folder(name: str, environ: Mapping[str, str] = os.environ, *, make: bool = True) -> Path:
    """Return the folder with the files of a build; create it if necessary."""
    folder = _folder(environ) / ".builds" / name
    if make:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise LabError(
                text("Cannot create {folder}: {reason}.", folder=folder, reason=exc.strerror),
                hint=text("Choose another folder: OWNLAB_ENVIRONMENTS_FOLDER=PATH, or the setting environments.folder"),
            ) from exc
    return folder


def read_build(name: str, environ: Mapping[str, str] = os.environ) -> Build | None:
    """Return the last state of a build; None if there was none, or its record is damaged."""
    try:
        return msgspec.json.decode((build_folder(name, environ, make=False) / _FILE).read_bytes(), type=Build)
    except (OSError, msgspec.DecodeError):  # the environment itself is registered elsewhere
        return None


def write_build(name: str, build: Build, environ: Mapping[str, str] = os.environ) -> None:
    """Replace the state of a build. It may quote addresses, so only its owner may read it."""
    path = build_folder(name, environ) / _FILE
    try:
        replace_file(str(path), encode_json(build))
    except OSError as exc:
        raise LabError(text("{path} cannot be written: {reason}.", path=path, reason=exc.strerror)) from exc


# --- one builder at a time ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def build_lock(name: str, environ: Mapping[str, str] = os.environ, *, inherited: int | None = None) -> Iterator[bool]:
    """Hold the lock of a build; yields False if another process builds it. `inherited`: a descriptor that holds it."""
    if inherited is None:
        descriptor = _open_lock(name, environ)
        taken = try_lock(descriptor)
    else:
        os.set_inheritable(inherited, False)
        descriptor, taken = inherited, True
    try:
        if taken:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        yield taken
    finally:
        os.close(descriptor)


def _open_lock(name: str, environ: Mapping[str, str]) -> int:
    return os.open(build_folder(name, environ) / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _builder(name: str, environ: Mapping[str, str]) -> tuple[int, str] | None:
    """Return pid and host of the process that builds; None if there is none."""
    try:
        descriptor = os.open(build_folder(name, environ, make=False) / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if try_lock(descriptor, shared=True):
            return None
        words = os.pread(descriptor, 300, 0).decode(errors="replace").split()
    finally:
        os.close(descriptor)
    return (int(words[0]), words[1]) if len(words) == 2 and words[0].isdigit() else (0, "")


def is_building(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a process builds it now."""
    return _builder(name, environ) is not None


def is_ready(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether ownlab has created it, and nothing is left to do."""
    build = read_build(name, environ)
    registered = any(each.name == name and each.created and each.is_there for each in list_environments(environ))
    return registered and build is not None and build.outcome == "ready" and not is_building(name, environ)


def complete_request(request: NewEnvironment, environ: Mapping[str, str] = os.environ) -> NewEnvironment:
    """Check a request and complete it. UsageError if it cannot be built.

    A request with a name alone continues what was requested before under that name.
    """
    preset = PRESETS.get(request.preset)
    name = request.name or (preset.environment if preset else "")
    check_name(name, reserved=False)
    before = read_build(name, environ)
    request = msgspec.structs.replace(request, name=name)
    if request == NewEnvironment(name=name) and before is not None:
        request = before.request
    elif name == DEFAULT and not request.preset:
        request = msgspec.structs.replace(request, preset=DEFAULT)
    requirements(request)  # checks the preset and the packages
    check_free(name, (each for each in list_environments(environ) if not each.created))  # one that a person added
    if before is None or before.request == request:
        return request
    if is_building(name, environ):
        raise LabError(
            text("The environment {name!r} is being built with other packages.", name=name),
            hint=text("Wait until it is ready, or cancel it first."),
        )
    if any(each.name == name for each in list_environments(environ)):
        raise UsageError(
            text("There is already an environment named {name!r} with other packages.", name=name),
            hint=text("Choose another name, or remove it first: ownlab env remove {name}", name=name),
        )
    return request


def start_build(request: NewEnvironment, environ: Mapping[str, str] = os.environ) -> str:
    """Build an environment in a process of its own, which outlives this one; return its name."""
    request = complete_request(request, environ)
    name = request.name
    if is_building(name, environ):
        return name
    descriptor = _open_lock(name, environ)
    try:
        if not try_lock(descriptor):  # another page was faster
            return name
        write_build(name, Build(request, "building", first_progress()), environ)
        # The child inherits the lock, so that at no time anybody believes that the builder has died.
        _spawn(name, ("--lock", str(descriptor)), descriptor, environ)
    finally:
        os.close(descriptor)
    return name


def _spawn(name: str, arguments: tuple[str, ...], descriptor: int, environ: Mapping[str, str]) -> None:
    log = os.open(build_folder(name, environ) / _LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(log, "wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "ownlab", "env", "create", name, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=english_environment(environ),
            cwd="/",  # `-m` searches the working folder first
            start_new_session=True,
            pass_fds=(descriptor,),
        )
    threading.Thread(target=child.wait, daemon=True, name="environment-build").start()  # leaves no zombie


def first_progress() -> EnvironmentProgress:
    """Return the progress of a build that begins."""
    return EnvironmentProgress("resolving", text("Looking for the packages."), None, None, None, time.time())


def cancel_build(name: str, environ: Mapping[str, str] = os.environ) -> None:
    """Stop a build. What was downloaded stays in uv's cache. LabError if it is not being built."""
    builder, build = _builder(name, environ), read_build(name, environ)
    if build is None or build.outcome not in ("building", "updating"):  # its builder may still be ending
        raise LabError(text("The environment {name!r} is not being built.", name=name))
    if builder is None:
        write_build(name, msgspec.structs.replace(build, outcome="cancelled", progress=None), environ)
        return
    pid, host = builder
    if host != socket.gethostname():
        raise LabError(
            text("The environment {name!r} is being built on {host}: cancel it there.", name=name, host=host)
        )
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _CANCEL_SECONDS
    while is_building(name, environ) and time.monotonic() < deadline:
        time.sleep(0.05)


# --- lists ----------------------------------------------------------------------------------------------------------------


def environment_states(environ: Mapping[str, str] = os.environ) -> Environments:
    """Return every environment that was added or created, and every build that is running or did not end well."""
    states = {each.name: _registered(each, environ) for each in list_environments(environ)}
    for name in _built_names(environ):
        build = None if name in states else read_build(name, environ)
        if build is not None and (unfinished := _unfinished(name, build, environ)) is not None:
            states[name] = unfinished
    return Environments(tuple(states[name] for name in sorted(states)), tuple(PRESETS.values()))


def _built_names(environ: Mapping[str, str]) -> list[str]:
    try:
        return sorted(os.listdir(_folder(environ) / ".builds"))
    except OSError:
        return []


def _registered(environment: Environment, environ: Mapping[str, str]) -> EnvironmentState:
    build = read_build(environment.name, environ) if environment.created else None
    if build is None:
        build = Build(NewEnvironment(environment.name), "ready")
    status: BuildStatus = "ready" if environment.is_there else "missing"
    if build.outcome in ("building", "updating"):
        status = "updating" if is_building(environment.name, environ) else "interrupted"
    return _state(environment.name, status, build, environment)


def _unfinished(name: str, build: Build, environ: Mapping[str, str]) -> EnvironmentState | None:
    if is_building(name, environ):
        return _state(name, "building", build, None)
    if build.outcome in ("building", "updating"):
        return _state(name, "interrupted", build, None)
    if build.outcome == "failed" or build.outcome == "cancelled":
        return _state(name, build.outcome, build, None)
    return None  # removed


def _state(name: str, status: BuildStatus, build: Build, environment: Environment | None) -> EnvironmentState:
    running = status in ("building", "updating")
    return EnvironmentState(
        name=name,
        status=status,
        created=environment is None or environment.created,
        preset=build.request.preset,
        packages=_requested(build.request),
        python=environment.python if environment else "",
        version=environment.version if environment else "",
        size_bytes=build.size_bytes,
        proof=build.proof,
        proven=build.proven,
        progress=(build.progress or first_progress()) if running else None,
        error="" if running else build.error,
        hint="" if running else build.hint,
        notes=build.notes,
    )


def _requested(request: NewEnvironment) -> tuple[str, ...]:
    preset = PRESETS.get(request.preset)
    named = {package_name(each) for each in request.packages}
    rest = preset.packages if preset else ()
    return (*request.packages, *(each for each in rest if each not in named))


# --- removal --------------------------------------------------------------------------------------------------------------


def remove_environment_or_build(name: str, environ: Mapping[str, str] = os.environ) -> Environment | None:
    """Remove an environment: one that was added from the list alone, one that ownlab created with its files.

    Returns the one that was only taken from the list.
    """
    registered = next((each for each in list_environments(environ) if each.name == name), None)
    if registered is None or registered.created:
        if registered is None and read_build(name, environ) is None:
            return remove_environment(name, environ)  # says that there is none
        _remove_created(name, environ)
        return None
    return remove_environment(name, environ)


def _remove_created(name: str, environ: Mapping[str, str] = os.environ) -> None:
    """Remove an environment that ownlab created, or the rest of a build, with its files.

    LabError while a process uses it or builds it.
    """
    folder = environment_folder(name, environ)
    with build_lock(name, environ) as taken:
        if not taken:
            raise LabError(
                text("The environment {name!r} is being built.", name=name), hint=text("Cancel the build first.")
            )
        users = _users(folder)
        if users:
            raise LabError(
                text("The environment {name!r} is in use by {processes}.", name=name, processes=listing(users)),
                hint=text("Stop its runtimes first: ownlab runtimes"),
            )
        before = read_build(name, environ)
        if any(each.name == name for each in list_environments(environ)):
            remove_environment(name, environ)
        _delete(folder)
        if name == DEFAULT and before is not None:  # `ownlab up` does not build it again
            write_build(name, Build(before.request, "removed"), environ)
            return
    _delete(build_folder(name, environ, make=False))


def _users(folder: Path) -> list[Text]:
    """Return the processes whose program is in the folder."""
    start = os.fsencode(folder) + os.fsencode(os.sep)
    found = []
    for pid in (entry for entry in _processes() if entry.isdigit()):
        with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
            if Path("/proc", pid, "cmdline").read_bytes().startswith(start):
                found.append(text("process {pid}", pid=pid))
    return found


def _processes() -> list[str]:
    return os.listdir("/proc") if os.path.isdir("/proc") else []


def _delete(folder: Path) -> None:
    """Delete a folder. It is renamed first: what remains of an interrupted removal looks like no environment."""
    doomed = folder.with_name(f".removed-{folder.name}-{os.getpid()}")
    try:
        os.rename(folder, doomed)
        shutil.rmtree(doomed)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise LabError(text("{folder} cannot be deleted: {reason}.", folder=folder, reason=exc.strerror)) from exc

"""Files between a page and a kernel of Colab's kind: into the runtime's own folder, and out of the folders of the lab."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import content_folder, drive_folder
from ownlab.errors import InputError, LabError, UsageError
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.runtimes.state import lives, plan_of, read_state

__all__ = [
    "Elsewhere",
    "Gone",
    "Opened",
    "is_in_colab_mode",
    "notebook_of",
    "open_outward",
    "outward_folders",
    "retire_contents",
    "write_piece",
]

# What google.colab calls the folders that it makes for uploads, in the runtime's own folder.
_STAGING = ".ownlab-"
# Opening a pipe would make us wait.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Elsewhere(InputError):
    """The path is in none of the folders that this door opens."""

    http_status = 403


class Gone(InputError):
    """There is no such file, or no such runtime."""

    http_status = 404


class Opened(NamedTuple):
    """A file that may be read."""

    descriptor: int
    path: str  # its real path
    size: int


def write_piece(runtime: str, folder: str, number: int, offset: int, data: bytes) -> tuple[str, int]:
    """Write a part of an upload's file into the folder that the kernel made for it; the file's path and size so far.

    Files have numbers for names, so that no name of a person's ever is a path. A part may come again.
    """
    content = str(content_folder(_plan(runtime).runtime))
    above, name = os.path.split(folder)
    if os.path.realpath(above) != os.path.realpath(content) or not name.startswith(_STAGING):
        raise Elsewhere(f"{folder} is no folder for uploads of this runtime")
    try:
        staging = _enter(content, [name])
        try:
            descriptor = os.open(str(number), _WRITE, 0o600, dir_fd=staging)
        finally:
            os.close(staging)
        with open(descriptor, "wb", buffering=0) as file:
            return os.path.join(folder, str(number)), _put(file.fileno(), offset, data)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Elsewhere(f"{folder} is no folder for uploads of this runtime") from exc
        if exc.errno == errno.ENOENT:
            raise Gone("nobody waits for this upload any more") from exc
        raise LabError(f"the upload cannot be written: {exc.strerror}") from exc


def outward_folders(runtime: str, lab: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """From where a page may have files: the runtime's own folder, the person's drive, the lab's folder."""
    drive = resolve_lab_options(environ=environ).drive_folder or str(drive_folder(environ))
    return [str(content_folder(_plan(runtime).runtime, environ)), drive, lab]


def open_outward(path: str, folders: Sequence[str]) -> Opened:
    """Open a file in one of these folders; where links lead out of them, it is in none."""
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError("the path of a file is absolute")
    real = os.path.realpath(path)
    root = next((each for each in map(os.path.realpath, folders) if real.startswith(os.path.join(each, ""))), None)
    if root is None:
        raise Elsewhere(f"{path} is neither in this runtime's folder, nor in the drive or the lab's folder")
    above, name = os.path.split(os.path.relpath(real, root))
    try:
        folder = _enter(root, above.split(os.sep) if above else [])
        try:
            descriptor = os.open(name, _READ, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as exc:
        raise Gone(f"{path} cannot be read: {exc.strerror}") from exc
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise UsageError(f"{path} is no file")
    return Opened(descriptor, real, found.st_size)


def is_in_colab_mode(runtime: str) -> bool:
    """Whether the kernel that runs now was started as Colab's; False where there is none."""
    return _variables(_plan(runtime)).get("OWNLAB_COLAB") == "1"


def notebook_of(runtime: str) -> str:
    """The notebook that the kernel takes for its own, since it was started; "" where there is none."""
    plan = _plan(runtime)
    return _variables(plan).get("JPY_SESSION_NAME") or plan.notebook


def _variables(plan: Plan) -> dict[str, str]:
    """What the kernel was started with; empty where it has ended, or has not begun."""
    kernel = (read_state(plan.home) or {}).get("kernel") or {}
    try:
        with open(f"/proc/{kernel.get('pid')}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return {}
    return dict(os.fsdecode(each).partition("=")[::2] for each in entries)


def _plan(runtime: str) -> Plan:
    plan = plan_of(runtime)
    if plan is None:
        raise Gone(f"there is no runtime {runtime}")
    return plan


def _enter(root: str, names: Sequence[str]) -> int:
    """A folder below another, by a way without links: what was looked at before cannot be put in another's place."""
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in names:
        try:
            following = os.open(name, _FOLDER, dir_fd=current)
        finally:
            os.close(current)
        current = following
    return current


def _put(descriptor: int, offset: int, data: bytes) -> int:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Elsewhere("another thing than a file stands in the place of the upload")
    if found.st_size < offset:
        raise UsageError(f"{offset - found.st_size} bytes are missing before this part of the upload")
    os.ftruncate(descriptor, offset)
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        offset, view = offset + written, view[written:]
    return offset


_DAY = 86400.0


def retire_contents(keep_days: float) -> list[str]:
    """Remove what has had its time; the runtimes to which it belonged."""
    before, gone = time.time() - keep_days * _DAY, []
    folder = content_folder("")
    for name in os.listdir(folder) if folder.is_dir() else []:
        path = folder / name
        if _lives(name):
            os.utime(path)  # its time begins when it ends: as far as is known, now
        elif path.stat().st_mtime < before:
            shutil.rmtree(path, ignore_errors=True)
            gone.append(name)
    return gone


def _lives(runtime: str) -> bool:
    plan = plan_of(runtime)
    state = read_state(plan.home) if plan is not None else None
    return state is not None and lives(state.get("supervisor"))

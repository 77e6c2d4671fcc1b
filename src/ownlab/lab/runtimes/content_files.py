"""Uploads to and downloads from Colab-mode runtimes, and the removal of their old /content folders."""

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
from ownlab.lab.runtimes.end_request import may_have_job
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.state import is_alive, plan_of, read_state
from ownlab.text import text

__all__ = [
    "Elsewhere",
    "Gone",
    "OpenFile",
    "download_folders",
    "is_content_in_use",
    "is_in_colab_mode",
    "mark_content",
    "notebook_of",
    "open_download",
    "remove_content",
    "remove_old_content",
    "write_chunk",
]

# The prefix of the folders that google.colab creates for uploads, in the runtime's own folder.
_STAGING = ".ownlab-"
# Opening a pipe would block.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Elsewhere(InputError):
    """The path is outside the folders that may be accessed."""

    http_status = 403


class Gone(InputError):
    """There is no such file or runtime."""

    http_status = 404


class OpenFile(NamedTuple):
    """A file that is open for reading."""

    descriptor: int
    path: str  # its real path
    size: int


def write_chunk(runtime: str, folder: str, number: int, offset: int, data: bytes) -> tuple[str, int]:
    """Write a chunk of an upload into the folder that the kernel created for it. Return the file's path and size.

    Files are named by number, so that no user-supplied name becomes a path. A chunk may be sent again.
    """
    content = str(content_folder(_plan(runtime).runtime))
    above, name = os.path.split(folder)
    if os.path.realpath(above) != os.path.realpath(content) or not name.startswith(_STAGING):
        raise Elsewhere(text("{folder} is not an upload folder of this runtime.", folder=folder))
    try:
        staging = _open_folder(content, [name])
        try:
            descriptor = os.open(str(number), _WRITE, 0o600, dir_fd=staging)
        finally:
            os.close(staging)
        with open(descriptor, "wb", buffering=0) as file:
            return os.path.join(folder, str(number)), _write_at(file.fileno(), offset, data)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Elsewhere(text("{folder} is not an upload folder of this runtime.", folder=folder)) from exc
        if exc.errno == errno.ENOENT:
            raise Gone(text("The notebook no longer waits for this upload.")) from exc
        raise LabError(text("The upload cannot be written: {reason}.", reason=exc.strerror)) from exc


def download_folders(runtime: str, lab: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The folders from which a page may download: the runtime's own, the user's drive, the lab's."""
    drive = resolve_lab_options(environ=environ).drive_folder or str(drive_folder(environ))
    return [str(content_folder(_plan(runtime).runtime, environ)), drive, lab]


def open_download(path: str, folders: Sequence[str]) -> OpenFile:
    """Open a file in one of these folders. A link that leads out of them is refused."""
    if not os.path.isabs(path) or "\0" in path:
        raise UsageError(text("The path of a file must be absolute."))
    real = os.path.realpath(path)
    root = next((each for each in map(os.path.realpath, folders) if real.startswith(os.path.join(each, ""))), None)
    if root is None:
        message = text("{path} is not in this runtime's folder, the drive or the lab's folder.", path=path)
        raise Elsewhere(message)
    above, name = os.path.split(os.path.relpath(real, root))
    try:
        folder = _open_folder(root, above.split(os.sep) if above else [])
        try:
            descriptor = os.open(name, _READ, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as exc:
        raise Gone(text("{path} cannot be read: {reason}.", path=path, reason=exc.strerror)) from exc
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise UsageError(text("{path} is not a file.", path=path))
    return OpenFile(descriptor, real, status.st_size)


def is_in_colab_mode(runtime: str) -> bool:
    """Whether the current kernel was started in Colab mode; False if there is none."""
    return _variables(_plan(runtime)).get("OWNLAB_COLAB") == "1"


def notebook_of(runtime: str) -> str:
    """The notebook that the kernel was started for; "" if there is none."""
    plan = _plan(runtime)
    return _variables(plan).get("JPY_SESSION_NAME") or plan.notebook


def _variables(plan: Plan) -> dict[str, str]:
    """The environment that the kernel was started with; empty if there is no kernel."""
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
        raise Gone(text("There is no runtime {id}.", id=runtime))
    return plan


def _open_folder(root: str, names: Sequence[str]) -> int:
    """Open a folder below another without following links, so that a checked path cannot be replaced meanwhile."""
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in names:
        try:
            following = os.open(name, _FOLDER, dir_fd=current)
        finally:
            os.close(current)
        current = following
    return current


def _write_at(descriptor: int, offset: int, data: bytes) -> int:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise Elsewhere(text("The upload's path is not a regular file."))
    if status.st_size < offset:
        raise UsageError(
            text("{count} bytes are missing before this chunk of the upload.", count=offset - status.st_size)
        )
    os.ftruncate(descriptor, offset)
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        offset, view = offset + written, view[written:]
    return offset


_DAY = 86400.0
# In a /content folder: to be removed as soon as its runtime has ended.
_DELETE = f"{_STAGING}delete"


def mark_content(runtime: str) -> bool:
    """Note that a runtime's /content is to be removed when it ends, whoever does it. Return whether there is such a folder."""
    try:
        os.close(
            os.open(content_folder(runtime) / _DELETE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        )
    except FileNotFoundError:
        return False
    except OSError as exc:
        raise LabError(text("The files in /content cannot be deleted: {reason}.", reason=exc.strerror)) from exc
    return True


def is_content_in_use(runtime: str) -> bool:
    """Return whether a runtime still runs, so that its files must stay."""
    plan = plan_of(runtime)
    if plan is not None and may_have_job(plan):  # its kernel is on a node, whether or not anything of it lives here
        return True
    state = read_state(plan.home) if plan is not None else None
    return state is not None and any(is_alive(state.get(name)) for name in ("keeper", "supervisor", "kernel"))


def remove_content(runtime: str) -> bool:
    """Remove the /content folder of a runtime that has ended. False if something is mounted in it: that must not be touched."""
    path = str(content_folder(runtime))
    if _has_mounts(os.path.realpath(path)):
        return False
    shutil.rmtree(path, ignore_errors=True)
    return not os.path.exists(path)


def remove_old_content(keep_days: float) -> list[str]:
    """Remove /content folders of runtimes that ended long ago, or were to be deleted. Return the runtimes."""
    before, removed = time.time() - keep_days * _DAY, []
    folder = content_folder("")
    for name in os.listdir(folder) if folder.is_dir() else []:
        path = folder / name
        if is_content_in_use(name):
            os.utime(path)  # the retention time starts when the runtime ends
        elif (path.stat().st_mtime < before or (path / _DELETE).exists()) and remove_content(name):
            removed.append(name)
    return removed


def _has_mounts(folder: str) -> bool:
    """Return whether a file system is mounted below a folder, such as a drive of rclone."""
    below = os.path.join(folder, "")
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            points = [line.split(" ", 5)[4].replace("\\040", " ") for line in file]
    except (OSError, IndexError):
        return False
    return any(point.startswith(below) for point in points)

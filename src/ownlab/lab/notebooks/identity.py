"""Notebooks by an identity that survives renaming: a folder for each, with its edit logs and its history.

A notebook is known by its path. When it is moved by another program, it is found again by its inode, as long as nothing is
at its old path.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab.atomic_files import replace_file
from ownlab.config.paths import state_folder
from ownlab.errors import LabError
from ownlab.file_lock import wait_for_lock
from ownlab.text import text

__all__ = [
    "NotebookIdentity",
    "all_identities",
    "find_identity",
    "forget_identities",
    "identity_folder",
    "make_identity",
    "note_file",
    "notebooks_folder",
    "rename_identities",
    "write_identity",
]

_ABOUT = "about.json"


class NotebookIdentity(Struct, frozen=True):
    """What is known about a notebook. `deleted_at`: when it was deleted in the lab."""

    id: str
    path: str  # absolute, without links
    created_at: float
    inode: tuple[int, int] | None = None  # device and inode of the file when we last wrote it
    deleted_at: float | None = None


def notebooks_folder() -> Path:
    """The folder of all notebooks of this user, whether or not it exists. Only the owner may read it."""
    return state_folder(make=False) / "notebooks"


def identity_folder(identity: str) -> Path:
    """The folder of a notebook."""
    return notebooks_folder() / identity


def all_identities() -> Iterator[NotebookIdentity]:
    """Yield all known notebooks, including deleted ones."""
    try:
        names = sorted(os.listdir(notebooks_folder()))
    except FileNotFoundError:
        return
    for name in names:
        identity = _read(notebooks_folder() / name)
        if identity is not None:
            yield identity


def find_identity(path: str) -> NotebookIdentity | None:
    """Return the identity of the notebook at a path; None if it has none yet."""
    real = os.path.realpath(path)
    cached = _CACHE.get(real)
    if cached is not None:
        again = _read(identity_folder(cached))
        if again is not None and again.path == real and again.deleted_at is None:
            return again
    known = [identity for identity in all_identities() if identity.deleted_at is None]
    found = next((identity for identity in known if identity.path == real), None)
    if found is None:
        inode = _inode(real)
        found = next((each for each in known if inode and each.inode == inode and not os.path.lexists(each.path)), None)
        if found is not None:  # another program moved it
            found = msgspec.structs.replace(found, path=real)
            write_identity(found)
    if found is not None:
        _CACHE[real] = found.id
    return found


def make_identity(path: str) -> NotebookIdentity:
    """Return the identity of the notebook at a path, and make one if it has none."""
    with _locked():
        found = find_identity(path)
        if found is not None:
            return found
        real = os.path.realpath(path)
        made = NotebookIdentity(uuid.uuid4().hex, real, time.time(), _inode(real))
        write_identity(made)
        _CACHE[real] = made.id
        return made


def note_file(path: str) -> None:
    """Record which file is the notebook's: it was written."""
    found = find_identity(path)
    inode = _inode(os.path.realpath(path))
    if found is not None and found.inode != inode:
        write_identity(msgspec.structs.replace(found, inode=inode))


def rename_identities(old: str, new: str) -> None:
    """Record that a notebook, or a folder above it, was renamed."""
    old, new = os.path.realpath(old), os.path.realpath(new)
    for identity in list(all_identities()):
        if identity.deleted_at is None and _is_below(identity.path, old):
            write_identity(msgspec.structs.replace(identity, path=new + identity.path[len(old) :]))
    _CACHE.clear()


def forget_identities(path: str) -> list[NotebookIdentity]:
    """Record that a notebook, or a folder above it, was deleted: a new one of that name is another. Return those."""
    real = os.path.realpath(path)
    gone = [each for each in all_identities() if each.deleted_at is None and _is_below(each.path, real)]
    for identity in gone:
        write_identity(msgspec.structs.replace(identity, deleted_at=time.time()))
        _CACHE.pop(identity.path, None)
    return gone


@contextmanager
def _locked() -> Iterator[None]:
    """Lock out other threads and processes: a notebook must not get two identities."""
    os.makedirs(notebooks_folder(), mode=0o700, exist_ok=True)
    folder = os.open(notebooks_folder(), os.O_RDONLY | os.O_CLOEXEC)
    try:
        wait_for_lock(folder, LabError(text("The folder of notebooks is in use by another process.")))
        yield
    finally:
        os.close(folder)


def write_identity(identity: NotebookIdentity) -> None:
    """Write about.json."""
    folder = identity_folder(identity.id)
    for each in (folder.parent, folder):
        os.makedirs(each, mode=0o700, exist_ok=True)
    replace_file(folder / _ABOUT, msgspec.json.encode(identity))


def _read(folder: Path) -> NotebookIdentity | None:
    file = folder / _ABOUT
    try:
        status = file.stat()
        stamp = (status.st_mtime_ns, status.st_ino)  # each write makes another file
        cached = _READ.get(folder.name)
        if cached is None or cached[0] != stamp:
            cached = _READ[folder.name] = (stamp, msgspec.json.decode(file.read_bytes(), type=NotebookIdentity))
    except (OSError, msgspec.MsgspecError, ValueError):
        return None
    return cached[1]


def _inode(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        status = os.stat(path)
        return status.st_dev, status.st_ino
    return None


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


# What was read, by id, as long as the file is the same: a user may have thousands of notebooks.
_READ: dict[str, tuple[tuple[int, int], NotebookIdentity]] = {}
# Path -> identity. It may be outdated: what it finds is checked.
_CACHE: dict[str, str] = {}

"""Writes the members of an archive below a folder: whole files only, nothing outside, no more than the disk can take."""

from __future__ import annotations

import contextlib
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ownlab.errors import InputError
from ownlab.instruments.data.archives.errors import CorruptArchive, UnsafeArchive
from ownlab.instruments.data.archives.journal import Journal, Unpacked
from ownlab.instruments.data.archives.limits import Limits, SizeLimit
from ownlab.instruments.data.archives.member_path import safe_link, safe_path
from ownlab.instruments.data.archives.records import Member
from ownlab.text import text
from ownlab.units import MIB, format_bytes

__all__ = ["Extraction"]

_BLOCK = MIB
_CHECK_EVERY = 64 * MIB  # bytes between two looks at the free space
_RESERVE = 256 * MIB  # bytes that stay free


class Extraction:
    """One archive on its way into a folder."""

    def __init__(self, folder: Path, journal: Journal, limits: Limits, *, archive_size: int, overwrite: bool) -> None:
        self.folder, self._journal, self._overwrite = folder, journal, overwrite
        self._limit = SizeLimit(limits, archive_size)
        self._root = os.path.realpath(folder)
        self._folders: set[str] = set()  # that exist, and are inside
        self._links: list[tuple[str, Member]] = []
        self._unchecked = 0
        self._this_run: dict[str, int] = {}  # path -> member that has it
        self.files = self.extracted = 0

    @property
    def size(self) -> int:
        """The bytes of all files so far."""
        return self._limit.size

    def add(self, member: Member, progress: Callable[[int], None]) -> None:
        """Unpack one member, unless it is here already. Raises UnsafeArchive, CorruptArchive, InputError and OSError."""
        path = safe_path(member.name)
        if member.kind == "device":
            raise UnsafeArchive(
                text("The archive has a device or a pipe, {path}.", path=path),
                hint=text("What came before it was unpacked."),
            )
        if member.kind == "folder":
            self._make_folder(path)
        elif not path:
            raise UnsafeArchive(text("The archive has a file without a name."))
        elif member.kind == "symlink":
            safe_link(path, member.link)
            self._links.append((path, member))  # last: no member may be written through one
        elif member.kind == "hardlink":
            self._hard_link(path, safe_path(member.link), member)
        else:
            self._file(path, member, progress)

    def finish(self) -> None:
        """Make the symbolic links."""
        for path, member in self._links:
            place = self.folder / path
            self._make_folder(os.path.dirname(path))
            if place.is_symlink() and os.readlink(place) == member.link:
                continue
            if place.is_symlink() and self._overwrite:
                os.unlink(place)
            try:
                os.symlink(member.link, place)
            except FileExistsError as exc:
                raise self._conflict(path) from exc

    # --- files ------------------------------------------------------------------------------------------------------------

    def _file(self, path: str, member: Member, progress: Callable[[int], None]) -> None:
        self.files += 1
        self._count(max(member.size, 0))
        first_time = path not in self._this_run
        self._this_run[path] = member.number
        done = self._journal.done.get(path)
        if (
            self._journal.is_same_archive
            and done is not None
            and done.number >= member.number
            and self._is_as_left(done)
        ):
            self._count(done.size if member.size < 0 else 0)
            progress(done.size)
            return
        self._make_folder(os.path.dirname(path))
        with member.open() as source:
            size, crc32 = self._write_temporary(source, member, path, progress)
        self._place(path, (size, crc32), replace=self._overwrite or not first_time or self._is_ours(path))
        status = os.stat(self.folder / path)
        self._journal.add(Unpacked(member.number, path, status.st_size, status.st_mtime_ns))

    def _is_as_left(self, done: Unpacked) -> bool:
        try:
            status = os.lstat(self.folder / done.path)
        except (OSError, ValueError):  # no path at all: the journal is damaged
            return False
        return stat.S_ISREG(status.st_mode) and (status.st_size, status.st_mtime_ns) == (done.size, done.mtime_ns)

    def _is_ours(self, path: str) -> bool:
        """Whether an earlier run left this file, and nobody changed it."""
        done = self._journal.done.get(path)
        return done is not None and self._is_as_left(done)

    def _write_temporary(
        self, source: BinaryIO, member: Member, path: str, progress: Callable[[int], None]
    ) -> tuple[int, int]:
        """Write the content; return its size and CRC32."""
        size = crc32 = 0
        with open(self._journal.temporary, "wb", buffering=0) as file:
            while block := source.read(_BLOCK):
                size += len(block)
                if size > member.size >= 0:
                    raise CorruptArchive(text("{path} is longer than the archive says.", path=path))
                _write_all(file, block)
                crc32 = zlib.crc32(block, crc32)
                self._count(len(block) if member.size < 0 else 0, written=len(block))
                progress(len(block))
            if member.executable:
                os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode) | 0o111 & ~_UMASK)
        if size < member.size:
            raise CorruptArchive(text("The archive ends in the middle of {path}.", path=path))
        self.extracted += 1
        with contextlib.suppress(OSError, ValueError, OverflowError):  # a date that the file system cannot store
            os.utime(self._journal.temporary, (member.modified, member.modified))
        return size, crc32

    def _place(self, path: str, content: tuple[int, int], *, replace: bool) -> None:
        place = self.folder / path
        if os.path.lexists(place) and not replace:
            if not _has_content(place, *content):
                raise self._conflict(path)
            os.unlink(self._journal.temporary)
            self.extracted -= 1
            return
        if place.is_dir() and not place.is_symlink():
            raise self._conflict(path)
        os.replace(self._journal.temporary, place)

    def _hard_link(self, path: str, target: str, member: Member) -> None:
        self.files += 1
        source = self.folder / target
        if target not in self._this_run or source.is_symlink():
            raise UnsafeArchive(
                text(
                    "The archive has a hard link {path} to {target}, which it does not contain.",
                    path=path,
                    target=target,
                )
            )
        self._make_folder(os.path.dirname(path))
        self._this_run[path] = member.number
        place = self.folder / path
        if os.path.lexists(place):
            if os.path.samefile(place, source):
                return
            if not (self._overwrite or self._is_ours(path)):
                raise self._conflict(path)
            os.unlink(place)
        os.link(source, place)
        self.extracted += 1

    def _conflict(self, path: str) -> InputError:
        return InputError(
            text("{path} exists, and is not what the archive has.", path=self.folder / path),
            hint=text("Choose another folder with -o, move it away, or replace it: --overwrite"),
        )

    # --- folders and limits -----------------------------------------------------------------------------------------------

    def _make_folder(self, path: str) -> None:
        """Make a folder below ours. Raises UnsafeArchive if a link that stands there already leads out."""
        if path in self._folders:
            return
        place = self.folder / path
        try:
            os.makedirs(place, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as exc:
            raise self._conflict(path) from exc
        real = os.path.realpath(place)
        if real != self._root and not real.startswith(self._root.rstrip("/") + "/"):
            raise UnsafeArchive(text("{path} is a link that leads out of the folder.", path=place))
        self._folders.add(path)

    def _count(self, announced: int, written: int = 0) -> None:
        """Count bytes of the content, and stop before it becomes too much."""
        self._limit.count(announced)
        self._unchecked += written
        if self._unchecked >= _CHECK_EVERY or announced >= _CHECK_EVERY:
            self._unchecked = 0
            self._check_room(announced)

    def _check_room(self, needed: int) -> None:
        system = os.statvfs(self.folder)
        free = system.f_bavail * system.f_frsize
        if needed + min(_RESERVE, system.f_blocks * system.f_frsize // 20) > free:
            raise InputError(
                text("The disk of {folder} is almost full: {free} free.", folder=self.folder, free=format_bytes(free)),
                hint=text("Make room, then run the same command again: finished files are skipped."),
            )

    def is_finished(self) -> bool:
        """Whether an earlier run unpacked everything, and all of it is still here."""
        if not self._journal.is_complete or not all(map(self._is_as_left, self._journal.done.values())):
            return False
        self.files = len(self._journal.done)
        self._limit.size = sum(done.size for done in self._journal.done.values())
        return True


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


_UMASK = _read_umask()  # when there is one thread


def _write_all(file: object, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[file.write(view) :]  # type: ignore[attr-defined]


def _has_content(place: Path, size: int, crc32: int) -> bool:
    if place.is_symlink() or not place.is_file() or place.stat().st_size != size:
        return False
    found = 0
    with open(place, "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            found = zlib.crc32(block, found)
    return found == crc32

"""The members of a zip archive, also of one split into disks."""

from __future__ import annotations

import io
import stat
import time
import zipfile
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, cast

from ownlab.errors import InputError
from ownlab.instruments.data.archives.errors import CorruptArchive, UnsafeArchive
from ownlab.instruments.data.archives.member_path import decode_name
from ownlab.instruments.data.archives.records import Member, MemberKind
from ownlab.instruments.data.archives.volumes import JoinedFile
from ownlab.text import text

__all__ = ["ZipReader"]

_UTF8 = 0x800  # flag bit 11: the name is UTF-8
_ENCRYPTED = 0x1
_LONGEST_LINK = 4096
_METHODS = {9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "XZ", 98: "PPMd", 99: "AES"}


class ZipReader:
    """Reads the directory first, so that sizes and overlaps are known before anything is written."""

    def __init__(self, file: JoinedFile, encoding: str = "") -> None:
        """Read the directory. Raises CorruptArchive and UnsafeArchive."""
        self._zip = zipfile.ZipFile(cast("BinaryIO", io.BufferedReader(file, 2**18)))
        self._encoding = encoding
        self._infos = self._zip.infolist()
        if len(file.starts) > 1 and any(info.volume for info in self._infos):
            self._place(file)
        self._check_overlaps()
        self.total: int | None = sum(info.file_size for info in self._infos)
        self.count: int | None = len(self._infos)

    def members(self) -> Iterator[Member]:
        """Yield the members in the order of the directory."""
        for number, info in enumerate(self._infos):
            if info.flag_bits & _ENCRYPTED:
                raise InputError(
                    text("The archive is protected by a password."),
                    hint=text("Unpack it with a program that asks for it: 7zz x FILE"),
                )
            kind, link = self._kind(info)
            modified = time.mktime((*info.date_time, 0, 0, -1)) if info.date_time >= (1980, 1, 1, 0, 0, 0) else 0.0
            executable = bool(info.external_attr >> 16 & 0o111) and info.create_system == 3
            yield Member(
                number, self._name(info), kind, info.file_size, modified, executable, link, partial(self._open, info)
            )

    def _open(self, info: zipfile.ZipInfo) -> BinaryIO:
        try:
            return cast("BinaryIO", self._zip.open(info))
        except NotImplementedError as exc:
            method = _METHODS.get(info.compress_type, str(info.compress_type))
            raise InputError(
                text("The archive is compressed with {method}, which Python cannot read.", method=method),
                hint=text("Unpack it with a program that can: 7zz x FILE"),
            ) from exc

    def _name(self, info: zipfile.ZipInfo) -> str:
        name = info.orig_filename
        if not info.flag_bits & _UTF8:
            name = decode_name(name.encode("cp437"), self._encoding)
        if info.create_system == 0 and "/" not in name:  # some programs of Windows write its own separator
            name = name.replace("\\", "/")
        return name

    def _kind(self, info: zipfile.ZipInfo) -> tuple[MemberKind, str]:
        mode = info.external_attr >> 16 if info.create_system == 3 else 0
        if info.is_dir() or stat.S_ISDIR(mode):
            return "folder", ""
        if stat.S_ISLNK(mode):
            if info.file_size > _LONGEST_LINK:
                raise CorruptArchive(text("The archive has a link that is {size} bytes long.", size=info.file_size))
            with self._open(info) as file:
                return "symlink", file.read(_LONGEST_LINK).decode(errors="replace")
        if mode and stat.S_IFMT(mode) and not stat.S_ISREG(mode):
            return "device", ""
        return "file", ""

    def _place(self, file: JoinedFile) -> None:
        """Offsets are relative to the disk that a member begins on; zipfile takes them for relative to the last one."""
        by_disk = file.starts
        shift = self._zip.start_dir - self._directory_offset()
        for info in self._infos:
            if info.volume >= len(by_disk):
                raise CorruptArchive(text("The archive needs {n} volumes.", n=info.volume + 1))
            info.header_offset += by_disk[info.volume] - shift

    def _directory_offset(self) -> int:
        end = zipfile._EndRecData(self._zip.fp)  # type: ignore[attr-defined]  # the only place that has it
        return int(end[6])

    def _check_overlaps(self) -> None:
        """Members that share their bytes are how a small archive becomes petabytes (Fifield, 2019)."""
        spans = sorted((info.header_offset, info.compress_size) for info in self._infos)
        end = 0
        for start, size in spans:
            if start < end:
                raise UnsafeArchive(text("Members of the archive overlap, as those of a zip bomb do."))
            end = start + size + 30

"""The members of an archive of any kind, and what its damage looks like."""

from __future__ import annotations

import io
import lzma
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from ownlab.errors import InputError
from ownlab.instruments.data.archives.errors import CorruptArchive
from ownlab.instruments.data.archives.recognition import Format, is_tar
from ownlab.instruments.data.archives.records import Member
from ownlab.instruments.data.archives.tar_reader import TarReader, decompressed, libarchive_as_tar
from ownlab.instruments.data.archives.volumes import JoinedFile, stem_of
from ownlab.instruments.data.archives.zip_reader import ZipReader
from ownlab.text import text

__all__ = ["DAMAGE", "MemberReader", "corrupt", "open_members"]

# What Python's readers raise for archives that are damaged, on purpose or not.
DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    lzma.LZMAError,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    IndexError,
    KeyError,
    NotImplementedError,
    RecursionError,
    MemoryError,
)


class MemberReader(Protocol):
    """Reads an archive from front to back."""

    total: int | None  # bytes of all members, where the archive says so
    count: int | None

    def members(self) -> Iterator[Member]:
        """Yield the members; each has to be read before the next one."""


def open_members(file: JoinedFile, kind: Format, volumes: list[Path], encoding: str) -> MemberReader:
    """Return the reader for a format. Raises OwnlabError, and DAMAGE."""
    if kind == "zip":
        return ZipReader(file, encoding)
    if kind in ("7z", "rar", "other"):
        if len(volumes) > 1:
            raise InputError(
                text("A split archive of this kind has to be joined first."),
                hint=text("Join it: cat {first}… > whole, or unpack it with: 7zz x {first}", first=volumes[0].name),
            )
        return TarReader(libarchive_as_tar(str(volumes[0])), encoding)
    stream = io.BufferedReader(
        cast("io.RawIOBase", decompressed(cast("BinaryIO", io.BufferedReader(file, 2**20)), kind)), 2**20
    )
    if kind == "tar" or is_tar(stream.peek(512)[:512]):
        return TarReader(cast("BinaryIO", stream), encoding)
    return _SingleFile(cast("BinaryIO", stream), stem_of(volumes[0]))


def corrupt(archive: Path, cause: str) -> CorruptArchive:
    """The error for damage."""
    return CorruptArchive(
        text(
            "{archive} is damaged or incomplete: {cause}.",
            archive=archive.name,
            cause=cause or text("it ends too early"),
        ),
        hint=text("Download it again; `ownlab data get` checks it on its way. What could be read was unpacked."),
    )


class _SingleFile:
    """A file that was compressed alone: data.csv.gz."""

    total: int | None = None
    count: int | None = 1

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._name = stream, name

    def members(self) -> Iterator[Member]:
        """Yield the file; its size is unknown until it has been read."""
        yield Member(0, self._name, "file", -1, time.time(), False, "", lambda: self._stream)

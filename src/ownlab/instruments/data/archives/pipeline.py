"""`ownlab data unpack`: volumes -> format -> members -> files."""

from __future__ import annotations

import io
import lzma
import os
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, cast

from ownlab.errors import InputError, OwnlabError
from ownlab.instruments.data.archives.errors import CorruptArchive
from ownlab.instruments.data.archives.extraction import Extraction, Limits
from ownlab.instruments.data.archives.journal import Journal
from ownlab.instruments.data.archives.recognition import Format, is_tar, recognise
from ownlab.instruments.data.archives.records import Member, UnpackReport
from ownlab.instruments.data.archives.tar_reader import TarReader, decompressed, libarchive_as_tar
from ownlab.instruments.data.archives.volumes import JoinedFile, find_volumes, open_volumes, stem_of
from ownlab.instruments.data.archives.zip_reader import ZipReader
from ownlab.instruments.data.data_sets import DataSetEntry, remember
from ownlab.instruments.data.download.downloader import Progress
from ownlab.instruments.data.download.target import check_room
from ownlab.instruments.data.download.transfer import disk_error
from ownlab.text import text

__all__ = ["UnpackRequest", "unpack"]

# What Python's readers raise for archives that are damaged, on purpose or not.
_DAMAGE = (
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
_REPORT_EVERY = 0.1  # seconds


class UnpackRequest(NamedTuple):
    """What `ownlab data unpack` was asked for."""

    archive: Path
    folder: Path | None = None  # None: one of the archive's name, here
    overwrite: bool = False
    limits: Limits = Limits()
    encoding: str = ""  # of names that are not UTF-8


class _Reader(Protocol):
    total: int | None
    count: int | None

    def members(self) -> Iterator[Member]: ...


def unpack(
    request: UnpackRequest, progress: Callable[[Progress], None], environ: Mapping[str, str] = os.environ
) -> UnpackReport:
    """Unpack an archive. Raises CorruptArchive, UnsafeArchive and other OwnlabErrors; what was finished stays."""
    begin = time.monotonic()
    archive = request.archive.expanduser().absolute()
    volumes = find_volumes(archive)
    with open_volumes(volumes) as file:
        kind = recognise(cast("BinaryIO", file), archive.name)
        folder = (request.folder or _default_folder(volumes[-1])).expanduser().absolute()
        modified = max(volume.stat().st_mtime_ns for volume in volumes)
        try:
            os.makedirs(folder, exist_ok=True)
            with closing(Journal(folder, volumes[0], file.size, modified)) as journal:
                extraction = Extraction(
                    folder, journal, request.limits, archive_size=file.size, overwrite=request.overwrite
                )
                _unpack(file, kind, volumes, request, extraction, journal, progress)
        except OSError as exc:
            raise disk_error(exc, folder) from exc
    shown = str(archive).encode(errors="backslashreplace").decode()
    entry = DataSetEntry(str(folder), "unpacked", shown, size=extraction.size, files=extraction.files)
    remember(entry, environ)
    return UnpackReport(
        shown,
        kind,
        str(folder),
        extraction.files,
        extraction.extracted,
        extraction.size,
        time.monotonic() - begin,
    )


def _default_folder(archive: Path) -> Path:
    """Return a folder of the archive's name; a name without endings would be the archive itself."""
    stem = stem_of(archive)
    return Path(f"{stem}.unpacked" if stem == archive.name else stem)


def _unpack(
    file: JoinedFile,
    kind: Format,
    volumes: list[Path],
    request: UnpackRequest,
    extraction: Extraction,
    journal: Journal,
    progress: Callable[[Progress], None],
) -> None:
    if extraction.is_finished():
        return
    journal.begin()
    try:
        reader = _reader(file, kind, volumes, request.encoding)
        if reader.total is not None:
            check_room(
                extraction.folder, reader.total - sum(done.size for done in journal.done.values()), text("The archive")
            )
        meter = _Meter(reader, extraction, file, progress)
        for member in reader.members():
            meter.current = member.name
            extraction.add(member, meter.add)
        extraction.finish()
        journal.finish()
        meter.show()
    except OwnlabError:
        journal.write()
        raise
    except _DAMAGE as exc:
        journal.write()
        raise _corrupt(volumes[0], str(exc)) from exc
    except OSError as exc:
        if exc.errno is None:  # of a decompressor (gzip, bz2), not of the disk
            journal.write()
            raise _corrupt(volumes[0], str(exc)) from exc
        raise


def _corrupt(archive: Path, cause: str) -> CorruptArchive:
    return CorruptArchive(
        text(
            "{archive} is damaged or incomplete: {cause}.",
            archive=archive.name,
            cause=cause or text("it ends too early"),
        ),
        hint=text("Download it again; `ownlab data get` checks it on its way. What could be read was unpacked."),
    )


def _reader(file: JoinedFile, kind: Format, volumes: list[Path], encoding: str) -> _Reader:
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


class _SingleFile:
    """A file that was compressed alone: data.csv.gz."""

    total: int | None = None
    count: int | None = 1

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._name = stream, name

    def members(self) -> Iterator[Member]:
        """Yield the file; its size is unknown until it has been read."""
        yield Member(0, self._name, "file", -1, time.time(), False, "", lambda: self._stream)


class _Meter:
    """Turns what was written into progress, ten times a second."""

    def __init__(
        self, reader: _Reader, extraction: Extraction, file: JoinedFile, report: Callable[[Progress], None]
    ) -> None:
        self._reader, self._extraction, self._file, self._report = reader, extraction, file, report
        self._written = 0
        self._next = time.monotonic() + _REPORT_EVERY
        self.current = ""

    def add(self, count: int) -> None:
        """Count bytes that were written or skipped."""
        self._written += count
        if time.monotonic() >= self._next:
            self.show()

    def show(self) -> None:
        """Report; where the size of the content is unknown, by the part of the archive that was read."""
        self._next = time.monotonic() + _REPORT_EVERY
        known = self._reader.total
        arrived, total = (self._written, known) if known is not None else (self._file.tell(), self._file.size)
        files = self._reader.count or 0
        self._report(
            Progress(self._extraction.files, max(files, self._extraction.files), arrived, total, arrived, self.current)
        )

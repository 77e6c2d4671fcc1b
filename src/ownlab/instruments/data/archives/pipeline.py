"""`ownlab data unpack`: volumes -> format -> members -> files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from ownlab.errors import OwnlabError
from ownlab.instruments.data.archives.extraction import Extraction
from ownlab.instruments.data.archives.journal import Journal
from ownlab.instruments.data.archives.limits import Limits
from ownlab.instruments.data.archives.reader import DAMAGE, MemberReader, corrupt, open_members
from ownlab.instruments.data.archives.recognition import Format, recognise
from ownlab.instruments.data.archives.records import UnpackReport
from ownlab.instruments.data.archives.volumes import JoinedFile, find_volumes, open_volumes, stem_of
from ownlab.instruments.data.data_sets import DataSetEntry, remember
from ownlab.instruments.data.download.downloader import Progress
from ownlab.instruments.data.download.target import check_room
from ownlab.instruments.data.download.transfer import disk_error
from ownlab.text import text

__all__ = ["UnpackRequest", "unpack"]

_REPORT_EVERY = 0.1  # seconds


class UnpackRequest(NamedTuple):
    """What `ownlab data unpack` was asked for."""

    archive: Path
    folder: Path | None = None  # None: one of the archive's name, here
    overwrite: bool = False
    limits: Limits = Limits()
    encoding: str = ""  # of names that are not UTF-8


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
        reader = open_members(file, kind, volumes, request.encoding)
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
    except DAMAGE as exc:
        journal.write()
        raise corrupt(volumes[0], str(exc)) from exc
    except OSError as exc:
        if exc.errno is None:  # of a decompressor (gzip, bz2), not of the disk
            journal.write()
            raise corrupt(volumes[0], str(exc)) from exc
        raise


class _Meter:
    """Turns what was written into progress, ten times a second."""

    def __init__(
        self, reader: MemberReader, extraction: Extraction, file: JoinedFile, report: Callable[[Progress], None]
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

"""Samples in a file, line by line: written so that nothing but the last second can be lost, and read again."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import msgspec

from ownlab.errors import InputError, OwnlabError, RecordError, UsageError
from ownlab.instruments.top.csv_reader import columns_of, parse_row, samples_of
from ownlab.instruments.top.fields import DEFAULT, FIELDS, Field, header, pick, rows, values
from ownlab.instruments.top.records import Sample, Verdict
from ownlab.instruments.top.source import StreamEnded
from ownlab.instruments.top.window import Window
from ownlab.json_encoding import encode_json

__all__ = ["Recorder", "Replay", "read"]

T = TypeVar("T")

_SYNC_SECONDS = 1.0
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file may not grow larger",
}
_SEEN = 4096  # bytes of a foreign file that are looked at
_FOREIGN = (
    (b"\x1f\x8b", "a gzip file; unpack it first: gunzip"),
    (b"\x28\xb5\x2f\xfd", "a zstd file; unpack it first: unzstd"),
    (b"PK\x03\x04", "a zip file"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"%PDF", "a PDF"),
    (b"SQLite format 3", "an SQLite database, perhaps of nsys"),
    (b"# HELP", "metrics for Prometheus"),
    (b"<?xml", "XML, perhaps of nvidia-smi -q -x; that is one moment, no recording: ownlab doctor --from reads it"),
    (b"<", "HTML or SVG"),
)


class Recorder:
    """Appends samples to a .csv or .ndjson file."""

    def __init__(self, path: Path, fields: tuple[Field, ...] | None = None) -> None:
        """Open the file, or go on with one that is there. `fields` None: whole samples in .ndjson, the usual ones in .csv.

        Raises UsageError for another kind of file, InputError where something else is in it.
        """
        self.path = path
        self.samples = 0
        suffix = path.suffix.lower()
        if suffix not in (".csv", ".ndjson", ".jsonl"):
            raise UsageError(f"cannot record to {path}: its name must end in .csv or .ndjson")
        self.csv = suffix == ".csv"
        self.fields = _readable(fields) if fields else pick(DEFAULT) if self.csv else None
        self._window = Window() if any(field.name.startswith("verdict") for field in self.fields or ()) else None
        self._synced = time.monotonic()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise InputError(f"cannot record to {path}: {error.strerror}") from error
        try:
            self._begin()
        except BaseException:
            os.close(self._file)
            raise

    def add(self, sample: Sample) -> None:
        """Write one sample. Raises OwnlabError where the disk is full: what was written before stays, and can be read."""
        verdicts: tuple[Verdict, ...] = ()
        if self._window is not None:
            self._window.add(sample)
            verdicts = self._window.verdicts()
        if self.fields is None:
            text = encode_json(sample) + b"\n"
        elif self.csv:
            text = _lines(rows(self.fields, sample, verdicts))
        else:
            names = [field.name for field in self.fields]
            lines = (dict(zip(names, line, strict=True)) for line in values(self.fields, sample, verdicts))
            text = b"".join(encode_json(line) + b"\n" for line in lines)
        self._write(text)
        self.samples += 1
        if time.monotonic() - self._synced >= _SYNC_SECONDS:
            self._sync()

    def close(self) -> None:
        """Nothing more comes."""
        if self._file >= 0:
            self._sync()
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self) -> None:
        """Go on after what is there: a line that was cut is taken off, for nobody could read it."""
        size = os.fstat(self._file).st_size
        if size:
            first = _first_line(self.path)
            if self.csv and first.strip() != header(self.fields or ()):
                raise InputError(
                    f"{self.path} is there, and has other columns",
                    hint="Choose another name, or the fields that it has.",
                )
            if not self.csv:
                read(self.path)  # refuses what is no recording
            self._cut_last_line(size)
        elif self.csv:
            self._write(_lines([header(self.fields or ())]))

    def _cut_last_line(self, size: int) -> None:
        tail = os.pread(self._file, 1 << 20, max(0, size - (1 << 20)))
        kept = tail.rfind(b"\n") + 1
        if kept < len(tail) and (kept or len(tail) == size):
            os.ftruncate(self._file, size - len(tail) + kept)

    def _write(self, text: bytes) -> None:
        before = os.fstat(self._file).st_size
        left = memoryview(text)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            # Half a line would be the last that anybody reads of it; a device such as /dev/full cannot be cut.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before)
            why = _FULL.get(error.errno or 0, error.strerror or str(error))
            raise OwnlabError(
                f"the recording ends here: {why} ({self.path})",
                hint=f"The {self.samples} samples before it are kept, and can be read.",
            ) from error

    def _sync(self) -> None:
        # A pipe or a device has nothing to be kept; a disk that cannot is told by the next write.
        with contextlib.suppress(OSError):
            os.fsync(self._file)
        self._synced = time.monotonic()


def read(path: Path) -> Iterator[Sample]:
    """The samples of a recording: ours (.ndjson, .csv), or nvidia-smi's CSV with its header.

    Raises InputError, at once, for a file that is none; RecordError, while reading, where a line is damaged.
    """
    first = _first_line(path)
    columns = columns_of(first)
    if columns:
        return samples_of(_csv_rows(path, columns, first))
    if first.startswith("{"):
        with contextlib.suppress(msgspec.DecodeError):
            begun = msgspec.json.decode(first)
            if "at" in begun and "host" in begun:
                return _ndjson(path, Sample)
            if any(name in FIELDS for name in begun):
                return samples_of(_ndjson(path, dict[str, object]))
    if first.startswith("{") and _is_cut(path):
        raise InputError(
            f"{path} was cut within its first line: there is no whole sample in it",
            hint="Whoever recorded it was ended at once, or the disk was full.",
        )
    raise InputError(
        f"{path} is no recording: it looks like {_looks_like(path, first)}",
        hint="Make one: ownlab top --record FILE.ndjson",
    )


def _ndjson(path: Path, kind: type[T]) -> Iterator[T]:
    decoder = msgspec.json.Decoder(kind)
    for number, line, last in _numbered(path):
        found = _decoded(decoder, line, "" if last else f"{path}, line {number}: not a sample")
        if found is not None:
            yield found


def _decoded(decoder: msgspec.json.Decoder[T], line: bytes, complaint: str) -> T | None:
    try:
        return decoder.decode(line)
    except msgspec.MsgspecError as error:
        if complaint:
            raise RecordError(f"{complaint} ({error})") from error
        return None


def _csv_rows(path: Path, columns: list[str], first: str) -> Iterator[dict[str, object]]:
    for number, line, last in _numbered(path):
        text = line.decode("utf-8", "replace").strip()
        if text == first.strip():  # two recordings, one after the other
            continue
        cells = parse_row(text)
        if len(cells) == len(columns):
            yield dict(zip(columns, cells, strict=True))
        elif not last:
            raise RecordError(f"{path}, line {number}: {len(cells)} columns where the header has {len(columns)}")


def _numbered(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """Lines with their number, and whether it is one that was never finished: whoever wrote it was killed."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            text = line.strip(b"\0 \r\n")  # a file system may leave zeroes where power was cut
            if text:
                yield number, text, not line.endswith(b"\n")


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            line = file.readline(1 << 22)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    return line.decode("utf-8-sig", "replace").strip()


def _is_cut(path: Path) -> bool:
    """Whether it begins as a recording does, and its only line was never finished."""
    with path.open("rb") as file:
        line = file.readline()
    return not line.endswith(b"\n") and line.startswith((b'{"at":', *(b'{"%s":' % name.encode() for name in FIELDS)))


def _looks_like(path: Path, first: str) -> str:
    with path.open("rb") as file:
        seen = file.read(_SEEN)
    if not seen.strip():
        return "an empty file"
    for begins, what in _FOREIGN:
        if seen.startswith(begins):
            return what
    if b"\0" in seen:
        return "a binary file"
    if seen.lstrip()[:1] in b"{[":
        return "a notebook" if b'"nbformat"' in seen or b'"cells"' in seen else "some other JSON"
    if b"NVIDIA-SMI" in seen:
        return "what nvidia-smi prints; that is one moment, no recording: ownlab doctor --from reads it"
    if len(parse_row(first)) > 1:
        return "a CSV without a header that we know; nvidia-smi writes one with --format=csv, without noheader"
    return f"text that begins with {first[:40]!r}"


def _readable(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """With the moment and the card in front, without which nobody could tell what a line is about."""
    names = {field.name for field in fields}
    return (*(FIELDS[name] for name in ("timestamp", "index") if name not in names), *fields)


def _lines(texts: Iterable[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


class Replay:
    """Gives recorded samples, one after the other."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where the file is no recording."""
        self._samples = read(path)

    def take(self) -> Sample:
        """The next sample; StreamEnded after the last, RecordError at a damaged one."""
        sample = next(self._samples, None)
        if sample is None:
            raise StreamEnded
        return sample

    def close(self) -> None:
        """Give nothing more."""
        self._samples = iter(())

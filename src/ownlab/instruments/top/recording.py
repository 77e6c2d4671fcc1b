"""Recordings: samples in a file, line by line. A crash loses at most the last second."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import msgspec

from ownlab.errors import InputError, OwnlabError, RecordError, UsageError
from ownlab.input_files import read_lines
from ownlab.instruments.top.csv_reader import build_samples, parse_header, parse_row
from ownlab.instruments.top.fields import (
    DEFAULT_FIELDS,
    FIELDS,
    Field,
    field_values,
    format_header,
    format_rows,
    parse_fields,
)
from ownlab.instruments.top.records import Sample, Verdict
from ownlab.instruments.top.source import StreamEnded
from ownlab.instruments.top.verdict_window import Window
from ownlab.json_encoding import decode_json, encode_json
from ownlab.text import plural, text

__all__ = ["Recorder", "Replay", "read"]

T = TypeVar("T")

_SYNC_SECONDS = 1.0
_FULL = {
    errno.ENOSPC: text("the disk is full"),
    errno.EDQUOT: text("the disk quota is used up"),
    errno.EFBIG: text("the file has reached its maximum size"),
}
_INSPECTED_BYTES = 4096  # of a file that is not a recording
_OTHER_FORMATS = (
    (b"\x1f\x8b", text("a gzip file; unpack it first: gunzip")),
    (b"\x28\xb5\x2f\xfd", text("a zstd file; unpack it first: unzstd")),
    (b"PK\x03\x04", text("a zip file")),
    (b"\x89PNG", text("an image")),
    (b"\xff\xd8\xff", text("an image")),
    (b"%PDF", text("a PDF")),
    (b"SQLite format 3", text("an SQLite database, perhaps of nsys")),
    (b"# HELP", text("metrics for Prometheus")),
    (b"<?xml", text("XML, perhaps of nvidia-smi -q -x, which is a single moment; read it with ownlab doctor --from")),
    (b"<", text("HTML or SVG")),
)


class Recorder:
    """Appends samples to a .csv or .ndjson file."""

    def __init__(self, path: Path, fields: tuple[Field, ...] | None = None) -> None:
        """Create the file, or continue an existing recording. Without `fields`: whole samples (.ndjson), default fields (.csv).

        Raises UsageError for another file extension, InputError if the file exists and has other content.
        """
        self.path = path
        self.samples = 0
        suffix = path.suffix.lower()
        if suffix not in (".csv", ".ndjson", ".jsonl"):
            raise UsageError(text("Cannot record to {path}: its name must end in .csv or .ndjson.", path=path))
        self.csv = suffix == ".csv"
        self.fields = _add_keys(fields) if fields else parse_fields(DEFAULT_FIELDS) if self.csv else None
        self._window = Window() if any(field.name.startswith("verdict") for field in self.fields or ()) else None
        self._synced = time.monotonic()
        try:
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise InputError(text("Cannot record to {path}: {reason}.", path=path, reason=error.strerror)) from error
        try:
            self._begin()
        except BaseException:
            os.close(self._file)
            raise

    def add(self, sample: Sample) -> None:
        """Write one sample. Raises OwnlabError if the disk is full; the samples before it stay readable."""
        verdicts: tuple[Verdict, ...] = ()
        if self._window is not None:
            self._window.add(sample)
            verdicts = self._window.verdicts()
        if self.fields is None:
            data = encode_json(sample) + b"\n"
        elif self.csv:
            data = _encode_lines(format_rows(self.fields, sample, verdicts))
        else:
            names = [field.name for field in self.fields]
            lines = (dict(zip(names, line, strict=True)) for line in field_values(self.fields, sample, verdicts))
            data = b"".join(encode_json(line) + b"\n" for line in lines)
        self._write(data)
        self.samples += 1
        if time.monotonic() - self._synced >= _SYNC_SECONDS:
            self._sync()

    def close(self) -> None:
        """Flush and close the file."""
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
        """Continue after the existing content. A truncated last line is removed, because it cannot be read."""
        size = os.fstat(self._file).st_size
        if size:
            first = _first_line(self.path)
            if self.csv and first.strip() != format_header(self.fields or ()):
                raise InputError(
                    text("{path} exists and has other columns.", path=self.path),
                    hint=text("Choose another name, or the fields of that file."),
                )
            if not self.csv:
                read(self.path)  # raises if it is not a recording
            self._cut_last_line(size)
        elif self.csv:
            self._write(_encode_lines([format_header(self.fields or ())]))

    def _cut_last_line(self, size: int) -> None:
        tail = os.pread(self._file, 1 << 20, max(0, size - (1 << 20)))
        kept = tail.rfind(b"\n") + 1
        if kept < len(tail) and (kept or len(tail) == size):
            os.ftruncate(self._file, size - len(tail) + kept)

    def _write(self, data: bytes) -> None:
        before = os.fstat(self._file).st_size
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            # Remove the partial line, which would make the file unreadable. A device such as /dev/full cannot be truncated.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before)
            reason = _FULL.get(error.errno or 0) or error.strerror or str(error)
            raise OwnlabError(
                text("The recording stopped: {reason} ({path}).", reason=reason, path=self.path),
                hint=plural(self.samples, "The sample before that is saved.", "The {n} samples before that are saved."),
            ) from error

    def _sync(self) -> None:
        # Pipes and devices cannot be synced; the next write reports a failing disk.
        with contextlib.suppress(OSError):
            os.fsync(self._file)
        self._synced = time.monotonic()


def read(path: Path) -> Iterator[Sample]:
    """Read the samples of a recording: ours (.ndjson, .csv), or CSV of nvidia-smi with its header.

    Raises InputError at once for a file that is not a recording, and RecordError while reading for a damaged line.
    """
    # Opened once: a pipe can be read only once.
    following = read_lines(path)
    head = next(following, b"")
    lines, first = chain([head], following), _decode_first(head)
    columns = parse_header(first)
    if columns:
        return build_samples(_csv_rows(path, columns, first, lines))
    if first.startswith("{"):
        with contextlib.suppress(msgspec.DecodeError):
            content = decode_json(first, dict[str, object])
            if "at" in content and "host" in content:
                return _ndjson(path, Sample, lines)
            if any(name in FIELDS for name in content):
                return build_samples(_ndjson(path, dict[str, object], lines))
    if first.startswith("{") and _is_truncated(head):
        raise InputError(
            text("{path} ends within its first line: it contains no complete sample.", path=path),
            hint=text("The recording program was killed immediately, or the disk was full."),
        )
    raise InputError(
        text("{path} is not a recording: it looks like {format}.", path=path, format=_describe_format(lines, first)),
        hint=text("Create one with: ownlab top --record FILE.ndjson"),
    )


def _ndjson(path: Path, kind: type[T], lines: Iterable[bytes]) -> Iterator[T]:
    for number, line, unfinished in _numbered_lines(lines):
        try:
            record = decode_json(line, kind)
        except msgspec.MsgspecError as error:
            if unfinished:
                continue
            raise RecordError(
                text("{path}, line {number}: not a sample ({error}).", path=path, number=number, error=error)
            ) from error
        yield record


def _csv_rows(path: Path, columns: list[str], first: str, lines: Iterable[bytes]) -> Iterator[dict[str, object]]:
    for number, line, unfinished in _numbered_lines(lines):
        content = line.decode("utf-8", "replace").strip()
        if content == first.strip():  # two recordings, one after the other
            continue
        cells = parse_row(content)
        if len(cells) == len(columns):
            yield dict(zip(columns, cells, strict=True))
        elif not unfinished:
            raise RecordError(
                text(
                    "{path}, line {number}: {found} columns, but the header has {expected}.",
                    path=path,
                    number=number,
                    found=len(cells),
                    expected=len(columns),
                )
            )


def _numbered_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield lines with their number, and whether the line is unfinished because its writer was killed."""
    for number, line in enumerate(lines, 1):
        content = line.strip(b"\0 \r\n")  # file systems may leave zeroes after a power failure
        if content:
            yield number, content, not line.endswith(b"\n")


def _first_line(path: Path) -> str:
    return _decode_first(next(read_lines(path), b""))


def _decode_first(line: bytes) -> str:
    return line.decode("utf-8-sig", "replace").strip()


def _is_truncated(head: bytes) -> bool:
    """Whether the file begins like a recording, but its only line is unfinished."""
    return not head.endswith(b"\n") and head.startswith((b'{"at":', *(b'{"%s":' % name.encode() for name in FIELDS)))


def _describe_format(lines: Iterable[bytes], first: str) -> str:
    begin = b""
    for line in lines:
        begin += line[:_INSPECTED_BYTES]
        if len(begin) >= _INSPECTED_BYTES:
            break
    if not begin.strip():
        return text("an empty file")
    for magic, description in _OTHER_FORMATS:
        if begin.startswith(magic):
            return description
    if b"\0" in begin:
        return text("a binary file")
    if begin.lstrip()[:1] in b"{[":
        return text("a notebook") if b'"nbformat"' in begin or b'"cells"' in begin else text("other JSON")
    if b"NVIDIA-SMI" in begin:
        return text("the output of nvidia-smi, which is a single moment; read it with ownlab doctor --from")
    if len(parse_row(first)) > 1:
        return text("CSV without a known header; nvidia-smi writes one with --format=csv, without noheader")
    return text("text that begins with {begin!r}", begin=first[:40])


def _add_keys(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Prepend the time and the card, which identify a line."""
    names = {field.name for field in fields}
    return (*(FIELDS[name] for name in ("timestamp", "index") if name not in names), *fields)


def _encode_lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


class Replay:
    """A source that gives recorded samples one after the other, without delay; `source.follow` keeps their timing."""

    def __init__(self, path: Path) -> None:
        """Raises InputError if the file is not a recording."""
        self._samples = read(path)

    def take(self) -> Sample:
        """Return the next sample. Raises StreamEnded after the last one, RecordError at a damaged one."""
        sample = next(self._samples, None)
        if sample is None:
            raise StreamEnded
        return sample

    def close(self) -> None:
        """Stop: no more samples follow."""
        self._samples = iter(())

"""The edit log of a notebook: a snapshot of its state, and every patch since. What was acknowledged is on the disk.

Each line is a checksum and JSON. A line that was cut off or damaged ends the log: everything before it counts.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ownlab.atomic_files import replace_file
from ownlab.lab.notebooks.edits.base import outputs_in, read_base
from ownlab.lab.notebooks.edits.cell import Ran
from ownlab.lab.notebooks.edits.edited_notebook import EditedNotebook
from ownlab.lab.notebooks.edits.records import Changes, Patch
from ownlab.lab.notebooks.identity import find_identity, identity_folder
from ownlab.lab.notebooks.parsing import assign_cell_ids

__all__ = ["EditLog", "apply_pending_edits", "read_edit_log", "read_edits"]

# A log with more patches is replaced by a snapshot.
_MAX_BYTES = 4 << 20


class _Record(Struct, frozen=True, omit_defaults=True):
    """One line."""

    at: float = 0.0
    snapshot: EditedNotebook | None = None
    patch: Patch | None = None
    recovered: tuple[str, str] | None = None  # a cell, and the code that ran
    client: str = ""  # the page that ran it, and when it asked for it
    asked: float = 0.0
    dismissed: str | None = None


class EditLog:
    """The edits of one notebook by the pages of one lab, in memory and on disk. All methods that write block."""

    def __init__(self, path: Path, state: EditedNotebook) -> None:
        self.path, self.state = path, state
        self._size: int | None = None  # None: not on disk yet

    @classmethod
    def open(cls, path: Path) -> EditLog | None:
        """Read a log. None if there is none, or nothing of it is readable."""
        state, size = _read(path)
        if state is None:
            return None
        log = cls(path, state)
        log._size = size
        return log

    @property
    def on_disk(self) -> bool:
        """Whether anything of it is on disk: a notebook that was only opened has no log there."""
        return self._size is not None

    def apply(self, patch: Patch) -> Changes:
        """Record and apply a patch. OSError if it cannot be recorded; then nothing has changed."""
        if self.state.has_applied(patch):
            return self.state.answer_again(patch)
        at = time.time()
        self._append(_Record(at, patch=patch))
        return self.state.apply(patch, at)

    def recover(self, cell: str, ran: Ran) -> bool:
        """Record that a cell shows the code that ran. Return whether it changed."""
        changed = self.state.recover(cell, ran)
        if changed:
            self._append(_Record(ran.at, recovered=(cell, ran.code), client=ran.client, asked=ran.asked))
        return changed

    def dismiss_recovered(self, cell: str) -> bool:
        """Record that a person has seen that a cell was recovered."""
        known = self.state.dismiss_recovered(cell)
        if known:
            self._append(_Record(time.time(), dismissed=cell))
        return known

    def write_snapshot(self) -> None:
        """Replace the log by the present state: it was saved, or another program changed the file."""
        line = _line(_Record(time.time(), snapshot=self.state))
        self.path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
        replace_file(self.path, line, durable=True)
        self._size = len(line)

    def _append(self, record: _Record) -> None:
        if self._size is None or self._size > _MAX_BYTES:
            self.write_snapshot()
        assert self._size is not None
        line = _line(record)
        file = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            # Over what an interrupted write may have left behind.
            written = 0
            while written < len(line):
                written += os.pwrite(file, line[written:], self._size + written)
            os.fdatasync(file)
        except OSError:  # disk full: nothing of it counts
            with suppress(OSError):
                os.ftruncate(file, self._size)
            raise
        finally:
            os.close(file)
        self._size += len(line)


def read_edit_log(path: Path) -> EditedNotebook | None:
    """Read the state of a log without opening it for writing. None if there is none."""
    return _read(path)[0]


def read_edits(path: str) -> list[EditedNotebook]:
    """Return what the pages of each lab typed into a notebook, also what its file has by now."""
    identity = find_identity(path)
    if identity is None:
        return []
    files = sorted((identity_folder(identity.id) / "edits").glob("*.log"))
    return [state for file in files if (state := read_edit_log(file)) is not None]


def apply_pending_edits(path: str, notebook: dict[str, Any]) -> bool:
    """Apply what pages typed and no server has written to the file yet. Return whether anything has changed."""
    changed = False
    for state in read_edits(path):
        if state.unsaved:
            assign_cell_ids(notebook)
            state.rebase(read_base(notebook, None), time.time(), outputs_in(notebook))
            changed |= state.apply_to(notebook)
    return changed


def _read(path: Path) -> tuple[EditedNotebook | None, int]:
    state: EditedNotebook | None = None
    size = 0
    try:
        data = path.read_bytes()
    except OSError:
        return None, 0
    for record, end in _records(data):
        if record.snapshot is not None:
            state = record.snapshot
        elif state is not None:
            _apply(state, record)
        size = end
    return state, size


def _apply(state: EditedNotebook, record: _Record) -> None:
    if record.patch is not None:
        state.apply(record.patch, record.at)
    elif record.recovered is not None:
        cell, code = record.recovered
        state.recover(cell, Ran(code, record.at, record.client, record.asked))
    elif record.dismissed is not None:
        state.dismiss_recovered(record.dismissed)


def _line(record: _Record) -> bytes:
    encoded = _ENCODER.encode(record)
    return b"%08x %b\n" % (zlib.crc32(encoded), encoded)


def _records(data: bytes) -> Iterator[tuple[_Record, int]]:
    """Yield the records and where each ends."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        checksum, encoded = data[start : start + 8], data[start + 9 : end]
        try:
            if int(checksum, 16) != zlib.crc32(encoded):
                return
            record = _DECODER.decode(encoded)
        except (ValueError, msgspec.MsgspecError):
            return
        start = end + 1
        yield record, start


_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Record)

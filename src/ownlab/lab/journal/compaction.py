"""Compacts a journal: `python -m ownlab.lab.journal.compaction FOLDER CELL_MB`, beside the supervisor that writes it.

All segments except the newest are replayed, and replaced by records of the resulting state. It may be killed at any
moment: segments are removed only after the new file is complete and has its name, and readers use the newest file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from ownlab.atomic_files import replace_file
from ownlab.file_lock import try_lock
from ownlab.lab.journal.reader import records_after
from ownlab.lab.journal.records import encode
from ownlab.lab.journal.replay import compacted_records
from ownlab.lab.journal.state import JournalState
from ownlab.lab.journal.storage import compacted_name, list_journal_files, segment_name

__all__ = ["compact"]


def compact(folder: Path, cell_bytes: int) -> None:
    """Compact all segments except the newest. Do nothing if another process is compacting."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if try_lock(descriptor):
            _remove_replaced(folder)
            if _write_compacted(folder, cell_bytes):
                # Segments that are safe on disk are removed: the name of the file that replaces them must survive a power cut.
                os.fsync(descriptor)
                _remove_replaced(folder)
    finally:
        os.close(descriptor)


def _write_compacted(folder: Path, cell_bytes: int) -> bool:
    """Write a new compacted file; return whether there was anything to compact."""
    files = list_journal_files(folder)
    if len(files.logs) < 2:
        return False
    state = JournalState(cell_bytes)
    for record in records_after(folder, 0):
        if record.number >= files.logs[-1]:
            break
        state.add(record)
    if state.position <= files.folded:
        return False
    path = folder / compacted_name(state.position)

    def write(file: BinaryIO) -> None:
        for record in compacted_records(state):
            file.writelines(encode([record]))

    replace_file(path, write, durable=True, temporary=str(folder / f"{path.name}.tmp"))
    return True


def _remove_replaced(folder: Path) -> None:
    """Remove segments that a compacted file replaces, and what a killed compaction left."""
    files = list_journal_files(folder)
    old = [first for first, following in zip(files.logs, files.logs[1:], strict=False) if following <= files.folded + 1]
    for first in old:
        (folder / segment_name(first)).unlink()
    for path in [*folder.glob("*.folded.tmp"), *folder.glob("*.folded")]:
        if path.name != compacted_name(files.folded):
            path.unlink()


def main(folder: str, cell_mb: str) -> None:
    """Compact a journal; exit with a message if that fails."""
    try:
        compact(Path(folder), int(cell_mb) << 20)
    except OSError as exc:
        sys.exit(f"the journal in {folder} cannot be compacted: {exc.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])

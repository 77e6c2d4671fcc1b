"""Makes a journal small: `python -m ownlab.lab.journal.compaction FOLDER CELL_MB`, beside the supervisor that writes it.

All segments but the newest are folded, and records that stand for the result take their place. It may be killed at any
moment: what it replaces goes only after the new file is there, whole and under its name, and readers take the newest.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from ownlab.file_lock import try_lock
from ownlab.files import replace_file
from ownlab.lab.journal.reader import records_after
from ownlab.lab.journal.records import encode
from ownlab.lab.journal.replay import retell_all
from ownlab.lab.journal.state import Fold
from ownlab.lab.journal.storage import folded_name, list_files, log_name

__all__ = ["compact"]


def compact(folder: Path, cell_bytes: int) -> None:
    """Fold what no longer changes; nothing where another process is at it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if try_lock(descriptor):
            _sweep(folder)
            if _fold(folder, cell_bytes):
                # Segments go that are safe on the disk; so must be, after a loss of power too, the name of what replaces them.
                os.fsync(descriptor)
                _sweep(folder)
    finally:
        os.close(descriptor)


def _fold(folder: Path, cell_bytes: int) -> bool:
    """Whether there is a new compacted file."""
    files = list_files(folder)
    if len(files.logs) < 2:
        return False
    fold = Fold(cell_bytes)
    for record in records_after(folder, 0):
        if record.number >= files.logs[-1]:
            break
        fold.add(record)
    if fold.position <= files.folded:
        return False
    path = folder / folded_name(fold.position)

    def write(file: BinaryIO) -> None:
        for record in retell_all(fold):
            file.writelines(encode([record]))

    replace_file(path, write, durable=True, temporary=str(folder / f"{path.name}.tmp"))
    return True


def _sweep(folder: Path) -> None:
    """Remove what a compacted file stands for, and what a compaction that was killed has left."""
    files = list_files(folder)
    old = [first for first, following in zip(files.logs, files.logs[1:], strict=False) if following <= files.folded + 1]
    for first in old:
        (folder / log_name(first)).unlink()
    for path in [*folder.glob("*.folded.tmp"), *folder.glob("*.folded")]:
        if path.name != folded_name(files.folded):
            path.unlink()


def main(folder: str, cell_mb: str) -> None:
    """Ends with a word on what went wrong."""
    try:
        compact(Path(folder), int(cell_mb) << 20)
    except OSError as exc:
        sys.exit(f"the journal in {folder} is not compacted: {exc.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What SQLite and the file system complain of, in words: every failure of the store becomes a StoreError."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ownlab.errors import StoreError

__all__ = ["store_errors"]

# Python 3.10 gives no error codes, so the texts of SQLite's sqlite3ErrStr are what there is to go by.
_REASONS = (
    ("disk is full", "the disk is full", "Nothing was lost. Free some space and try again."),
    ("readonly", "it may not be written", "Ask who owns the folder for the right to write in it."),
    ("read-only", "it may not be written", "Ask who owns the folder for the right to write in it."),
    ("unable to open", "it cannot be opened", "The folder or its database is missing, or may not be used by you."),
    (
        "not a database",
        "its database is damaged",
        "When no runtime is running, move the db folder away: a new one is made.",
    ),
    ("malformed", "its database is damaged", "When no runtime is running, move the db folder away: a new one is made."),
    (
        "locked",
        "another program has kept it locked for too long",
        "Try again; if it stays so, look who has it open: fuser.",
    ),
    (
        "disk I/O error",
        "the disk did not take or give the data",
        "Nothing was lost. See whether it is full, or failing.",
    ),
)

_HINTS = {
    errno.ENOSPC: _REASONS[0][2],
    errno.EDQUOT: _REASONS[0][2],
    errno.EFBIG: _REASONS[0][2],
    errno.EACCES: _REASONS[1][2],
    errno.EPERM: _REASONS[1][2],
    errno.EROFS: _REASONS[1][2],
}


@contextmanager
def store_errors(folder: str) -> Iterator[None]:
    """Whatever sqlite3 or the operating system raises in here leaves as a StoreError that says what is wrong."""
    try:
        yield
    except sqlite3.Error as exc:
        text = str(exc)
        for part, reason, hint in _REASONS:
            if part in text:
                raise StoreError(f"The store {folder} cannot be used: {reason} ({text}).", hint=hint) from exc
        raise StoreError(f"The store {folder} refused: {text}.") from exc
    except OSError as exc:
        hint = _HINTS.get(exc.errno or 0, "")
        where = f" ({exc.filename})" if exc.filename else ""
        raise StoreError(f"The store {folder} cannot be used: {exc.strerror or exc}{where}.", hint=hint) from exc

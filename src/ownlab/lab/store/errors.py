"""Turns errors of SQLite and the file system into StoreErrors that say what is wrong and what to do."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ownlab.errors import StoreError
from ownlab.text import template, text

__all__ = ["REPAIR", "store_errors"]

_DISK_FULL = text("Nothing was lost. Free some space and try again.")
_NO_PERMISSION = text("Ask the owner of the folder for write permission.")
REPAIR = text(
    "Run `ownlab store repair`: it replaces the database. Running runtimes keep their cards, and CPU runtimes can be"
    " started meanwhile."
)
_DAMAGED_MESSAGE = template("The store {folder} cannot be used: its database is damaged ({error}).")

# Part of SQLite's message (sqlite3ErrStr; Python 3.10 gives no error codes) -> our message and hint.
_SQLITE_ERRORS = (
    ("disk is full", template("The store {folder} cannot be used: the disk is full ({error})."), _DISK_FULL),
    ("readonly", template("The store {folder} cannot be used: it is not writable ({error})."), _NO_PERMISSION),
    ("read-only", template("The store {folder} cannot be used: it is not writable ({error})."), _NO_PERMISSION),
    (
        "unable to open",
        template("The store {folder} cannot be used: it cannot be opened ({error})."),
        text("The folder or its database is missing, or you have no permission to use it."),
    ),
    ("not a database", _DAMAGED_MESSAGE, REPAIR),
    ("malformed", _DAMAGED_MESSAGE, REPAIR),
    ("no such table", _DAMAGED_MESSAGE, REPAIR),
    ("no such column", _DAMAGED_MESSAGE, REPAIR),
    ("has no column", _DAMAGED_MESSAGE, REPAIR),
    ("already exists", _DAMAGED_MESSAGE, REPAIR),
    (
        "locked",
        template("The store {folder} cannot be used: another program has locked it for too long ({error})."),
        text("Try again. If it stays locked, find the program that has it open with `fuser`."),
    ),
    (
        "disk I/O error",
        template("The store {folder} cannot be used: the disk failed to read or write ({error})."),
        text("Nothing was lost. Check whether the disk is full or failing."),
    ),
)

_HINTS = {
    errno.ENOSPC: _DISK_FULL,
    errno.EDQUOT: _DISK_FULL,
    errno.EFBIG: _DISK_FULL,
    errno.EACCES: _NO_PERMISSION,
    errno.EPERM: _NO_PERMISSION,
    errno.EROFS: _NO_PERMISSION,
}


@contextmanager
def store_errors(folder: str) -> Iterator[None]:
    """Raise StoreError for whatever sqlite3 or the operating system raises inside."""
    try:
        yield
    except sqlite3.Error as exc:
        for part, message, hint in _SQLITE_ERRORS:
            if part in str(exc):
                raise StoreError(message.fill(folder=folder, error=exc), hint=hint) from exc
        raise StoreError(text("The store {folder} failed: {error}.", folder=folder, error=exc)) from exc
    except OSError as exc:
        hint = _HINTS.get(exc.errno or 0, text(""))
        reason = exc.strerror or exc
        if exc.filename:
            failure = text(
                "The store {folder} cannot be used: {reason} ({path}).",
                folder=folder,
                reason=reason,
                path=exc.filename,
            )
        else:
            failure = text("The store {folder} cannot be used: {reason}.", folder=folder, reason=reason)
        raise StoreError(failure, hint=hint) from exc

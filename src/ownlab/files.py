"""Files that people keep, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from ownlab.errors import InputError

__all__ = ["write_whole"]


def write_whole(text: bytes, path: str | Path) -> None:
    """Write a file, whole or not at all: the one that was there stays until the new one is complete.

    What is no regular file (/dev/stdout, a named pipe) is written to as it is.
    """
    try:
        mode = _mode_of(path)
        if mode is not None and not stat.S_ISREG(mode):
            with open(path, "wb") as file:
                file.write(text)
        else:
            _replace(os.path.realpath(path), text, mode)
    except OSError as exc:
        raise InputError(f"{path} cannot be written: {exc.strerror}") from exc


def _mode_of(path: str | Path) -> int | None:
    """Of what the path leads to through links; None where that is nothing yet."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _replace(target: str, text: bytes, mode: int | None) -> None:
    """A new file is its owner's alone (mkstemp), since what we write describes a person's computer; an old one keeps its mode."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=f".{os.path.basename(target)}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:  # an interrupt, too, leaves nothing behind
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise

"""The one atomic writer: a file is replaced as a whole, or stays as it was. Standard library only: supervisors import it."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable
from typing import BinaryIO

from ownlab.errors import InputError
from ownlab.text import text

__all__ = ["Content", "replace_file", "write_file"]

# What is written: text (as UTF-8), bytes, or a function that writes to the open file.
Content = str | bytes | Callable[[BinaryIO], None]


def replace_file(
    path: str | os.PathLike[str],
    content: Content,
    *,
    mode: int = 0o600,
    durable: bool = False,
    temporary: str | None = None,
    finish: Callable[[str], None] | None = None,
) -> None:
    """Replace a file atomically: a reader sees the old file or the new one, never a part. Raises OSError.

    By default only the owner may read it. durable: on the disk before it replaces the old one, also after a power cut.
    temporary: the path of the new file until then. finish: called with that path last, to set its owner or mode.
    """
    target = os.fspath(path)
    # The thread id too: a server writes from several threads, and one must not rename what another still writes.
    new = temporary or f"{target}.{os.getpid()}.{threading.get_ident():x}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)  # left by an interrupted write
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            _write(file, content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if finish is not None:
            finish(new)
        os.replace(new, target)
    except BaseException:  # an interrupt leaves nothing behind either
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def _write(file: BinaryIO, content: Content) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that a person named, atomically. InputError when that is impossible.

    A new file is readable by its owner only, since what we write describes a person's computer; an existing one keeps its
    mode. A device or a pipe (/dev/stdout) is written to directly.
    """
    try:
        mode = _mode(path)
        if mode is not None and not stat.S_ISREG(mode):
            with open(path, "wb") as file:
                file.write(content)
            return
        target = os.path.realpath(path)
        hidden = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{os.getpid()}.new")
        keep = None if mode is None else lambda new: os.chmod(new, stat.S_IMODE(mode))
        replace_file(target, content, temporary=hidden, finish=keep)
    except OSError as exc:
        raise InputError(text("Cannot write {path}: {reason}.", path=path, reason=exc.strerror)) from exc


def _mode(path: str | os.PathLike[str]) -> int | None:
    """Return the mode of the file behind all links; None when there is none yet."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None

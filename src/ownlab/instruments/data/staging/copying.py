"""Copies files: several at once, each whole or not at all, each read back and compared."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from ownlab.errors import InputError
from ownlab.instruments.data.staging.source_tree import SourceFile
from ownlab.text import text
from ownlab.units import MIB

__all__ = ["CopiedFile", "CopyJob", "copy_files"]

_WORKERS = 8  # a network file system answers several requests at once
_BLOCK = 4 * MIB
_FLUSHED = 8 * MIB  # larger files are flushed before they are read back
_PENDING = 64


class CopiedFile(Struct, frozen=True, array_like=True):
    """A line of the list of finished files. Names of files are bytes."""

    path: bytes
    size: int
    source_mtime_ns: int
    mtime_ns: int  # of the copy: its file system may be coarser
    crc32: int


class CopyJob(NamedTuple):
    """From where, to where, and who wants to know."""

    source: str
    target: str
    temporary: str  # a folder on the same file system as the target
    started: Callable[[int], None]  # bytes that were read
    finished: Callable[[CopiedFile], None]
    stop: threading.Event


def copy_files(job: CopyJob, files: Iterable[SourceFile]) -> None:
    """Copy files; the first error ends it. Raises InputError and OSError."""
    remaining = iter(files)
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="stage") as pool:
        running: set[Future[CopiedFile]] = set()
        try:
            while True:
                running |= {pool.submit(_copy, job, file) for file in islice(remaining, _PENDING - len(running))}
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    job.finished(each.result())
        except BaseException:
            job.stop.set()
            for each in running:
                each.cancel()
            raise


def _copy(job: CopyJob, file: SourceFile) -> CopiedFile:
    source = os.path.join(job.source, file.path) if file.path else job.source
    target = os.path.join(job.target, file.path) if file.path else job.target
    os.makedirs(os.path.dirname(target), exist_ok=True)
    temporary = os.path.join(job.temporary, f"{threading.get_ident():x}")
    try:
        for last in (False, True):
            copied = _copy_once(job, source, temporary)
            if copied is not None:
                break
            if last:
                raise InputError(text("{path} changes while it is copied.", path=source))
        assert copied is not None
        os.utime(temporary, ns=(copied.mtime_ns, copied.mtime_ns))
        os.replace(temporary, target)
    except OSError as exc:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InputError(text("Cannot copy {path}: {reason}.", path=source, reason=exc.strerror or exc)) from exc
    written = os.stat(target).st_mtime_ns
    return CopiedFile(os.fsencode(file.path), copied.size, copied.mtime_ns, written, copied.crc32)


class _Copied(NamedTuple):
    size: int
    mtime_ns: int
    crc32: int


def _copy_once(job: CopyJob, source: str, temporary: str) -> _Copied | None:
    """Copy the content and compare it. None if the source changed meanwhile."""
    size = crc32 = 0
    with open(source, "rb", buffering=0) as reader, open(temporary, "wb", buffering=0) as writer:
        before = os.fstat(reader.fileno())
        while block := reader.read(_BLOCK):
            if job.stop.is_set():
                raise InputError(text("The copy was interrupted."))
            view = memoryview(block)
            while view:
                view = view[writer.write(view) :]
            crc32, size = zlib.crc32(block, crc32), size + len(block)
            job.started(len(block))
        after = os.fstat(reader.fileno())
        os.fchmod(writer.fileno(), stat.S_IMODE(after.st_mode) & 0o777 | 0o600)
        if size > _FLUSHED:
            os.fsync(writer.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(writer.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # so that it is read from the disk
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or size != after.st_size:
        return None
    if _crc32_of(temporary) != crc32:
        raise InputError(
            text("The copy of {path} differs from it.", path=source),
            hint=text(
                "The local disk or its controller returns other bytes than were written. Check it: smartctl -a, dmesg"
            ),
        )
    return _Copied(size, after.st_mtime_ns, crc32)


def _crc32_of(path: str) -> int:
    crc32 = 0
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            crc32 = zlib.crc32(block, crc32)
    return crc32

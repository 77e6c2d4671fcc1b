"""Tests of a disk without the page cache: an unnamed file, direct I/O, sequential and random reads.

The file has no name, so nothing remains of it, however the process ends. Caches below direct I/O cannot be switched
off: the memory of the drive, the cache of the host under a virtual disk, the cache of a file server.
"""

import contextlib
import errno
import mmap
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import List, NamedTuple, Optional, Tuple

from ownlab_guest.bench.device import Device, read_lines
from ownlab_guest.bench.timing import Outcome, Skipped, percentiles, reduce_values, slice_times
from ownlab_guest.text import text

MIB = 1 << 20
BLOCK, PAGE = 4 * MIB, 4096
# At most this share of the free space.
SHARE_OF_FREE = 0.1
LEAST_BYTES = 64 * MIB
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
ELSEWHERE = ("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "lustre", "ceph", "glusterfs", "beegfs", "fuse")
DIRECT, UNNAMED = getattr(os, "O_DIRECT", 0), getattr(os, "O_TMPFILE", 0)
# The errors of file systems without such files (EISDIR: before Linux 3.11).
UNSUPPORTED_ERRORS = (errno.EINVAL, errno.EOPNOTSUPP, errno.EISDIR)


class TestFile(NamedTuple):
    """An open, written file without a name."""

    descriptor: int
    bytes: int
    direct: bool
    written: List[float]  # seconds of each block
    notes: Tuple[str, ...]


class Disk:
    """The tests of one disk. They share one file, which the first of them writes."""

    def __init__(self, mib: int) -> None:
        self.mib = mib
        self._file: Optional[TestFile] = None

    def file(self, device: Device, seconds: float) -> TestFile:
        """Return the file; write it at the first call. It stays open until the process ends."""
        if self._file is None:
            self._file = create_file(device.request.folder, self.mib, seconds)
        return self._file

    def write(self, device: Device, seconds: float) -> Outcome:
        """Write blocks of 4 MiB in order, each synced. A short test: many drives are slower after some GiB."""
        file = self.file(device, seconds)
        return Outcome(reduce_values(file.written), float(BLOCK), notes=file.notes, shape={"bytes": file.bytes})

    def read_sequential(self, device: Device, seconds: float) -> Outcome:
        """Read blocks of 4 MiB in order, repeatedly while there is time."""
        file = self.file(device, seconds)
        taken: List[float] = []
        deadline = time.perf_counter() + seconds
        with mmap.mmap(-1, BLOCK) as buffer:
            while len(taken) < 5 or time.perf_counter() < deadline:
                offset = len(taken) * BLOCK % file.bytes
                if not file.direct and offset == 0:
                    _drop_cache(file)
                taken.append(_read(file.descriptor, buffer, offset))
        return Outcome(reduce_values(taken), float(BLOCK), notes=file.notes, shape={"bytes": file.bytes})

    def read_random(self, device: Device, seconds: float, depth: int) -> Outcome:
        """Read random pages of 4 KiB, `depth` at a time, with as many threads."""
        file = self.file(device, seconds)
        if not file.direct:
            _drop_cache(file)
        began = time.perf_counter()
        with ThreadPoolExecutor(depth) as threads:
            by_thread = list(threads.map(lambda seed: _read_pages(file, seed, depth, began + seconds), range(depth)))
        taken = [seconds for pages in by_thread for seconds, _ in pages]
        moments = [moment for pages in by_thread for _, moment in pages]
        shape = {"bytes": file.bytes, "depth": depth}
        if depth == 1:
            return Outcome(reduce_values(taken), 1.0, percentiles(taken), notes=file.notes, shape=shape)
        notes = (*file.notes, text("It used Python threads, which may be slower than the disk."))
        rate = slice_times(moments, began)
        return Outcome(rate, 1.0, percentiles(taken), notes=notes, shape=shape)


def _read_pages(file: TestFile, seed: int, depth: int, deadline: float) -> List[Tuple[float, float]]:
    """Return the seconds of each page and when it arrived. No page is read twice, because it may be cached then."""
    generator = random.Random(seed)  # noqa: S311  # not for secrets
    mine = range(seed, file.bytes // PAGE, depth)
    order = generator.sample(mine, min(len(mine), 200_000))
    taken: List[Tuple[float, float]] = []
    with mmap.mmap(-1, PAGE) as buffer:
        for page in order:
            if taken and taken[-1][1] >= deadline:
                break
            seconds = _read(file.descriptor, buffer, page * PAGE)
            taken.append((seconds, time.perf_counter()))
    return taken


def _read(descriptor: int, buffer: mmap.mmap, offset: int) -> float:
    began = time.perf_counter()
    got = os.preadv(descriptor, [buffer], offset)
    taken = time.perf_counter() - began
    if got != len(buffer):
        raise OSError(errno.EIO, text("{got} of {count} bytes at {offset}", got=got, count=len(buffer), offset=offset))
    return taken


def create_file(folder: str, mib: int, seconds: float) -> TestFile:
    """Create the file with random bytes, which cannot be compressed. Writing stops when time is up."""
    folder = os.path.abspath(folder or ".")
    kind = file_system(folder)
    if kind in IN_MEMORY:
        raise Skipped(
            "cache-cannot-be-avoided", text("{folder} is in memory ({kind}), not on a disk", folder=folder, kind=kind)
        )
    if not (hasattr(os, "preadv") and hasattr(os, "posix_fadvise")):  # macOS, Windows
        raise Skipped("unsupported", text("on this system Python cannot read without the cache"))
    size = _limit_size(folder, mib * MIB)
    try:
        descriptor, direct = _open(folder)
    except OSError as exc:
        raise Skipped("unwritable", text("{folder}: {reason}", folder=folder, reason=exc.strerror)) from exc
    try:
        written = _fill(descriptor, size, max(2.0, 2 * seconds))
    except OSError as exc:
        os.close(descriptor)
        reason = "no-space" if exc.errno in (errno.ENOSPC, errno.EDQUOT) else "failed"
        raise Skipped(reason, text("{folder}: {reason}", folder=folder, reason=exc.strerror)) from exc
    return TestFile(descriptor, len(written) * BLOCK, direct, written, _notes(kind, direct))


def _open(folder: str) -> Tuple[int, bool]:
    """Open with direct I/O and without a name, as far as the file system supports them."""
    for flags in (DIRECT, 0):
        for open_file in (_open_unnamed, _open_unlinked) if UNNAMED else (_open_unlinked,):
            with contextlib.suppress(Unsupported):
                return open_file(folder, os.O_RDWR | flags), bool(flags)
    raise Unsupported(errno.EINVAL, os.strerror(errno.EINVAL))


class Unsupported(OSError):
    """The file system does not support this kind of file."""


def _open_path(path: str, flags: int) -> int:
    try:
        return os.open(path, flags, 0o600)
    except OSError as exc:
        if exc.errno in UNSUPPORTED_ERRORS:
            raise Unsupported(exc.errno, exc.strerror) from exc
        raise


def _open_unnamed(folder: str, flags: int) -> int:
    return _open_path(folder, flags | UNNAMED)


def _open_unlinked(folder: str, flags: int) -> int:
    path = os.path.join(folder, f".ownlab-bench-{os.getpid()}-{random.getrandbits(32):08x}")
    try:
        return _open_path(path, flags | os.O_CREAT | os.O_EXCL)
    finally:
        with contextlib.suppress(FileNotFoundError):  # some systems create it, but then fail
            os.unlink(path)


def _fill(descriptor: int, size: int, seconds: float) -> List[float]:
    """Write the file, at least LEAST_BYTES; return the seconds of each block."""
    taken: List[float] = []
    deadline = time.perf_counter() + seconds
    with mmap.mmap(-1, BLOCK) as buffer:
        for offset in range(0, size, BLOCK):
            buffer[:] = os.urandom(BLOCK)
            began = time.perf_counter()
            got = os.pwritev(descriptor, [buffer], offset)
            os.fdatasync(descriptor)
            taken.append(time.perf_counter() - began)
            if got != BLOCK:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if offset >= LEAST_BYTES and time.perf_counter() > deadline:
                break
    return taken


def _drop_cache(file: TestFile) -> None:
    """Without direct I/O: drop the cached pages, and check that they are gone."""
    os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        cached = is_cached(file.descriptor, file.bytes // 2 // PAGE * PAGE)
    except OSError as exc:
        message = text("the system does not report what is cached: {reason}", reason=exc.strerror)
        raise Skipped("cache-cannot-be-avoided", message) from exc
    if cached:
        message = text("this file system has no direct I/O, and keeps pages in its cache")
        raise Skipped("cache-cannot-be-avoided", message)


def is_cached(descriptor: int, offset: int) -> bool:
    """Whether this page can be read without waiting for the disk. The check does not cache it."""
    with mmap.mmap(-1, PAGE) as buffer:
        try:
            os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
    return True


def _limit_size(folder: str, size: int) -> int:
    """Return the size in whole blocks, at most SHARE_OF_FREE of the free space."""
    try:
        left = os.statvfs(folder)
    except OSError as exc:
        raise Skipped("unwritable", text("{folder}: {reason}", folder=folder, reason=exc.strerror)) from exc
    free = left.f_bavail * left.f_frsize
    most = min(size, int(free * SHARE_OF_FREE))
    if most < LEAST_BYTES:
        raise Skipped(
            "no-space",
            text(
                "{folder} has {free} MiB free; {needed} MiB are needed",
                folder=folder,
                free=free // MIB,
                needed=10 * LEAST_BYTES // MIB,
            ),
        )
    return most // BLOCK * BLOCK


def file_system(folder: str) -> Optional[str]:
    """Return the type of the file system: that of the longest mount point above the folder."""
    folder, longest = os.path.realpath(folder), ("", "")
    for line in read_lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        if (folder + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(longest[0]):
            longest = point, after.split()[0]
    return longest[1] or None


def _notes(kind: Optional[str], direct: bool) -> Tuple[str, ...]:
    notes = [] if direct else [text("There is no direct I/O here: the cached pages were dropped instead.")]
    if kind is not None and kind.partition(".")[0] in ELSEWHERE:
        notes.append(text("The file server ({kind}) may have the file in memory.", kind=kind))
    elif any(line.startswith("flags") and " hypervisor" in line for line in read_lines("/proc/cpuinfo")):
        notes.append(text("This is a virtual machine: its host may have the file in memory."))
    return tuple(notes)

"""What a disk gives, past the page cache: a file of our own, direct I/O, one pass in order and single pages at random.

The file has no name, so nothing of it stays, however we end. What lies below direct
I/O is not ours to switch off: the drive's own memory, the host's cache under a virtual disk, a file server's.
"""

import contextlib
import errno
import mmap
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import List, NamedTuple, Optional, Tuple

from ownlab_guest.bench.device import Place, lines
from ownlab_guest.bench.timing import Outcome, Skipped, percentiles, sliced, thinned

MIB = 1 << 20
BLOCK, PAGE = 4 * MIB, 4096
# Never more than this share of what is free.
SHARE_OF_FREE = 0.1
LEAST_BYTES = 64 * MIB
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
ELSEWHERE = ("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "lustre", "ceph", "glusterfs", "beegfs", "fuse")
DIRECT, UNNAMED = getattr(os, "O_DIRECT", 0), getattr(os, "O_TMPFILE", 0)
# By which file systems say that they have not what is asked for (EISDIR: before Linux 3.11).
REFUSALS = (errno.EINVAL, errno.EOPNOTSUPP, errno.EISDIR)


class File(NamedTuple):
    """Open, written, and without a name."""

    descriptor: int
    bytes: int
    direct: bool
    written: List[float]  # seconds of each block
    note: str


class Disk:
    """The tests of one disk share one file, which the first of them writes."""

    def __init__(self, mib: int) -> None:
        self.mib = mib
        self._file: Optional[File] = None

    def file(self, place: Place, seconds: float) -> File:
        """Written once. Its descriptor is open until the process ends."""
        if self._file is None:
            self._file = own_file(place.request.folder, self.mib, seconds)
        return self._file

    def write(self, place: Place, seconds: float) -> Outcome:
        """In order, in blocks of 4 MiB, each until the disk has it. Short: many drives are slower after some GiB."""
        file = self.file(place, seconds)
        return Outcome(thinned(file.written), float(BLOCK), note=file.note, shape={"bytes": file.bytes})

    def sequential(self, place: Place, seconds: float) -> Outcome:
        """Blocks of 4 MiB in their order, through the file and again while there is time."""
        file = self.file(place, seconds)
        taken: List[float] = []
        deadline = time.perf_counter() + seconds
        with mmap.mmap(-1, BLOCK) as buffer:
            while len(taken) < 5 or time.perf_counter() < deadline:
                offset = len(taken) * BLOCK % file.bytes
                if not file.direct and offset == 0:
                    _forget(file)
                taken.append(_read(file.descriptor, buffer, offset))
        return Outcome(thinned(taken), float(BLOCK), note=file.note, shape={"bytes": file.bytes})

    def at_random(self, place: Place, seconds: float, depth: int) -> Outcome:
        """Pages of 4 KiB anywhere in the file; `depth` of them asked for at once, by so many threads."""
        file = self.file(place, seconds)
        if not file.direct:
            _forget(file)
        began = time.perf_counter()
        with ThreadPoolExecutor(depth) as threads:
            each = list(threads.map(lambda seed: _pages(file, seed, depth, began + seconds), range(depth)))
        taken = [one for part in each for one, _ in part]
        moments = [one for part in each for _, one in part]
        shape = {"bytes": file.bytes, "depth": depth}
        if depth == 1:
            return Outcome(thinned(taken), 1.0, percentiles(taken), note=file.note, shape=shape)
        note = "; ".join(filter(None, [file.note, "threads of Python, which may be slower than the disk"]))
        rate = sliced(moments, began)
        return Outcome(rate, 1.0, percentiles(taken), note=note, shape=shape)


def _pages(file: File, seed: int, depth: int, deadline: float) -> List[Tuple[float, float]]:
    """Seconds of each page, and when it was there; no page twice, since what was read once may be in some cache."""
    generator = random.Random(seed)  # noqa: S311  # no secret
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
        raise OSError(errno.EIO, f"{got} of {len(buffer)} bytes at {offset}")
    return taken


def own_file(folder: str, mib: int, seconds: float) -> File:
    """Random bytes, so that nothing on the way can compress them. Writing stops when time is up."""
    folder = os.path.abspath(folder or ".")
    kind = file_system(folder)
    if kind in IN_MEMORY:
        raise Skipped("cache-cannot-be-avoided", f"{folder} is in memory ({kind}), on no disk")
    if not (hasattr(os, "preadv") and hasattr(os, "posix_fadvise")):  # macOS, Windows
        raise Skipped("unsupported", "this system has no reads past its cache that Python could ask for")
    size = _affordable(folder, mib * MIB)
    try:
        descriptor, direct = _open(folder)
    except OSError as exc:
        raise Skipped("unwritable", f"{folder}: {exc.strerror}") from exc
    try:
        written = _fill(descriptor, size, max(2.0, 2 * seconds))
    except OSError as exc:
        os.close(descriptor)
        reason = "no-space" if exc.errno in (errno.ENOSPC, errno.EDQUOT) else "failed"
        raise Skipped(reason, f"{folder}: {exc.strerror}") from exc
    return File(descriptor, len(written) * BLOCK, direct, written, _note(kind, direct))


def _open(folder: str) -> Tuple[int, bool]:
    """For direct I/O, if the file system has that; and a file that never has a name, if it has those."""
    for flags in (DIRECT, 0):
        for opened in (_unnamed, _unlinked) if UNNAMED else (_unlinked,):
            with contextlib.suppress(Refused):
                return opened(folder, os.O_RDWR | flags), bool(flags)
    raise Refused(errno.EINVAL, os.strerror(errno.EINVAL))


class Refused(OSError):
    """The file system has no such files."""


def _opened(path: str, flags: int) -> int:
    try:
        return os.open(path, flags, 0o600)
    except OSError as exc:
        if exc.errno in REFUSALS:
            raise Refused(exc.errno, exc.strerror) from exc
        raise


def _unnamed(folder: str, flags: int) -> int:
    return _opened(folder, flags | UNNAMED)


def _unlinked(folder: str, flags: int) -> int:
    path = os.path.join(folder, f".ownlab-bench-{os.getpid()}-{random.getrandbits(32):08x}")
    try:
        return _opened(path, flags | os.O_CREAT | os.O_EXCL)
    finally:
        with contextlib.suppress(FileNotFoundError):  # some systems make it, and refuse all the same
            os.unlink(path)


def _fill(descriptor: int, size: int, seconds: float) -> List[float]:
    """Seconds that each block took; at least LEAST_BYTES of them."""
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


def _forget(file: File) -> None:
    """Without direct I/O: ask the system to drop its pages, and see whether it did."""
    os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        kept = is_cached(file.descriptor, file.bytes // 2 // PAGE * PAGE)
    except OSError as exc:
        raise Skipped("cache-cannot-be-avoided", f"nobody can say what is cached: {exc.strerror}") from exc
    if kept:
        words = "this file system refuses direct I/O, and keeps what it was asked to drop"
        raise Skipped("cache-cannot-be-avoided", words)


def is_cached(descriptor: int, offset: int) -> bool:
    """Whether this page can be had without waiting for the disk. Asking brings it into no cache."""
    with mmap.mmap(-1, PAGE) as buffer:
        try:
            os.preadv(descriptor, [buffer], offset, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
    return True


def _affordable(folder: str, size: int) -> int:
    """Whole blocks, of at most SHARE_OF_FREE of what is free."""
    try:
        left = os.statvfs(folder)
    except OSError as exc:
        raise Skipped("unwritable", f"{folder}: {exc.strerror}") from exc
    free = left.f_bavail * left.f_frsize
    most = min(size, int(free * SHARE_OF_FREE))
    if most < LEAST_BYTES:
        raise Skipped("no-space", f"{folder} has {free // MIB} MiB free; ten times {LEAST_BYTES // MIB} MiB are wanted")
    return most // BLOCK * BLOCK


def file_system(folder: str) -> Optional[str]:
    """Its type: that of the longest mount point above the folder."""
    folder, found = os.path.realpath(folder), ("", "")
    for line in lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        point = before.split()[4].replace("\\040", " ")
        if (folder + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(found[0]):
            found = point, after.split()[0]
    return found[1] or None


def _note(kind: Optional[str], direct: bool) -> str:
    said = [] if direct else ["no direct I/O here: the system was asked to drop its pages instead"]
    if kind is not None and kind.partition(".")[0] in ELSEWHERE:
        said.append(f"{kind}: whoever serves it may have it in memory")
    elif any(line.startswith("flags") and " hypervisor" in line for line in lines("/proc/cpuinfo")):
        said.append("a virtual machine: its host may have the file in memory")
    return "; ".join(said)

"""How much of a part of a file the page cache has."""

import ctypes
import functools
import os
import platform
import struct
from typing import Callable, Optional

# linux/mman.h, since Linux 6.5: the range, and how many of its pages are cached, dirty, being written, evicted, recently evicted.
_CACHESTAT = 451
_RANGE, _ANSWER = struct.Struct("QQ"), struct.Struct("5Q")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
# The kernel reads and drops pages in runs that are rarely shorter.
_PROBE_BYTES = 128 << 10

Count = Callable[[int, int, int], Optional[int]]


def cached_share(file: int, start: int, end: int) -> float:
    """Return how much of a part seems to be in memory: from 0 to 1. 0 where nobody can tell."""
    counted = _counter()(file, start, end)
    if counted is not None:
        return counted / (-(-end // _PAGE) - start // _PAGE)
    return float(_answers_at_once(file, start, end))


@functools.lru_cache(maxsize=None)
def _counter() -> Count:
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64", "riscv64"):
        return lambda *_: None
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long

    def count(file: int, start: int, end: int) -> Optional[int]:
        answer = ctypes.create_string_buffer(_ANSWER.size)
        part = ctypes.create_string_buffer(_RANGE.pack(start, end - start), _RANGE.size)
        if call(ctypes.c_long(_CACHESTAT), ctypes.c_int(file), part, answer, ctypes.c_uint(0)):
            return None  # an older kernel, or not for this file
        return int(_ANSWER.unpack(answer.raw)[0])

    return count


def _answers_at_once(file: int, start: int, end: int) -> bool:
    """Probe with reads that must not wait. The first page that is missing is read by the kernel nevertheless: one more request."""
    probe = [bytearray(1)]
    try:
        for place in range(start, end, _PROBE_BYTES):
            os.preadv(file, probe, place, os.RWF_NOWAIT)
    except (AttributeError, OSError):  # it is not there (EAGAIN), or nobody can tell
        return False
    return True

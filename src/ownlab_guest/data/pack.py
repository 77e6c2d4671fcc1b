"""The entry point, `launch.py data.pack REQUEST`: packs, and prints one event per line."""

import contextlib
import ctypes
import json
import signal
import sys
from typing import Any, Dict, Iterator, List

from ownlab_guest.data.event_stream import reported
from ownlab_guest.data.packing import pack, request_of

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_LARGE, _KEPT = 1 << 20, 64 << 20


def stream(arguments: List[str]) -> "Iterator[Dict[str, Any]]":
    """Yield progress and the result, or an error."""
    _end_with_host()
    _tune_memory()
    request = request_of(json.loads(arguments[0]))
    return reported(pack(request), folder=request.out)


def _end_with_host() -> None:
    """If `ownlab data pack` is killed, nothing goes on packing: the same command, given again, continues at once."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # a C library without it
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _tune_memory() -> None:
    """Let memory of large files go back to the system at once; glibc would keep blocks of up to 32 MiB, for each thread.

    Memory of small ones stays, and all threads share it: what one has read, another one frees. Else glibc gives it back and takes it
    anew for almost every file, which costs as much as reading it.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            library.mallopt(_M_MMAP_THRESHOLD, _LARGE)
            library.mallopt(_M_TRIM_THRESHOLD, _KEPT)
            library.mallopt(_M_ARENA_MAX, 1)

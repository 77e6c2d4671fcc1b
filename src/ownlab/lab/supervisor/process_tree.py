"""The processes below a supervisor: descendants, their CPU time, and how they are ended."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from ownlab.lab.store.rows import Process
from ownlab.processes.procfs import all_processes, children_of, descendants_of, process_started

__all__ = [
    "adopt_orphans",
    "cpu_seconds",
    "descendants",
    "end_descendants",
    "identify",
    "signal_when_parent_dies",
]

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_TICKS = os.sysconf("SC_CLK_TCK")


def adopt_orphans() -> None:
    """Become a child subreaper: descendants whose parent dies become our children, even if they were detached."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_dies(signum: int) -> None:
    """Receive `signum` when the parent dies. Callers must check os.getppid() afterwards: it may be dead already."""
    _prctl(PR_SET_PDEATHSIG, signum)


def identify(pid: int) -> Process:
    """Return the process with its start time, which distinguishes it from a later process with the same pid."""
    return Process(pid, process_started(pid) or 0)


def descendants(root: int, *, without: Collection[int] = ()) -> list[int]:
    """List every process below `root`, zombies included, except the children in `without` and what is below them."""
    return _below(root, children_of(all_processes()), without)


def cpu_seconds(root: int, *, without: Collection[int] = ()) -> float:
    """Sum the CPU time of all processes below `root`, except those in `without` and what is below them."""
    table = all_processes()
    return sum(table[pid].ticks for pid in _below(root, children_of(table), without)) / _TICKS


def end_descendants(reap: Callable[[], None], deadline: float, *, spare: Collection[int] = ()) -> list[int]:
    """Kill everything below this process until nothing is left. Return what is still there after `deadline` seconds.

    Processes that fork meanwhile are killed in the next round: their orphans become our children (`adopt_orphans`).
    """
    end = time.monotonic() + deadline
    pause = 0.001
    while True:
        left = descendants(os.getpid(), without=spare)
        for pid in left:
            with suppress(
                ProcessLookupError, PermissionError
            ):  # already gone, or another user's (sudo), which is only waited for
                os.kill(pid, signal.SIGKILL)
        reap()
        if not left or time.monotonic() > end:
            return left
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def _below(root: int, children: dict[int, list[int]], without: Collection[int]) -> list[int]:
    if without:
        children[root] = [pid for pid in children.get(root, ()) if pid not in without]
    return descendants_of(root, children)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")

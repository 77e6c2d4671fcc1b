"""The kernel's view of processes: who descends from whom, how much they worked, and what becomes of orphans."""

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
    """Every descendant whose parent dies becomes a child of this process, however it was detached."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_dies(signum: int) -> None:
    """Be sent `signum` when the parent ends. Whoever calls this checks os.getppid() afterwards: it may be gone already."""
    _prctl(PR_SET_PDEATHSIG, signum)


def identify(pid: int) -> Process:
    """The process with its start time, so that it cannot be mistaken for a later one of the same number."""
    return Process(pid, process_started(pid) or 0)


def descendants(root: int, *, without: Collection[int] = ()) -> list[int]:
    """Every process below `root`, zombies included; children of its, and what is below them, left out."""
    return _below(root, children_of(all_processes()), without)


def cpu_seconds(root: int, *, without: Collection[int] = ()) -> float:
    """What all processes below `root` have worked since each began; some of its children left out likewise."""
    table = all_processes()
    return sum(table[pid].ticks for pid in _below(root, children_of(table), without)) / _TICKS


def end_descendants(reap: Callable[[], None], deadline: float, *, spare: Collection[int] = ()) -> list[int]:
    """SIGKILL everything below this process until nothing is left; what is left after `deadline` seconds.

    Processes that fork meanwhile are met in the next round, since their orphans come to us (`adopt_orphans`).
    """
    end = time.monotonic() + deadline
    pause = 0.001
    while True:
        left = descendants(os.getpid(), without=spare)
        for pid in left:
            with suppress(
                ProcessLookupError, PermissionError
            ):  # gone, or another user's (sudo): that one is waited for
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

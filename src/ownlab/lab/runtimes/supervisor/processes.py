"""The kernel's view of processes: who descends from whom, how much they worked, and what becomes of orphans."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ownlab.lab.store.rows import Process

__all__ = [
    "Stat",
    "adopt_orphans",
    "cpu_seconds",
    "descendants",
    "end_descendants",
    "identify",
    "read_stat",
    "signal_when_parent_dies",
]

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_TICKS = os.sysconf("SC_CLK_TCK")


class Stat(NamedTuple):
    """What is used of /proc/PID/stat."""

    parent: int
    ticks: int  # of CPU time: its own, and that of its children that it has waited for
    started: int


def adopt_orphans() -> None:
    """Every descendant whose parent dies becomes a child of this process, however it was detached."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_dies(signum: int) -> None:
    """Be sent `signum` when the parent ends. Whoever calls this checks os.getppid() afterwards: it may be gone already."""
    _prctl(PR_SET_PDEATHSIG, signum)


def identify(pid: int) -> Process:
    """The process with its start time, so that it cannot be mistaken for a later one of the same number."""
    stat = read_stat(pid)
    return Process(pid, stat.started if stat else 0)


def descendants(root: int) -> list[int]:
    """Every process below `root`, zombies included."""
    return list(_below(root))


def cpu_seconds(root: int, *, without: int = 0) -> float:
    """What all processes below `root` have worked since each began; one child and what is below it left out."""
    return sum(stat.ticks for stat in _below(root, without).values()) / _TICKS


def end_descendants(reap: Callable[[], None], deadline: float) -> list[int]:
    """SIGKILL everything below this process until nothing is left; what is left after `deadline` seconds.

    Processes that fork meanwhile are met in the next round, since their orphans come to us (`adopt_orphans`).
    """
    end = time.monotonic() + deadline
    pause = 0.001
    while True:
        left = descendants(os.getpid())
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


def _below(root: int, without: int = 0) -> dict[int, Stat]:
    table = {int(name): stat for name in os.listdir("/proc") if name.isdigit() and (stat := read_stat(int(name)))}
    children: dict[int, list[int]] = {}
    for pid, stat in table.items():
        children.setdefault(stat.parent, []).append(pid)
    found: dict[int, Stat] = {}
    fresh = [root]
    while fresh:
        for pid in children.get(fresh.pop(), ()):
            if pid != without:
                found[pid] = table[pid]
                fresh.append(pid)
    return found


def read_stat(pid: int) -> Stat | None:
    """None where there is no such process, or where this machine hides it (hidepid=1): then it is not below us."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name, in parentheses, may hold anything, parentheses too. After it: state (field 3 of proc(5)), ppid, …
    fields = text[text.rindex(b")") + 2 :].split()
    return Stat(int(fields[1]), sum(int(ticks) for ticks in fields[11:15]), int(fields[19]))


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}): {os.strerror(error)}")

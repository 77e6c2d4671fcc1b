"""What runtimes left behind when they died: found through /proc, and ended by whoever may.

A process belongs to a runtime by the marker in its environment (OWNLAB_RUNTIME), or by its session, which is the
kernel's, the supervisor's or the keeper's. Numbers of processes are used again, and rows can be written by all_processes
who shares a store. So a process is ended only where its own environment names the runtime, or where the row names it,
or the living leader of its session, by pid and start time; and only where it belongs to the owner of the lock file.
In a shared store its own environment alone counts: whoever shares it could name any process in a row, and move a file
of another's (the database) to where the lock belongs.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from ownlab.lab.store.rows import RuntimeRow
from ownlab.processes.procfs import UNSEEN, Stat, all_processes, process_started, read_stat

__all__ = ["MARKER", "Left", "ancestors", "boot_id", "end_remains", "in_words", "marker"]

_END_SECONDS = 3.0


class Left(NamedTuple):
    """A process that outlived its runtime."""

    pid: int
    started: int
    command: str
    may_end: bool  # it is certain enough


def end_remains(
    dead: Iterable[tuple[RuntimeRow, int | None]],
    *,
    shared: bool = False,
    but: Container[int] = (),
    seconds: float = _END_SECONDS,
) -> dict[str, list[Left]]:
    """End what is left of dead runtimes, each given with its lock's owner; what is still there, by runtime.

    `shared`: the rows may have been written by anybody. Processes in `but` are not looked at. Who runs this, and what
    started it, is never ended, but counts as left: `ownlab runtimes` may be called inside a runtime.
    """
    here = boot_id()
    dead = [(row, owner) for row, owner in dead if row.boot == here]
    certain: set[tuple[int, int]] = set()
    ourselves = ancestors()
    deadline = time.monotonic() + seconds
    calm = 0
    while dead:
        found, unsettled = _find(dead, certain, but, shared=shared)
        signalled = [_kill(one) for some in found.values() for one in some if one.pid not in ourselves]
        # A look at /proc can miss a process that forks and ends meanwhile; two calm ones in a row are believed.
        calm = 0 if found or unsettled else calm + 1
        if calm == 2 or (found and not unsettled and not any(signalled)) or time.monotonic() > deadline:
            return found
        if not calm:
            time.sleep(0.01)
    return {}


def ancestors() -> set[int]:
    """Ourselves, and all_processes who started us."""
    line: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in line:
        line.add(pid)
        seen = read_stat(pid)
        pid = 0 if seen is None else seen.parent
    return line


def in_words(left: Sequence[Left]) -> str:
    """ "its process 4711 (python) is still there"."""
    if not left:
        return "this machine hides other people's processes: its owner or root has to clear it away (ownlab runtimes)"
    names = ", ".join(f"{one.pid} ({one.command})" for one in left[:4])
    more = f" and {len(left) - 4} more" if len(left) > 4 else ""
    noun, verb = ("process", "is") if len(left) == 1 else ("processes", "are")
    return f"its {noun} {names}{more} {verb} still there"


def _find(
    dead: Sequence[tuple[RuntimeRow, int | None]],
    certain: set[tuple[int, int]],
    but: Container[int],
    *,
    shared: bool,
) -> tuple[dict[str, list[Left]], bool]:
    """One look at /proc: what is left, and whether a process could not be told yet.

    `certain` grows by what may be ended: also what was seen in the session of a leader that still lived.
    """
    seen = all_processes()
    found: dict[str, list[Left]] = {}
    unsettled = False
    for one in seen.values():
        if _holds_nothing(one) or one.pid in but:
            continue
        mark = marker(one.pid)
        undecided = mark is None
        unsettled = unsettled or undecided
        for row, owner in dead:
            named = _named(one, row, seen)
            if mark != row.id and (mark or not (named or _in_session(one, row, seen))):
                continue
            if (mark or (named and not shared)) and not undecided:
                certain.add((one.pid, one.started))
            may_end = (one.pid, one.started) in certain and owner is not None and _uid(one.pid) == owner
            found.setdefault(row.id, []).append(Left(one.pid, one.started, one.command, may_end))
    return {**_hidden(dead), **found}, unsettled


def _hidden(dead: Sequence[tuple[RuntimeRow, int | None]]) -> dict[str, list[Left]]:
    """Where /proc hides other people's processes (hidepid), nobody but they can say that none is left."""
    if os.access("/proc/1/stat", os.R_OK):
        return {}
    return {row.id: [] for row, _ in dead if row.uid != os.geteuid()}


def _named(one: Stat, row: RuntimeRow, seen: dict[int, Stat]) -> bool:
    """Whether the row names this process, or the living leader of its session."""
    for process in (row.keeper, row.supervisor, row.kernel):
        if process is None or process.pid <= 1:
            continue
        if one.pid == process.pid and one.started == process.started:
            return True
        leader = seen.get(process.pid)
        if one.session == process.pid and leader is not None and leader.started == process.started:
            return True
    return False


def _in_session(one: Stat, row: RuntimeRow, seen: dict[int, Stat]) -> bool:
    """Whether its session may be the runtime's whose leader has gone. (A leader of another time is another session.)"""
    for process in (row.keeper, row.supervisor, row.kernel):
        if process is not None and process.pid > 1 and one.session == process.pid and one.started >= process.started:
            leader = seen.get(process.pid)
            if leader is None or leader.started == process.started:
                return True
    return False


def _holds_nothing(one: Stat) -> bool:
    """A thread of the Linux kernel; or a zombie, but a leader that ended before its threads is one that works."""
    return one.is_kernel_thread or (one.is_zombie and one.threads <= 1)


def _uid(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _kill(left: Left) -> bool:
    """Whether it is as good as gone: False where it is not ours to end."""
    if not left.may_end:
        return False
    if process_started(left.pid) != left.started:
        return True
    try:
        os.kill(left.pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


# Every process of a runtime has this in its environment, with the runtime's id.
MARKER = "OWNLAB_RUNTIME"


def marker(pid: int) -> str | None:
    """The runtime that its environment names; "" for none, and where it may not be read.

    None where the process is in the middle of an exec, and has no environment for a moment.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            content = file.read()
    except UNSEEN:
        return ""
    if not content:
        stat = read_stat(pid)
        return None if stat is not None and stat.is_in_exec else ""
    prefix = f"{MARKER}=".encode()
    entries = (entry for entry in content.split(b"\0") if entry.startswith(prefix))
    return next(entries, prefix)[len(prefix) :].decode("utf-8", "replace")


def boot_id() -> str:
    """Names this run of the machine: pids and start times mean nothing after it."""
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return file.read().strip()

"""Processes that outlived their runtime: found through /proc, and killed if that is safe.

A process belongs to a runtime if its environment names it (OWNLAB_RUNTIME), or by its session, which is the kernel's, the
supervisor's or the keeper's. Process ids are reused, and everyone who shares a store can write its rows. So a process is
killed only if its own environment names the runtime, or if the row names it, or the living leader of its session, by
pid and start time; and only if it belongs to the owner of the lock file. In a shared store only the environment counts:
a member could name any process in a row, and move another user's file (the database) to the path of the lock.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from ownlab.lab.store.rows import RuntimeRow
from ownlab.processes.procfs import UNSEEN, Stat, all_processes, process_started, read_stat
from ownlab.text import Text, listing, plural, text

__all__ = ["MARKER", "Orphan", "boot_id", "describe_orphans", "end_orphans", "own_ancestors", "runtime_of_process"]

# The environment variable that every process of a runtime has, with the runtime's id.
MARKER = "OWNLAB_RUNTIME"
_END_SECONDS = 3.0


class Orphan(NamedTuple):
    """A process that outlived its runtime."""

    pid: int
    started: int
    command: str
    may_end: bool  # certain enough to be killed


def end_orphans(
    dead: Iterable[tuple[RuntimeRow, int | None]],
    *,
    shared: bool = False,
    but: Container[int] = (),
    seconds: float = _END_SECONDS,
) -> dict[str, list[Orphan]]:
    """Kill the processes of dead runtimes, each given with the owner of its lock. Return what is still there.

    `shared`: anybody may have written the rows. Processes in `but` are ignored. This process and its ancestors are never
    killed, but count as orphans: `ownlab runtimes` may run inside a runtime.
    """
    here = boot_id()
    dead = [(row, owner) for row, owner in dead if row.boot == here]
    certain: set[tuple[int, int]] = set()
    ourselves = own_ancestors()
    deadline = time.monotonic() + seconds
    calm = 0
    while dead:
        orphans, unsettled = _find(dead, certain, but, shared=shared)
        signalled = [_kill(orphan) for group in orphans.values() for orphan in group if orphan.pid not in ourselves]
        # One pass over /proc can miss a process that forks and exits meanwhile: two empty passes in a row are conclusive.
        calm = 0 if orphans or unsettled else calm + 1
        if calm == 2 or (orphans and not unsettled and not any(signalled)) or time.monotonic() > deadline:
            return orphans
        if not calm:
            time.sleep(0.01)
    return {}


def own_ancestors() -> set[int]:
    """Return this process and all its ancestors."""
    line: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in line:
        line.add(pid)
        seen = read_stat(pid)
        pid = 0 if seen is None else seen.parent
    return line


def describe_orphans(orphans: Sequence[Orphan]) -> Text:
    """Return a clause: "its process 4711 (python) is still running"."""
    if not orphans:
        return text("this machine hides other users' processes: its owner or root has to run `ownlab runtimes`")
    names = [f"{orphan.pid} ({orphan.command})" for orphan in orphans[:4]]
    if len(orphans) > len(names):
        return text(
            "its processes {names} and {count} more are still running",
            names=", ".join(names),
            count=len(orphans) - len(names),
        )
    return plural(
        len(orphans),
        "its process {names} is still running",
        "its processes {names} are still running",
        names=listing(names),
    )


def _find(
    dead: Sequence[tuple[RuntimeRow, int | None]],
    certain: set[tuple[int, int]],
    but: Container[int],
    *,
    shared: bool,
) -> tuple[dict[str, list[Orphan]], bool]:
    """Scan /proc once. Return the orphans by runtime, and whether a process could not be identified yet.

    `certain` collects what may be killed, including processes seen in the session of a leader that was still alive.
    """
    seen = all_processes()
    orphans: dict[str, list[Orphan]] = {}
    unsettled = False
    for process in seen.values():
        if _holds_nothing(process) or process.pid in but:
            continue
        mark = runtime_of_process(process.pid)
        undecided = mark is None
        unsettled = unsettled or undecided
        for row, owner in dead:
            named = _named(process, row, seen)
            if mark != row.id and (mark or not (named or _in_session(process, row, seen))):
                continue
            if (mark or (named and not shared)) and not undecided:
                certain.add((process.pid, process.started))
            may_end = (process.pid, process.started) in certain and owner is not None and _uid(process.pid) == owner
            orphans.setdefault(row.id, []).append(Orphan(process.pid, process.started, process.command, may_end))
    return {**_hidden(dead), **orphans}, unsettled


def _hidden(dead: Sequence[tuple[RuntimeRow, int | None]]) -> dict[str, list[Orphan]]:
    """Runtimes of other users, if /proc hides their processes (hidepid): only they can see whether any is left."""
    if os.access("/proc/1/stat", os.R_OK):
        return {}
    return {row.id: [] for row, _ in dead if row.uid != os.geteuid()}


def _named(process: Stat, row: RuntimeRow, seen: dict[int, Stat]) -> bool:
    """Whether the row names this process, or the living leader of its session."""
    for known in (row.keeper, row.supervisor, row.kernel):
        if known is None or known.pid <= 1:
            continue
        if process.pid == known.pid and process.started == known.started:
            return True
        leader = seen.get(known.pid)
        if process.session == known.pid and leader is not None and leader.started == known.started:
            return True
    return False


def _in_session(process: Stat, row: RuntimeRow, seen: dict[int, Stat]) -> bool:
    """Whether its session may be the runtime's, with a leader that is gone. Another start time means another session."""
    for known in (row.keeper, row.supervisor, row.kernel):
        if known is not None and known.pid > 1 and process.session == known.pid and process.started >= known.started:
            leader = seen.get(known.pid)
            if leader is None or leader.started == known.started:
                return True
    return False


def _holds_nothing(process: Stat) -> bool:
    """Whether it is a kernel thread, or a zombie. A zombie leader with living threads still works."""
    return process.is_kernel_thread or (process.is_zombie and process.threads <= 1)


def _uid(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Uid:"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _kill(orphan: Orphan) -> bool:
    """Kill it. Return False if we may not."""
    if not orphan.may_end:
        return False
    if process_started(orphan.pid) != orphan.started:
        return True
    try:
        os.kill(orphan.pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def runtime_of_process(pid: int) -> str | None:
    """Return the runtime that a process' environment names; "" if none, or if it is not readable.

    None if the process is in the middle of an exec and has no environment at this moment.
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

"""The mark of a runtime in the environment of its processes, beside what Linux tells of them. Standard library only."""

from __future__ import annotations

from ownlab.processes.procfs import UNSEEN, Stat, all_processes, children_of, descendants_of, process_started, read_stat

__all__ = [
    "MARKER",
    "Stat",
    "all_processes",
    "boot_id",
    "children_of",
    "descendants_of",
    "marker",
    "process_started",
    "read_stat",
]

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

"""What the kernel counts of a process: CPU time, waiting for a core, bytes from disks, memory in swap."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from msgspec import Struct

from ownlab.instruments.why.attach.records import AttachedProcess
from ownlab.processes.procfs import all_processes, children_of, descendants_of, read_stat

__all__ = ["Reading", "below", "between", "read_process"]


class Reading(Struct, frozen=True):
    """The counters of one process at one time."""

    at: float
    cpu_seconds: float | None
    queue_seconds: float | None  # of its main thread
    read_bytes: int | None
    swapped_bytes: int | None


def read_process(pid: int, root: Path = Path("/")) -> Reading:
    """Read the counters; those that are missing or forbidden are None."""
    folder = root / "proc" / str(pid)
    stat = read_stat(pid, root)
    own = (
        None if stat is None or stat.is_zombie else int(stat.fields[11]) + int(stat.fields[12])
    )  # without its children's
    queue = _text(folder / "schedstat").split()
    return Reading(
        at=time.monotonic(),
        cpu_seconds=None if own is None else own / os.sysconf("SC_CLK_TCK"),
        queue_seconds=int(queue[1]) / 1e9 if len(queue) > 1 else None,
        read_bytes=_number(r"^read_bytes: (\d+)", _text(folder / "io")),
        swapped_bytes=_kibibytes(_number(r"^VmSwap:\s+(\d+)", _text(folder / "status"))),
    )


def _kibibytes(number: int | None) -> int | None:
    return None if number is None else number * 1024


def _number(pattern: str, content: str) -> int | None:
    match = re.search(pattern, content, re.MULTILINE)
    return int(match[1]) if match else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def between(pid: int, role: str, first: Reading, last: Reading) -> AttachedProcess:
    """What happened between two readings."""
    seconds = max(1e-9, last.at - first.at)
    return AttachedProcess(
        pid=pid,
        role=role,
        cpu_share=_rate(first.cpu_seconds, last.cpu_seconds, seconds),
        queue_share=_rate(first.queue_seconds, last.queue_seconds, seconds),
        read_bytes=None if first.read_bytes is None or last.read_bytes is None else last.read_bytes - first.read_bytes,
        swapped_bytes=last.swapped_bytes,
    )


def _rate(first: float | None, last: float | None, seconds: float) -> float | None:
    return None if first is None or last is None else round(max(0.0, last - first) / seconds, 4)


def below(pid: int) -> list[int]:
    """A process and all below it."""
    return [pid, *descendants_of(pid, children_of(all_processes()))]

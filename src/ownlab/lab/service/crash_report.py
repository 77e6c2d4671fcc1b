"""What a server said before it ended, and the known cause in it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

__all__ = ["how_it_ended", "known_cause", "last_lines"]

# What the log shows -> what it means and what to do. The first that fits is told.
_CAUSES = (
    (
        re.compile(r"address already in use|port \d+ is (?:already )?in use", re.IGNORECASE),
        "Another program took the port in that moment. Try again, or give another one with --port.",
    ),
    (
        re.compile(r"(?:Exception|Error) while loading config|error loading config|ConfigFileNotFound", re.IGNORECASE),
        "A configuration file of Jupyter's cannot be read; the lines below name it.",
    ),
    (
        re.compile(r"No module named '?([\w.]+)|cannot import name", re.IGNORECASE),
        "The installation is incomplete. Install ownlab again in its environment: pip install --force-reinstall ownlab",
    ),
    (
        re.compile(r"No space left on device|database or disk is full|Disk quota exceeded", re.IGNORECASE),
        "The disk is full. Free some space, or put OWNLAB_HOME on another disk.",
    ),
    (
        re.compile(r"Read-only file system|Permission denied|readonly database", re.IGNORECASE),
        "A folder that the lab needs may not be written; the lines below name it.",
    ),
    (
        re.compile(r"MemoryError|Cannot allocate memory", re.IGNORECASE),
        "There was no memory left. `ownlab runtimes` shows what runs.",
    ),
)


def last_lines(log: Path, count: int = 15) -> str:
    """The end of a log file, short enough for a terminal."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as exc:
        return f"({log}: {exc.strerror})"
    return "\n".join(line[:300] for line in lines[-count:])


def known_cause(text: str, exit_code: int | None) -> str:
    """What the end of a log means, in words; "" where it is nothing that we know."""
    for pattern, meaning in _CAUSES:
        if pattern.search(text):
            return meaning
    if exit_code == -signal.SIGKILL:
        return "Somebody killed it, or the system did for want of memory (`dmesg` would say so)."
    return ""


def how_it_ended(exit_code: int | None) -> str:
    """-9 -> "was killed (SIGKILL)"."""
    if exit_code is None:
        return "is gone"
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was killed ({signal.Signals(-exit_code).name})"
    except ValueError:
        return f"was killed (signal {-exit_code})"

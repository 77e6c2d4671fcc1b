"""Why a server ended: its last log lines, a known cause in them, and its exit code."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from ownlab.text import text

__all__ = ["describe_exit", "known_cause", "last_lines"]

# Pattern in the log -> what it means and what to do. The first match is used.
_CAUSES = (
    (
        re.compile(r"address already in use|port \d+ is (?:already )?in use", re.IGNORECASE),
        text("Another program took the port. Try again, or choose another port with --port."),
    ),
    (
        re.compile(r"(?:Exception|Error) while loading config|error loading config|ConfigFileNotFound", re.IGNORECASE),
        text("A Jupyter configuration file cannot be read; the lines below name it."),
    ),
    (
        re.compile(r"No module named '?([\w.]+)|cannot import name", re.IGNORECASE),
        text(
            "The installation is incomplete. Reinstall ownlab in its environment: pip install --force-reinstall ownlab"
        ),
    ),
    (
        re.compile(r"No space left on device|database or disk is full|Disk quota exceeded", re.IGNORECASE),
        text("The disk is full. Free some space, or put OWNLAB_HOME on another disk."),
    ),
    (
        re.compile(r"Read-only file system|Permission denied|readonly database", re.IGNORECASE),
        text("A folder that the lab needs is not writable; the lines below name it."),
    ),
    (
        re.compile(r"MemoryError|Cannot allocate memory", re.IGNORECASE),
        text("The machine ran out of memory. `ownlab runtimes` shows what is running."),
    ),
)


def last_lines(log: Path, count: int = 15) -> str:
    """Return the end of a log file, short enough for a terminal."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 20_000))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as exc:
        return f"({log}: {exc.strerror})"
    return "\n".join(line[:300] for line in lines[-count:])


def known_cause(log_lines: str, exit_code: int | None) -> str:
    """Explain the end of a log; "" if no known cause is found."""
    for pattern, meaning in _CAUSES:
        if pattern.search(log_lines):
            return meaning
    if exit_code == -signal.SIGKILL:
        return text("It was killed by somebody, or by the system for lack of memory (see `dmesg`).")
    return ""


def describe_exit(exit_code: int | None) -> str:
    """-9 -> "was killed (SIGKILL)"."""
    if exit_code is None:
        return text("has ended")
    if exit_code >= 0:
        return text("ended with exit code {code}", code=exit_code)
    try:
        return text("was killed ({signal})", signal=signal.Signals(-exit_code).name)
    except ValueError:
        return text("was killed (signal {signal})", signal=-exit_code)

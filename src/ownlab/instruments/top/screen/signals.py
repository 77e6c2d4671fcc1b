"""Signals to a person's own processes. The process that was asked about is the one that gets it, or nobody."""

from __future__ import annotations

import os
import signal
import time
from typing import NamedTuple

from ownlab.errors import UsageError
from ownlab.instruments.top.records import ProcessSample
from ownlab.processes.procfs import process_started

__all__ = ["SIGNALS", "Signal", "send_signal", "whose_refusal"]


class Signal(NamedTuple):
    """One that can be chosen."""

    name: str
    number: int
    meaning: str


SIGNALS = (
    Signal("SIGINT", signal.SIGINT, "interrupt it, as Ctrl-C does"),
    Signal("SIGTERM", signal.SIGTERM, "ask it to end"),
    Signal("SIGKILL", signal.SIGKILL, "end it at once; nothing is saved"),
)


def whose_refusal(process: ProcessSample) -> str:
    """Why this process may not be signalled from here; "" where it may."""
    if not process.here:
        return (
            f"Process {process.pid} is not of this PID namespace: its number means another process here, or none. "
            "Signal it where it runs."
        )
    try:
        uid = os.stat(f"/proc/{process.pid}").st_uid
    except FileNotFoundError:
        return f"Process {process.pid} has ended."
    except OSError as exc:
        return f"Whose process {process.pid} is cannot be seen: {exc.strerror}."
    if uid != os.getuid():
        # Root's own right to signal everybody is not used: here one key is too near to another.
        whose = process.user or f"user {uid}"
        return f"Process {process.pid} belongs to {whose}. ownlab top signals only your own processes."
    return ""


def send_signal(process: ProcessSample, number: int) -> None:
    """Send it, unless that process is gone and another has its number now."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        raise UsageError(f"process {process.pid} has ended") from None
    except (AttributeError, OSError):  # an old kernel, or none of Linux
        handle = -1
    try:
        refusal = whose_refusal(process) or _replaced(process)
        if refusal:
            raise UsageError(refusal)
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(process.pid, number)
    except ProcessLookupError:
        raise UsageError(f"process {process.pid} has ended") from None
    except PermissionError:
        raise UsageError(f"process {process.pid} may not be signalled: the system refuses it") from None
    finally:
        if handle >= 0:
            os.close(handle)


def _replaced(process: ProcessSample) -> str:
    """Whether another process has its number now: one that started at another time than that which was seen."""
    ticks, age = process_started(process.pid), _seconds_since_boot()
    if process.started is None or ticks is None or age is None:
        return ""
    started = time.time() - age + ticks / os.sysconf("SC_CLK_TCK")
    # Clocks are set now and then, and numbers are not used again within seconds.
    return (
        "" if abs(started - process.started) < 5 else f"Process {process.pid} has ended; its number is another's now."
    )


def _seconds_since_boot() -> float | None:
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError):  # not Linux: nothing is known of processes there
        return None

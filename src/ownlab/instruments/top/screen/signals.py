"""Signals to the user's own processes. A signal reaches exactly the process that was shown, or none."""

from __future__ import annotations

import os
import signal
import time
from typing import NamedTuple

from ownlab.errors import UsageError
from ownlab.instruments.top.records import ProcessSample
from ownlab.processes.procfs import process_started
from ownlab.text import text

__all__ = ["SIGNALS", "Signal", "refusal_reason", "send_signal"]


class Signal(NamedTuple):
    """A signal that can be chosen."""

    name: str
    number: int
    meaning: str


SIGNALS = (
    Signal("SIGINT", signal.SIGINT, text("interrupt, like Ctrl-C")),
    Signal("SIGTERM", signal.SIGTERM, text("ask it to exit")),
    Signal("SIGKILL", signal.SIGKILL, text("kill it at once; nothing is saved")),
)


def refusal_reason(process: ProcessSample) -> str:
    """Return why this process cannot be signalled from here; "" if it can."""
    if not process.here:
        return text(
            "Process {pid} is in another PID namespace: here its number means another process, or none. "
            "Signal it where it runs.",
            pid=process.pid,
        )
    try:
        uid = os.stat(f"/proc/{process.pid}").st_uid
    except FileNotFoundError:
        return text("Process {pid} has ended.", pid=process.pid)
    except OSError as exc:
        return text("Cannot read the owner of process {pid}: {reason}.", pid=process.pid, reason=exc.strerror)
    if uid != os.getuid():
        # Not even as root: a wrong key is pressed too easily.
        owner = process.user or text("user {uid}", uid=uid)
        return text(
            "Process {pid} belongs to {owner}. ownlab top signals only your own processes.",
            pid=process.pid,
            owner=owner,
        )
    return ""


def send_signal(process: ProcessSample, number: int) -> None:
    """Send a signal, unless the process has ended and its number was reused."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        raise UsageError(text("Process {pid} has ended.", pid=process.pid)) from None
    except (AttributeError, OSError):  # an old kernel, or not Linux
        handle = -1
    try:
        refusal = refusal_reason(process) or _reuse_reason(process)
        if refusal:
            raise UsageError(refusal)
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(process.pid, number)
    except ProcessLookupError:
        raise UsageError(text("Process {pid} has ended.", pid=process.pid)) from None
    except PermissionError:
        raise UsageError(text("The system does not allow signalling process {pid}.", pid=process.pid)) from None
    finally:
        if handle >= 0:
            os.close(handle)


def _reuse_reason(process: ProcessSample) -> str:
    """Return why another process has this number now: it started at another time. "" if it is the same."""
    ticks, age = process_started(process.pid), _seconds_since_boot()
    if process.started is None or ticks is None or age is None:
        return ""
    started = time.time() - age + ticks / os.sysconf("SC_CLK_TCK")
    # The clock may be adjusted, and numbers are not reused within seconds.
    if abs(started - process.started) < 5:
        return ""
    return text("Process {pid} has ended, and its number was reused.", pid=process.pid)


def _seconds_since_boot() -> float | None:
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError):  # not Linux, where processes are unknown
        return None

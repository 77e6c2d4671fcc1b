"""Lets everything that earlier cells have sent leave the kernel before the next cell runs.

ipykernel passes what it publishes to a thread, and that to a thread of ZeroMQ. If a cell then ends the process (a crash in a
compiled library, or `os.kill(os.getpid(), 9)`, as people restart runtimes on Colab), what has not left is lost: the last
output of the cell before it, and that this cell has ended.
"""

import os
import threading
import time
from typing import Any, Callable, List

__all__ = ["make_flush", "wait_until_asleep"]

SECONDS = 1.0  # if the supervisor does not read, the cell runs anyway
PAUSE = 0.0002
SENDING = b"ZMQbg/IO"  # the name of ZeroMQ's threads that send
AWAKE = b"RD"  # running, or waiting for the disk: the states in proc(5)


def make_flush(iopub_thread: Any, seconds: float = SECONDS) -> Callable[[], None]:
    """Return the function that waits, for the sockets that are open now. It does nothing where there is no /proc."""
    states = _sending_threads()

    def flush() -> None:
        passed = threading.Event()
        iopub_thread.schedule(passed.set)  # after everything that was scheduled before
        end = time.monotonic() + seconds
        if passed.wait(seconds):
            wait_until_asleep(states, end)

    return flush


def wait_until_asleep(states: List[str], end: float) -> bool:
    """Wait until no thread has anything to do; `states`: their files /proc/…/stat. Return False if it is too late."""
    while any(_is_awake(state) for state in states):
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE)
    return True


def _is_awake(state: str) -> bool:
    try:
        with open(state, "rb") as file:
            return file.read().rpartition(b") ")[2][:1] in AWAKE
    except OSError:  # it has ended
        return False


def _sending_threads() -> List[str]:
    tasks = "/proc/self/task"
    names = os.listdir(tasks) if os.path.isdir(tasks) else []
    return [os.path.join(tasks, name, "stat") for name in names if _is_sending(os.path.join(tasks, name, "comm"))]


def _is_sending(name: str) -> bool:
    try:
        with open(name, "rb") as file:
            return file.read().startswith(SENDING)
    except OSError:  # it has just ended
        return False

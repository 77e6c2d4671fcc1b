"""Lets everything that earlier cells have sent leave the kernel before the next cell runs.

ipykernel passes what it publishes to a thread, and that to a thread of ZeroMQ. If a cell then ends the process (a crash in a
compiled library, or `os.kill(os.getpid(), 9)`, as people restart runtimes on Colab), what has not left is lost: the last
output of the cell before it, and that this cell has ended.

Waiting begins when a cell has ended, in the thread that sends: when the next cell is about to run, mostly nothing is left to
wait for.
"""

import os
import threading
import time
from typing import Any, List, Optional

__all__ = ["OutputFlush", "wait_until_asleep"]

SECONDS = 1.0  # if the supervisor does not read, the cell runs anyway
PAUSE = 0.0002
SENDING = b"ZMQbg/IO"  # the name of ZeroMQ's threads that send
AWAKE = b"RD"  # running, or waiting for the disk: the states in proc(5)


class OutputFlush:
    """Follows what leaves through the sockets that are open now. It does not wait for them where there is no /proc."""

    def __init__(self, iopub_thread: Any, seconds: float = SECONDS) -> None:
        self._thread, self._seconds = iopub_thread, seconds
        self._states = _sending_threads()
        self._lock = threading.Lock()
        self._left: Optional[threading.Event] = None  # set when everything is out; None: a cell has run since

    def follow(self, kernel: Any) -> None:
        """Begin whenever the kernel has said that it is idle: that ends a cell."""
        publish = getattr(kernel, "_publish_status", None)
        if publish is None:  # another version of ipykernel: waiting begins before the next cell
            return

        def publish_status(status: str, channel: str, *args: Any, **kwargs: Any) -> None:
            publish(status, channel, *args, **kwargs)
            if status == "idle" and channel == "shell":
                self.begin()

        kernel._publish_status = publish_status

    def begin(self) -> None:
        """Let out what was published until now."""
        left = threading.Event()

        def leave() -> None:
            wait_until_asleep(self._states, time.monotonic() + self._seconds)
            left.set()

        with self._lock:  # cells of subshells run in other threads
            self._thread.schedule(leave)  # after everything that was scheduled before
            self._left = left

    def finish(self) -> None:
        """Wait until it is out. Called before a cell runs."""
        if self._left is None:
            self.begin()
        left, self._left = self._left, None
        if left is not None:
            left.wait(self._seconds)


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

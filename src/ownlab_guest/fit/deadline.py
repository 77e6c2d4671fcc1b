"""A step that does not end is stopped a little before the host would end the process: only so its line is known."""

import contextlib
import os
import signal
import threading
import time
from typing import Any, Iterator

from ownlab_guest.fit.errors import Refused, place

# So much of what is left is the host's own: the answer has to reach it.
EARLIER_SHARE, EARLIER_MOST = 0.25, 2.0


class OutOfTime(BaseException):
    """Not an Exception: code that catches those must not catch this one."""


def _stop(number: int, frame: Any) -> None:
    raise OutOfTime


@contextlib.contextmanager
def in_time(target: str) -> Iterator[None]:
    """What is inside is refused, with the line that it is at, shortly before OWNLAB_FIT_UNTIL (seconds, as time.time() has them).

    Compiled code that does not return to Python is left to the host, which ends the process.
    """
    until = os.environ.pop("OWNLAB_FIT_UNTIL", "")
    if not until or not hasattr(signal, "pthread_kill"):
        yield
        return
    left = max(0.0, float(until) - time.time())
    # Not SIGALRM: launch.py has it, for the case that the host is gone.
    signal.signal(signal.SIGUSR2, _stop)
    after = left - min(EARLIER_SHARE * left, EARLIER_MOST)
    timer = threading.Timer(after, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR2))
    timer.daemon = True
    timer.start()
    try:
        yield
    except OutOfTime as exc:
        where = place(exc.__traceback__, None)
        raise Refused("deadline", f"{target} was not done in time, and was here", *where) from exc
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)

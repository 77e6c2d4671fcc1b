"""Measures a part of a program that already runs: a cell, or a call. The hooks are registered once, and rest in between."""

import contextlib
import os
import threading
from typing import Iterator, Optional

from ownlab_guest.why.session import Session

__all__ = ["AlreadyMeasuring", "measuring"]

_session: Optional[Session] = None
_busy = threading.Lock()


class AlreadyMeasuring(RuntimeError):
    """A measurement of this process is not over yet."""


@contextlib.contextmanager
def measuring(folder: str, steps: int) -> Iterator[None]:
    """Measure what runs within the block, in this thread; the evidence is in the folder afterwards."""
    global _session
    if not _busy.acquire(blocking=False):
        raise AlreadyMeasuring
    try:
        if _session is None:
            _session = Session(folder, steps)
            _session.install()
        else:
            _session.restart(folder, steps)
        _session.recorder.thread = threading.get_ident()
        with open(os.path.join(folder, "python-%d" % os.getpid()), "w", encoding="ascii"):
            pass
        try:
            yield
        finally:
            _session.finish()
    finally:
        _busy.release()

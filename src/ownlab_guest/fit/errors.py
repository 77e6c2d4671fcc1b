"""A step that cannot be traced, as an answer: what happened, and in which line of whose code."""

import contextlib
import os
import re
import signal
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import Any, Dict, Iterator, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))


class Refused(Exception):
    """Carries the answer's `kind` and message, and the place in the user's code where there is one."""

    def __init__(self, kind: str, message: str, file: Optional[str] = None, line: Optional[int] = None) -> None:
        super().__init__(message)
        self.kind, self.file, self.line = kind, file, line

    def answer(self) -> Dict[str, Any]:
        """As the host reads it."""
        return {"error": {"kind": self.kind, "message": str(self), "file": self.file, "line": self.line}}


def refused(exc: BaseException, kind: str, during: str, file: Optional[str] = None) -> Refused:
    """What the user's code raised; `file` is where that code is known to be."""
    where = place(exc.__traceback__, file)
    if isinstance(exc, SyntaxError):
        where = exc.filename or where[0], exc.lineno or where[1]
    known = _known(exc)
    if known is not None:
        kind, message = known
    else:
        words = " ".join(str(exc).split())
        message = f"{during} raised {type(exc).__name__}" + (f": {words[:400]}" if words else "")
    return Refused(kind, message, *where)


def place(trace: Optional[TracebackType], file: Optional[str]) -> Tuple[Optional[str], Optional[int]]:
    """The innermost line of the user's own code: in `file`, else outside of any library."""
    frames = [one for one in traceback.extract_tb(trace) if not one.filename.startswith((HERE, "<"))]
    own = [one for one in frames if file is not None and os.path.realpath(one.filename) == os.path.realpath(file)]
    if not own:
        own = [one for one in frames if not is_of_library(one.filename)]
    return (own[-1].filename, own[-1].lineno) if own else (file, None)


def is_of_library(file: str) -> bool:
    """Whether code is not the user's own."""
    return "site-packages" in file or "dist-packages" in file or file.startswith(os.path.dirname(os.__file__))


def _known(exc: BaseException) -> Optional[Tuple[str, str]]:
    """Failures of fake tensors, which say little to people who never asked for any."""
    name, words = type(exc).__name__, str(exc)
    if name == "DynamicOutputShapeException":
        operation = str(getattr(exc, "func", words))
        return "data-dependent-shape", (
            f"{operation}: the size of its result depends on the data (a boolean index, nonzero, unique …), "
            "which is not known before the model runs"
        )
    if name == "DataDependentOutputException":
        return "data-dependent-value", f"{getattr(exc, 'func', words)}: its result depends on the data"
    if name in ("UnsupportedOperatorException", "UnsupportedFakeTensorException"):
        return (
            "cannot-be-traced",
            f"{getattr(exc, 'func', words)}: this operation says nothing of its sizes without data",
        )
    if "no fake impl" in words:
        found = re.search(r"\w+::\w+", words)
        return (
            "cannot-be-traced",
            f"{found[0] if found else 'a custom operation'}: this operation says nothing of its sizes without data",
        )
    if ".numpy() is not supported" in words:
        return "cannot-be-traced", ".numpy(): numbers leave torch here, and while nothing is computed there are none"
    if "UninitializedParameter" in words:
        return "lazy-layer", "a layer has no sizes yet (LazyLinear and the like): give it its sizes"
    if any(
        sign in words
        for sign in (
            "not compiled with CUDA",
            "not linked with support for cuda",
            "No CUDA GPUs",
            "no NVIDIA driver",
            "CUDA driver version",
        )
    ):
        return (
            "needs-cuda",
            f"the code asks for a GPU by itself (.cuda(), device='cuda'): {' '.join(words.split())[:200]}",
        )
    return None


def is_fatal(exc: BaseException) -> bool:
    """Not the user's failure: let it end the process."""
    return isinstance(exc, (KeyboardInterrupt, MemoryError)) or sys.is_finalizing()


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

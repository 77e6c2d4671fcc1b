"""Errors of the guest as answers: what happened, and in which line of the user's code; and the deadline."""

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

from ownlab_guest.text import Template, text

HERE = os.path.dirname(os.path.abspath(__file__))


class FitError(Exception):
    """Why a step cannot be traced or measured: a kind, a message, and the line of the user's code if there is one."""

    def __init__(self, kind: str, message: str, file: Optional[str] = None, line: Optional[int] = None) -> None:
        super().__init__(message)
        self.kind, self.file, self.line = kind, file, line

    def answer(self) -> Dict[str, Any]:
        """Return the answer for the host."""
        return {"error": {"kind": self.kind, "message": str(self), "file": self.file, "line": self.line}}


def error_from(
    exc: BaseException, kind: str, template: Template, file: Optional[str] = None, **values: Any
) -> FitError:
    """Make an error of what the user's code raised: the template has {error}. `file`: where that code is known to be."""
    where = find_user_line(exc.__traceback__, file)
    if isinstance(exc, SyntaxError):
        where = exc.filename or where[0], exc.lineno or where[1]
    known = _known(exc)
    if known is not None:
        kind, message = known
    else:
        reason = " ".join(str(exc).split())[:400]
        name = type(exc).__name__
        message = template.fill(error=f"{name}: {reason}" if reason else name, **values)
    return FitError(kind, message, *where)


def find_user_line(trace: Optional[TracebackType], file: Optional[str]) -> Tuple[Optional[str], Optional[int]]:
    """Return the innermost line of the user's own code: in `file`, else outside of any library."""
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith((HERE, "<"))]
    own = [frame for frame in frames if file is not None and os.path.realpath(frame.filename) == os.path.realpath(file)]
    if not own:
        own = [frame for frame in frames if not is_library_file(frame.filename)]
    return (own[-1].filename, own[-1].lineno) if own else (file, None)


def is_library_file(file: str) -> bool:
    """Whether a file belongs to a library or to Python."""
    return "site-packages" in file or "dist-packages" in file or file.startswith(os.path.dirname(os.__file__))


def _known(exc: BaseException) -> Optional[Tuple[str, str]]:
    """Return kind and message for failures of fake tensors, whose own messages would confuse users."""
    name, message = type(exc).__name__, str(exc)
    if name == "DynamicOutputShapeException":
        operation = str(getattr(exc, "func", message))
        return "data-dependent-shape", (
            text(
                "{operation}: the size of its result depends on the data (a boolean index, nonzero, unique …), which is unknown before the model runs",
                operation=operation,
            )
        )
    if name == "DataDependentOutputException":
        return "data-dependent-value", text(
            "{operation}: its result depends on the data", operation=getattr(exc, "func", message)
        )
    if name in ("UnsupportedOperatorException", "UnsupportedFakeTensorException"):
        return (
            "cannot-be-traced",
            text(
                "{operation}: this operation does not define its sizes without data",
                operation=getattr(exc, "func", message),
            ),
        )
    if "no fake impl" in message:
        operation_name = re.search(r"\w+::\w+", message)
        if operation_name is None:
            return "cannot-be-traced", text("a custom operation does not define its sizes without data")
        return "cannot-be-traced", text(
            "{operation}: this operation does not define its sizes without data", operation=operation_name[0]
        )
    if ".numpy() is not supported" in message:
        return "cannot-be-traced", text(".numpy(): values leave torch here, and a trace has no values")
    if "UninitializedParameter" in message:
        return "lazy-layer", text("a layer has no sizes yet (LazyLinear and similar): give it its sizes")
    if any(
        sign in message
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
            text(
                "the code itself requires a GPU (.cuda(), device='cuda'): {reason}",
                reason=" ".join(message.split())[:200],
            ),
        )
    return None


def is_fatal(exc: BaseException) -> bool:
    """Whether an exception must end the process instead of becoming an answer."""
    return isinstance(exc, (KeyboardInterrupt, MemoryError)) or sys.is_finalizing()


# Margin before the host's deadline: the answer has to reach the host.
MARGIN_SHARE, MAX_MARGIN = 0.25, 2.0


class DeadlinePassed(BaseException):
    """Not an Exception: the user's code must not catch it."""


def _stop(number: int, frame: Any) -> None:
    raise DeadlinePassed


@contextlib.contextmanager
def before_deadline(target: str) -> Iterator[None]:
    """Raise FitError with the current line shortly before OWNLAB_FIT_UNTIL (seconds of time.time()).

    If compiled code does not return to Python, the host kills the process.
    """
    until = os.environ.pop("OWNLAB_FIT_UNTIL", "")
    if not until or not hasattr(signal, "pthread_kill"):
        yield
        return
    left = max(0.0, float(until) - time.time())
    # Not SIGALRM: launch.py uses it in case the host is gone.
    signal.signal(signal.SIGUSR2, _stop)
    after = left - min(MARGIN_SHARE * left, MAX_MARGIN)
    timer = threading.Timer(after, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR2))
    timer.daemon = True
    timer.start()
    try:
        yield
    except DeadlinePassed as exc:
        where = find_user_line(exc.__traceback__, None)
        raise FitError(
            "deadline", text("{target} did not finish in time; it was at this line", target=target), *where
        ) from exc
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)

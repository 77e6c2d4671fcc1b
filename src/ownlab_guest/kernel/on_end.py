"""Functions that a notebook wants to be called before its runtime ends: they run once, and none stops the others."""

import atexit
import contextvars
import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any, Callable, Dict, List, Tuple

__all__ = ["on_end", "run_on_end"]

# In whose context each is called: in ipykernel 7 it says to which cell belongs what is printed.
_given: List[Tuple[int, contextvars.Context, Callable[..., Any], Tuple[Any, ...], Dict[str, Any]]] = []


def on_end(function: Callable[..., Any], *arguments: Any, **named: Any) -> Callable[..., Any]:
    """Call `function` before this runtime ends, to save what must not be lost.

    At a limit, when it is stopped, and when the kernel is shut down or restarted; also in the middle of a cell. All
    functions together have the seconds that the lab gives them (runtimes.on_end_seconds, 30 by default). The last one
    given is called first, as with atexit. What it prints is added to the cell that gave it, or to the one that was run
    last (ipykernel 6). Returns the function, so it can be used as a decorator.
    """
    if not callable(function):
        raise TypeError("on_end takes a function, not " + repr(function))
    if not _given:
        atexit.register(run_on_end)
    _given.append((os.getpid(), contextvars.copy_context(), function, arguments, named))
    return function


def run_on_end() -> None:
    """Call them all. What one raises is shown, and the next one is called."""
    if _given:
        with suppress(ValueError):  # not in the main thread
            # A shutdown that takes long is followed by SIGTERM, which would cut short what saves.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while _given:
        process, context, function, arguments, named = _given.pop()
        if process != os.getpid():
            continue  # given before a fork: they are the parent's to call, not each worker's
        context.run(_call, function, arguments, named)
    with suppress(AttributeError, OSError, ValueError):  # closed already
        sys.stdout.flush()
        sys.stderr.flush()


def _call(function: Callable[..., Any], arguments: Tuple[Any, ...], named: Dict[str, Any]) -> None:
    try:
        function(*arguments, **named)
    except BaseException:
        traceback.print_exc()

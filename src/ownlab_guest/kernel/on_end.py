"""`ownlab.on_end`: functions to call before a runtime ends. Each runs once, and a failure of one does not stop the others."""

import atexit
import contextvars
import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any, Callable, Dict, List, Tuple

from ownlab_guest.text import shown, text

__all__ = ["on_end", "run_on_end"]

# With their contexts: in ipykernel 7 the context decides to which cell output belongs.
_functions: List[Tuple[int, contextvars.Context, Callable[..., Any], Tuple[Any, ...], Dict[str, Any]]] = []


def on_end(function: Callable[..., Any], *arguments: Any, **named: Any) -> Callable[..., Any]:
    """Call `function` before this runtime ends, to save what must not be lost.

    The runtime ends at a limit, when it is stopped, and when the kernel is shut down or restarted; also in the middle of
    a cell. All functions together have `runtimes.on_end_seconds` (30 by default). The last one registered is called
    first, as with atexit. Its output is added to the cell that registered it, or to the last cell (ipykernel 6).
    Returns the function, so that it can be used as a decorator.
    """
    if not callable(function):
        raise TypeError(shown(text("on_end takes a function, not {value}", value=repr(function))))
    if not _functions:
        atexit.register(run_on_end)
    _functions.append((os.getpid(), contextvars.copy_context(), function, arguments, named))
    return function


def run_on_end() -> None:
    """Call all functions. Print the traceback of one that raises, and call the next one."""
    if _functions:
        with suppress(ValueError):  # not in the main thread
            # A slow shutdown is followed by SIGTERM, which would interrupt the saving.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while _functions:
        process, context, function, arguments, named = _functions.pop()
        if process != os.getpid():
            continue  # registered before a fork: the parent calls it, not each worker
        context.run(_call, function, arguments, named)
    with suppress(AttributeError, OSError, ValueError):  # closed already
        sys.stdout.flush()
        sys.stderr.flush()


def _call(function: Callable[..., Any], arguments: Tuple[Any, ...], named: Dict[str, Any]) -> None:
    try:
        function(*arguments, **named)
    except BaseException:
        traceback.print_exc()

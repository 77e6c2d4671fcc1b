"""The end of the runtime, by the notebook's own hand."""

import os
import time

from . import _host, _message, errors

__all__ = ["unassign"]

STOP_SECONDS = 60.0  # that ownlab has to take the order
END_SECONDS = 120.0  # that the kernel has to end after it, with everything that on_end does


def unassign() -> None:
    """End this runtime and free its cards. What it said is kept; nothing of the cell runs after this call."""
    runtime = os.environ.get("OWNLAB_RUNTIME", "")
    if not runtime:
        raise errors.RuntimeManagementError("This kernel is no runtime of ownlab: nothing is there to end.")
    if not _page_ends_it():
        _stop(runtime)
    time.sleep(END_SECONDS)  # the signal that ends this process comes meanwhile
    raise errors.RuntimeManagementError(f"The runtime was told to end, and has not after {END_SECONDS:.0f} s.")


def _page_ends_it() -> bool:
    """A page shuts its session down, so that it shows what happened; without one ownlab does it."""
    if not _message.can_ask():
        return False
    try:
        _message.blocking_request("ownlab_unassign", {}, timeout_sec=None)
    except _message.MessageError:
        return False
    return True


def _stop(runtime: str) -> None:
    if not _host.is_there():
        raise errors.RuntimeManagementError("ownlab cannot be asked: OWNLAB_HOST is not set.")
    try:
        code, _ = _host.ask("runtimes", "stop", runtime, "--released", timeout=STOP_SECONDS)
    except TimeoutError as exc:
        raise errors.RuntimeManagementError(f"The runtime could not be ended: {exc}") from None
    if code != 0:
        raise errors.RuntimeManagementError(
            f"The runtime could not be ended: `ownlab runtimes stop` ended with {code}."
        )

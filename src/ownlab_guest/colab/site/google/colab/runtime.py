"""google.colab.runtime: end this runtime from the notebook."""

import os
import time

from . import _host, _message, errors

__all__ = ["unassign"]

STOP_SECONDS = 60.0  # for ownlab to accept the command
END_SECONDS = 120.0  # for the kernel to end, with its on_end hooks


def unassign() -> None:
    """End this runtime and free its cards. Outputs are kept; nothing after this call runs."""
    runtime = os.environ.get("OWNLAB_RUNTIME", "")
    if not runtime:
        raise errors.RuntimeManagementError("This kernel is not a runtime of ownlab, so it cannot be ended.")
    if not _page_ends_it():
        _stop(runtime)
    time.sleep(END_SECONDS)  # meanwhile a signal ends this process
    raise errors.RuntimeManagementError(f"The runtime did not end within {END_SECONDS:.0f} s.")


def _page_ends_it() -> bool:
    """Let the page shut its session down, so that it shows what happened; without a page ownlab does it."""
    if not _message.can_ask():
        return False
    try:
        _message.blocking_request("ownlab_unassign", {}, timeout_sec=None)
    except _message.MessageError:
        return False
    return True


def _stop(runtime: str) -> None:
    if not _host.is_available():
        raise errors.RuntimeManagementError("ownlab cannot be called: OWNLAB_HOST is not set.")
    try:
        code, _ = _host.call("runtimes", "stop", runtime, "--released", timeout=STOP_SECONDS)
    except TimeoutError as exc:
        raise errors.RuntimeManagementError(f"The runtime could not be ended: {exc}") from None
    if code != 0:
        raise errors.RuntimeManagementError(
            f"The runtime could not be ended: `ownlab runtimes stop` failed with exit code {code}."
        )

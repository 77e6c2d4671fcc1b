"""A page's connection to its kernel: it opens at once, also where the kernel is busy or not there yet."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server says that it is typed; most of its methods are not.)

from __future__ import annotations

import asyncio
from typing import Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from traitlets import Bool

from ownlab.server.kernels import RuntimeManager

__all__ = ["OwnlabConnection"]

# What ipykernel speaks, and every runtime is one. For a kernel that cannot be asked yet.
_PROTOCOL = {"protocol_version": "5.3"}


class OwnlabConnection(ZMQChannelsWebsocketConnection):
    """Jupyter's own, which waits until the kernel has answered before it opens; ours does not where that takes long."""

    # Jupyter drops what a kernel says beyond 1000 messages a second, and tells the page so in place of it. A notebook
    # without its outputs is worse than a page that needs a moment to draw them.
    limit_rate = Bool(False, config=True)

    @property
    def _silent(self) -> bool:
        """Whether the kernel cannot answer soon. What it is sent meanwhile waits at its supervisor."""
        kernel = self.kernel_manager
        return (
            isinstance(kernel, RuntimeManager)
            and kernel.is_runtime
            and (kernel.execution_state == "busy" or kernel.waits)
        )

    def request_kernel_info(self) -> Any:
        """Called before the websocket opens."""
        asked = getattr(self.kernel_manager, "_kernel_info_future", None)
        if self._silent and (asked is None or not asked.done()):
            self._finish_kernel_info(_PROTOCOL)
            return asyncio.wrap_future(self._kernel_info_future)
        return super().request_kernel_info()

    def nudge(self) -> asyncio.Future[None]:
        """Called when the websocket is open; what it returns ends when messages may flow."""
        if not self._silent:
            return super().nudge()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ready.set_result(None)
        # A kernel that says nothing for an hour would be "unknown" to its page for as long.
        self._send_status_message(self.kernel_manager.execution_state)
        return ready

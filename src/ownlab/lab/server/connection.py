"""A page's connection to its kernel: along the runtime's line where the page follows it, else as Jupyter's own."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server says that it is typed; most of its methods are not.)

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from tornado.web import HTTPError
from traitlets import Bool

from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.runtimes.state import plan_with_journal_socket
from ownlab.lab.server.kernels import RuntimeManager
from ownlab.lab.server.page_stream import Following
from ownlab.lab.server.websocket_framing import PROTOCOL, unframe

if TYPE_CHECKING:
    from ownlab.lab.runtimes.journals import Journals

__all__ = ["OwnlabConnection"]

# What ipykernel speaks, and every runtime is one. For a kernel that cannot be asked yet.
_PROTOCOL = {"protocol_version": "5.3"}
# A page that follows says after which message, by its number, or "now".
_AFTER = "ownlab_after"


class OwnlabConnection(ZMQChannelsWebsocketConnection):
    """One for each websocket. It opens at once, also where the kernel is busy or not there yet."""

    # Jupyter drops what a kernel says beyond 1000 messages a second, and tells the page so in place of it. A notebook
    # without its outputs is worse than a page that needs a moment to draw them.
    limit_rate = Bool(False, config=True)

    _asked_to_follow = False
    _after: int | None = None
    _plan: Plan | None = None  # of a runtime that is followed
    _following: Following | None = None
    _left = False

    # -- called by Jupyter's handler, in this order

    async def prepare(self) -> None:
        """Before the websocket opens; waits until there is a runtime."""
        after = self.websocket_handler.get_argument(_AFTER, None)
        self._asked_to_follow = after is not None
        if after is not None and after != "now":
            if not after.isdecimal():
                raise HTTPError(400, f"{_AFTER} is neither a number nor 'now'")
            self._after = int(after)
        await super().prepare()

    def connect(self) -> Any:
        """When it is open. Nothing is heard from the page before this is done."""
        if self._plan is None:
            if self._asked_to_follow:
                self.write_message('{"type": "plain"}')
            return super().connect()
        kernels = self.multi_kernel_manager
        kernels.notify_connect(self.kernel_id)
        kernels.add_restart_callback(self.kernel_id, self.on_kernel_restarted)
        kernels.add_restart_callback(self.kernel_id, self.on_restart_failed, "dead")
        journals: Journals = self.websocket_handler.settings["ownlab_journals"]
        self._following = Following(self._plan, self._after, self.session_id, self._write, journals, self.log)
        self._following.telling.add_done_callback(self._end)
        kernels.follow(self.kernel_id, self._following)
        ZMQChannelsWebsocketConnection._open_sockets.add(self)
        return _done()

    def handle_incoming_message(self, incoming_msg: Any) -> None:
        """With each message of the page."""
        if self._plan is None:
            super().handle_incoming_message(incoming_msg)
            return
        if self._following is None:
            return
        try:
            channel, parts = unframe(incoming_msg)
        except (ValueError, TypeError) as exc:
            self.log.warning("A page of kernel %s sent what is no message: %s", self.kernel_id, exc)
        else:
            self._following.say(channel, parts)

    def disconnect(self) -> None:  # type: ignore[override]  # as in the class above ours
        """When the websocket is closed, and when the server ends."""
        if self._plan is None:
            super().disconnect()
            return
        if self._following is None or self._left:
            return
        self._left = True
        self._following.close()
        kernels = self.multi_kernel_manager
        kernels.unfollow(self.kernel_id, self._following)
        kernels.notify_disconnect(self.kernel_id)
        if self._open_sessions.get(self.session_key) is self.websocket_handler:
            self._open_sessions.pop(self.session_key)
        if self.kernel_id in kernels:
            kernels.remove_restart_callback(self.kernel_id, self.on_kernel_restarted)
            kernels.remove_restart_callback(self.kernel_id, self.on_restart_failed, "dead")
        ZMQChannelsWebsocketConnection._open_sockets.discard(self)
        self._close_future.set_result(None)

    # -- what Jupyter's own calls

    def request_kernel_info(self) -> Any:
        """Before the websocket opens; what it returns is waited for."""
        if self._asked_to_follow and self._can_follow:
            self._plan = plan_with_journal_socket(self.kernel_id)
        if self._plan is not None:
            return _done()
        asked = getattr(self.kernel_manager, "_kernel_info_future", None)
        if self._silent and (asked is None or not asked.done()):
            self._finish_kernel_info(_PROTOCOL)
            return asyncio.wrap_future(self._kernel_info_future)
        return super().request_kernel_info()

    def nudge(self) -> asyncio.Future[None]:
        """When the websocket is open; what it returns ends when messages may flow."""
        if not self._silent:
            return super().nudge()
        # A kernel that says nothing for an hour would be "unknown" to its page for as long.
        self._send_status_message(self.kernel_manager.execution_state)
        return _done()

    def _send_status_message(self, status: str) -> None:
        """Where the kernel is found dead: "restarting", or "dead" for good."""
        if self._plan is None:
            super()._send_status_message(status)
        elif self._following is not None:
            self._following.tell_status(status)

    @property
    def _can_follow(self) -> bool:
        """Not where Jupyter is to change or hold back what is said: the line passes everything on as it is."""
        kernel, kernels = self.kernel_manager, self.multi_kernel_manager
        offered = self.websocket_handler.request.headers.get("Sec-WebSocket-Protocol", "")
        return (
            isinstance(kernel, RuntimeManager)
            and kernel.is_runtime
            and PROTOCOL in offered
            and self.kernel_ws_protocol in (None, PROTOCOL)
            and kernels.allow_tracebacks
            and not kernels.allowed_message_types
        )

    @property
    def _silent(self) -> bool:
        """Whether the kernel cannot answer soon. What it is sent meanwhile waits at its supervisor."""
        kernel = self.kernel_manager
        return (
            isinstance(kernel, RuntimeManager)
            and kernel.is_runtime
            and (kernel.execution_state == "busy" or kernel.waits)
        )

    def _end(self, telling: asyncio.Task[None]) -> None:
        """A page that cannot be told comes back, and goes on where it was."""
        failure = None if telling.cancelled() else telling.exception()
        if failure is not None:
            self.log.error("A page of kernel %s was cut off.", self.kernel_id, exc_info=failure)
        self.websocket_handler.close()

    def _write(self, data: bytes | str) -> asyncio.Future[None]:
        sent: asyncio.Future[None] = self.write_message(data, binary=isinstance(data, bytes))
        return sent


def _done() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done

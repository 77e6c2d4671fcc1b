"""A page's websocket to its kernel: a stream of the runtime's journal on request, else Jupyter's own channels."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from traitlets import Bool

from ownlab.config.settings import LabOptions
from ownlab.lab.journal.records import json_object
from ownlab.lab.notebooks.vscode import SCHEME, notebook_of_cell
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.state import plan_of, plan_with_journal_socket
from ownlab.lab.server.kernel_messages import PROTOCOL, unframe
from ownlab.lab.server.kernels import RuntimeManager
from ownlab.lab.server.page_errors import PageError
from ownlab.lab.server.page_language import translation_for
from ownlab.lab.server.page_stream import PageStream
from ownlab.lab.transport.journal_client import JournalClient
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.lab.runtimes.journals import Journals

__all__ = ["OwnlabConnection"]

# The message protocol of ipykernel, and thus of every runtime, for a kernel that cannot be asked yet.
_PROTOCOL = {"protocol_version": "5.3"}
_TRY_AGAIN_LATER = 1013  # close code of a websocket; see the registry of RFC 6455
# Query parameter of a page that wants a stream: the number of the last record it has handled, or "now".
_AFTER = "ownlab_after"
# In the metadata of an execute_request, in a message of either protocol.
_VSCODE_CELL_TEXT = re.compile(rf'"cellId":\s*"{SCHEME}:[^"]*"')
_VSCODE_CELL = re.compile(_VSCODE_CELL_TEXT.pattern.encode())


class OwnlabConnection(ZMQChannelsWebsocketConnection):
    """One websocket. It opens at once, even if the kernel is busy or not started yet."""

    # Jupyter drops messages beyond 1000 per second and sends a warning instead. A notebook without its outputs is worse
    # than a page that needs a moment to draw them.
    limit_rate = Bool(False, config=True)

    _wants_stream = False
    _after: int | None = None
    _plan: Plan | None = None  # set if the page gets a stream
    _stream: PageStream | None = None
    _presence: JournalClient | None = None  # of a client without a stream
    _closed = False
    _vscode_notebook = ""
    _moving: asyncio.Future[None] | None = None  # kept, so that the task is not garbage collected
    _unsent_bytes = 0  # to a client without a stream
    _backlog = LabOptions().backlog_mb << 20

    # -- called by Jupyter's handler, in this order

    async def prepare(self) -> None:
        """Called before the websocket opens. Waits until there is a runtime."""
        after = self.websocket_handler.get_argument(_AFTER, None)
        self._wants_stream = after is not None
        if after is not None and after != "now":
            if not after.isdecimal():
                raise PageError(400, text("The query parameter {name} is neither a number nor 'now'.", name=_AFTER))
            self._after = int(after)
        plan = plan_of(self.kernel_id)
        self._backlog = (plan.backlog_mb if plan else LabOptions().backlog_mb) << 20
        await super().prepare()

    def connect(self) -> Any:
        """Called when the websocket is open. Messages of the page are handled only after this is done."""
        if self._plan is None:
            if self._wants_stream:
                self.write_message('{"type": "plain"}')
            self._note_presence()
            return super().connect()
        kernels = self.multi_kernel_manager
        kernels.notify_connect(self.kernel_id)
        kernels.add_restart_callback(self.kernel_id, self.on_kernel_restarted)
        kernels.add_restart_callback(self.kernel_id, self.on_restart_failed, "dead")
        journals: Journals = self.websocket_handler.settings["ownlab_journals"]
        translate = translation_for(self.websocket_handler.request)
        self._stream = PageStream(
            self._plan, self._after, self.session_id, self._write, journals, self.log, translate=translate
        )
        self._stream.task.add_done_callback(self._on_stream_end)
        kernels.add_page(self.kernel_id, self._stream)
        ZMQChannelsWebsocketConnection._open_sockets.add(self)
        return _completed()

    def _note_presence(self) -> None:
        """Let the supervisor know that somebody uses the runtime, for instance with VS Code."""
        kernel = self.kernel_manager
        if isinstance(kernel, RuntimeManager) and kernel.is_runtime:
            plan = plan_with_journal_socket(self.kernel_id)
            if plan is not None:
                self._presence = JournalClient(plan.journal_endpoint, _ignore, only=(), page=True)

    def handle_incoming_message(self, incoming_msg: Any) -> None:
        """Called with each message of the page."""
        if self._plan is None:
            self._find_vscode_notebook(incoming_msg)
            super().handle_incoming_message(incoming_msg)
            return
        if self._stream is None:
            return
        try:
            channel, parts = unframe(incoming_msg)
        except (ValueError, TypeError) as exc:
            self.log.warning("A page of kernel %s sent an invalid message: %s", self.kernel_id, exc)
        else:
            self._stream.send_to_kernel(channel, parts)

    def _find_vscode_notebook(self, message: bytes | str) -> None:
        """Find out which notebook VS Code executes: its session has a random path, but each cell names the file."""
        pattern = _VSCODE_CELL if isinstance(message, bytes) else _VSCODE_CELL_TEXT
        found = None if self._vscode_notebook else pattern.search(message)  # type: ignore[arg-type]  # of the same type
        if found is None:
            return
        address = json_object(b"{%s}" % (found[0] if isinstance(found[0], bytes) else found[0].encode())).get("cellId")
        self._vscode_notebook = notebook_of_cell(str(address))
        sessions = self.websocket_handler.settings["session_manager"]
        if self._vscode_notebook:
            self._moving = asyncio.ensure_future(sessions.move_to_notebook(self.kernel_id, self._vscode_notebook))

    def disconnect(self) -> None:  # type: ignore[override]  # as in the base class
        """Called when the websocket is closed, and when the server stops."""
        if self._plan is None:
            if self._presence is not None:
                self._presence.close()
            super().disconnect()
            return
        if self._stream is None or self._closed:
            return
        self._closed = True
        self._stream.close()
        kernels = self.multi_kernel_manager
        kernels.remove_page(self.kernel_id, self._stream)
        kernels.notify_disconnect(self.kernel_id)
        if self._open_sessions.get(self.session_key) is self.websocket_handler:
            self._open_sessions.pop(self.session_key)
        if self.kernel_id in kernels:
            kernels.remove_restart_callback(self.kernel_id, self.on_kernel_restarted)
            kernels.remove_restart_callback(self.kernel_id, self.on_restart_failed, "dead")
        ZMQChannelsWebsocketConnection._open_sockets.discard(self)
        self._close_future.set_result(None)

    # -- called by Jupyter's base class

    @property
    def write_message(self) -> Any:
        """Called with each message for a client that has no stream. One that does not read is disconnected."""
        return self._write_to_client if self._plan is None else self.websocket_handler.write_message

    def _write_to_client(self, data: bytes | str, binary: bool = False) -> asyncio.Future[None]:
        sent: asyncio.Future[None] = self.websocket_handler.write_message(data, binary=binary)
        self._unsent_bytes += len(data)
        sent.add_done_callback(partial(self._on_sent, len(data)))
        if self._unsent_bytes > self._backlog and not self._closed:
            self._closed = True
            self.log.warning("A client of kernel %s does not read and is disconnected.", self.kernel_id)
            for stream in self.channels.values():
                stream.on_recv(None)
                stream.close()
            self.channels = {}
            self.websocket_handler.close(_TRY_AGAIN_LATER, text("Too much output is waiting: reconnect."))
        return sent

    def _on_sent(self, size: int, sent: asyncio.Future[None]) -> None:
        self._unsent_bytes -= size
        if not sent.cancelled():
            sent.exception()  # a client that disconnects meanwhile is not an error

    def request_kernel_info(self) -> Any:
        """Called before the websocket opens, which waits for the returned future."""
        if self._wants_stream and self._can_stream:
            self._plan = plan_with_journal_socket(self.kernel_id)
        if self._plan is not None:
            return _completed()
        asked = getattr(self.kernel_manager, "_kernel_info_future", None)
        if self._is_unresponsive and (asked is None or not asked.done()):
            self._finish_kernel_info(_PROTOCOL)
            return asyncio.wrap_future(self._kernel_info_future)
        return super().request_kernel_info()

    def nudge(self) -> asyncio.Future[None]:
        """Called when the websocket is open. Messages flow when the returned future is done."""
        if not self._is_unresponsive:
            return super().nudge()
        # Without this, the page would show the state "unknown" until the kernel's next status, perhaps for an hour.
        self._send_status_message(self.kernel_manager.execution_state)
        return _completed()

    def _send_status_message(self, status: str) -> None:
        """Called when the kernel was found dead, with "restarting" or "dead"."""
        if self._plan is None:
            super()._send_status_message(status)
        elif self._stream is not None:
            self._stream.send_status(status)

    @property
    def _can_stream(self) -> bool:
        """Whether the page can get a stream.

        Not if Jupyter is configured to filter messages: a stream forwards everything.
        """
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
    def _is_unresponsive(self) -> bool:
        """Whether the kernel cannot answer soon. Messages sent meanwhile wait at its supervisor."""
        kernel = self.kernel_manager
        return (
            isinstance(kernel, RuntimeManager)
            and kernel.is_runtime
            and (kernel.execution_state == "busy" or kernel.is_waiting)
        )

    def _on_stream_end(self, task: asyncio.Task[None]) -> None:
        """Close the websocket when the stream ends. The page reconnects and continues at its position."""
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            self.log.error("The connection of a page to kernel %s was lost.", self.kernel_id, exc_info=failure)
        self.websocket_handler.close()

    def _write(self, data: bytes | str) -> asyncio.Future[None]:
        sent: asyncio.Future[None] = self.write_message(data, binary=isinstance(data, bytes))
        return sent


def _ignore(message: object) -> None:
    """What a client without a stream needs comes from Jupyter's channels."""


def _completed() -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done

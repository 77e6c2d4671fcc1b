"""The client of the journal socket: receives every record of a runtime in order, and sends messages to its kernel."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import zmq

from ownlab.lab.journal.records import Record, json_object
from ownlab.lab.transport.endpoints import Endpoint
from ownlab.lab.transport.journal_protocol import (
    ACK,
    ACK_BYTES,
    BYE,
    DROPPED,
    DUPLICATE,
    FOLLOW,
    HELLO,
    RECORD,
    SEND,
    unpack,
)

__all__ = ["Dropped", "Duplicate", "Hello", "JournalClient", "JournalMessage", "Reconnected"]

# Messages handled before other tasks of the event loop get a turn.
_MAX_MESSAGES = 256
# Milliseconds for the last messages to leave.
_LINGER = 500
# Milliseconds between attempts to reconnect, growing until the client is closed.
_RETRY, _MAX_RETRY = 50, 2000
_EVENT = struct.Struct("=Hi")  # the first frame of a monitor's message (zmq_socket_monitor(3))


class Hello(NamedTuple):
    """The state when the connection begins. Every record with a higher number follows."""

    position: int
    busy: bool
    execution_state: str
    kernel_info: dict[str, Any] | None
    launch: int
    kernel_session: str


class Dropped(NamedTuple):
    """We were too slow, so that records were not sent: up to this number they are on disk. Another Hello follows."""

    position: int


class Duplicate(NamedTuple):
    """A message that was sent before and was not forwarded again."""

    msg_id: str


class Reconnected:
    """Another process is at the other end, as after the relay of a node was killed. What was sent may be lost. A Hello follows."""


JournalMessage = Hello | Record | Duplicate | Dropped | Reconnected


class JournalClient:
    """Connected until `close`. It also connects to a supervisor that binds later."""

    def __init__(
        self,
        endpoint: Endpoint,
        on_message: Callable[[JournalMessage], None],
        only: Sequence[str] | None = None,
        *,
        page: bool = False,
    ) -> None:
        """`on_message` is called with everything in order. `only`: on iopub, these message types only.

        `page`: somebody looks at the runtime as long as this is connected.
        """
        self._on_message = on_message
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._socket = context.socket(zmq.DEALER)
        self._socket.sndhwm = self._socket.rcvhwm = 0
        self._socket.reconnect_ivl, self._socket.reconnect_ivl_max = _RETRY, _MAX_RETRY
        self._connections = 0  # made so far
        self._events = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        endpoint.connect(self._socket)
        self._loop = asyncio.get_running_loop()
        self._descriptor, self._events_descriptor = self._socket.fileno(), self._events.fileno()
        self._loop.add_reader(self._descriptor, self._receive)
        self._loop.add_reader(self._events_descriptor, self._note_connections)
        self._only, self._page = only, page
        self._received_bytes = self._acknowledged_bytes = 0  # of records, since we follow
        self._follow()
        # The descriptor becomes readable only after everything was read once.
        self._loop.call_soon(self._note_connections)

    def send(self, channel: str, parts: Sequence[bytes]) -> None:
        """Send a message to the kernel."""
        self._send_frames([SEND, channel.encode(), *parts])

    def close(self) -> None:
        """Stop receiving."""
        if self._socket.closed:
            return
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_reader(self._events_descriptor)
        self._socket.disable_monitor()
        self._events.close(linger=0)
        self._socket.send_multipart([BYE], zmq.NOBLOCK)
        self._socket.close(linger=_LINGER)

    def _follow(self) -> None:
        self._received_bytes = self._acknowledged_bytes = 0
        # With a filter there is too little to fall behind.
        request = {"only": self._only, "acknowledges": self._only is None, "page": self._page}
        self._send_frames([FOLLOW, json.dumps(request).encode()])

    def _note_connections(self) -> None:
        """ZeroMQ connects again by itself, to whoever listens at the address by then: that one does not know us."""
        while not self._socket.closed:
            try:
                event, _ = _EVENT.unpack(self._events.recv_multipart(zmq.NOBLOCK)[0])
            except zmq.Again:
                return
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._connections += 1
                if self._connections > 1:
                    self._on_message(Reconnected())
                    self._follow()

    def _acknowledge(self, size: int) -> None:
        """Called after a record was handled."""
        self._received_bytes += size
        if self._only is None and self._received_bytes - self._acknowledged_bytes >= ACK_BYTES:
            self._acknowledged_bytes = self._received_bytes
            self._send_frames([ACK, b"%d" % self._received_bytes])

    def _send_frames(self, frames: list[bytes]) -> None:
        if self._socket.closed:
            return
        self._socket.send_multipart(frames, zmq.NOBLOCK)
        # The descriptor is edge-triggered, and sending may have consumed the edge.
        self._loop.call_soon(self._receive)

    def _receive(self) -> None:
        for _ in range(_MAX_MESSAGES):
            if self._socket.closed:
                return
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if frames[0] == RECORD:
                self._on_message(unpack(frames))
                self._acknowledge(sum(map(len, frames)))
            elif frames[0] == HELLO:
                self._on_message(_parse_hello(frames[1]))
            elif frames[0] == DUPLICATE:
                self._on_message(Duplicate(frames[1].decode()))
            elif frames[0] == DROPPED:
                self._on_message(Dropped(int(frames[1])))
                self._follow()
        self._loop.call_soon(self._receive)


def _parse_hello(frame: bytes) -> Hello:
    content = json_object(frame)
    return Hello(
        position=int(content["position"]),
        busy=bool(content["busy"]),
        execution_state=str(content["execution_state"]),
        kernel_info=content["kernel_info"] or None,
        launch=int(content["launch"]),
        kernel_session=str(content["kernel_session"]),
    )

"""The server's end of a runtime's line: everything that passes its supervisor, in order, on one socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import zmq

from ownlab.lab.journal.records import Record, as_object
from ownlab.lab.transport.journal_protocol import AGAIN, BYE, FOLLOW, HELLO, RECORD, SEND, line_address, unpack

__all__ = ["Again", "Hello", "Line"]

# So many messages are heard before the rest of the server has its turn.
_TURN = 256
# Milliseconds that the last words to a supervisor have to leave.
_LINGER = 500
# Milliseconds: a supervisor that is gone is looked for ever less often, until the line is closed.
_RETRY, _SELDOM = 50, 2000


class Hello(NamedTuple):
    """How things stand when the line begins: everything with a higher number follows."""

    position: int
    busy: bool
    execution_state: str
    kernel_info: dict[str, Any] | None
    launch: int
    kernel_session: str


class Again(NamedTuple):
    """A message that was sent before, and was not passed on a second time."""

    msg_id: str


class Line:
    """Open until `close`; a supervisor that does not answer yet is waited for."""

    def __init__(
        self, sockets: str, hear: Callable[[Hello | Record | Again], None], only: Sequence[str] | None = None
    ) -> None:
        """`hear` is called with each thing in the order in which it was said. `only`: of iopub these types alone."""
        self._hear = hear
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._socket = context.socket(zmq.DEALER)
        self._socket.sndhwm = self._socket.rcvhwm = 0
        self._socket.reconnect_ivl, self._socket.reconnect_ivl_max = _RETRY, _SELDOM
        self._socket.connect(line_address(sockets))
        self._loop = asyncio.get_running_loop()
        self._descriptor = self._socket.fileno()
        self._loop.add_reader(self._descriptor, self._listen)
        self._say([FOLLOW, json.dumps({"only": only}).encode()])

    def send(self, channel: str, parts: Sequence[bytes]) -> None:
        """Pass a message on to the kernel."""
        self._say([SEND, channel.encode(), *parts])

    def close(self) -> None:
        """Nothing is heard any more."""
        if self._socket.closed:
            return
        self._loop.remove_reader(self._descriptor)
        self._socket.send_multipart([BYE], zmq.NOBLOCK)
        self._socket.close(linger=_LINGER)

    def _say(self, frames: list[bytes]) -> None:
        if self._socket.closed:
            return
        self._socket.send_multipart(frames, zmq.NOBLOCK)
        # The descriptor tells of a change once, and sending may have taken note of it.
        self._loop.call_soon(self._listen)

    def _listen(self) -> None:
        for _ in range(_TURN):
            if self._socket.closed:
                return
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if frames[0] == RECORD:
                self._hear(unpack(frames))
            elif frames[0] == HELLO:
                self._hear(_hello(frames[1]))
            elif frames[0] == AGAIN:
                self._hear(Again(frames[1].decode()))
        self._loop.call_soon(self._listen)


def _hello(frame: bytes) -> Hello:
    said = as_object(frame)
    return Hello(
        position=int(said["position"]),
        busy=bool(said["busy"]),
        execution_state=str(said["execution_state"]),
        kernel_info=said["kernel_info"] or None,
        launch=int(said["launch"]),
        kernel_session=str(said["kernel_session"]),
    )

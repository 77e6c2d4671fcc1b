"""The line: whoever follows a runtime hears everything in one order, from the moment that it says so.

What is said is on disk already, so that a follower reads what was before that moment from the journal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import zmq

from ownlab.lab.journal.records import Record, as_object
from ownlab.lab.transport.journal_protocol import AGAIN, BYE, FOLLOW, HELLO, SEND, pack

__all__ = ["IDENTITY", "Line", "Sent", "send_frames"]

# In front of what the line sends to the kernel, where a classic client's identity stands: replies come back with it.
IDENTITY = b"line"

_CHANNELS = (b"shell", b"control", b"stdin")
# A page sends again what it does not know to have arrived; of so many messages it is remembered that they had.
_REMEMBERED = 10_000

# As plain numbers: pyzmq's own send_multipart joins two enumerations for each frame, which doubles the time it takes.
_MORE = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
_LAST = int(zmq.NOBLOCK)


def send_frames(socket: zmq.Socket[bytes], frames: list[bytes]) -> None:
    """Send one message."""
    for frame in frames[:-1]:
        socket.send(frame, _MORE)
    socket.send(frames[-1], _LAST)


class Sent(NamedTuple):
    """What a follower wants to be passed on to the kernel."""

    who: bytes
    name: str  # its message id
    channel: str
    parts: list[bytes]  # header, parent header, metadata, content, buffers …


class Line:
    """The followers, at one ROUTER socket."""

    def __init__(self, socket: zmq.Socket[bytes], address: str) -> None:
        socket.router_mandatory = True  # else nobody would ever know that a follower is gone
        socket.bind(address)
        self.socket = socket
        self._followers: dict[bytes, tuple[bytes, ...] | None] = {}  # -> iopub's message types; None: all
        self._passed: dict[str, None] = {}

    def hear(self, frames: list[bytes], hello: Callable[[], dict[str, Any]]) -> Sent | None:
        """Deal with a message from a follower; what it wants to be passed on."""
        who, what, *more = frames
        if what == FOLLOW:
            self._send([who, HELLO, json.dumps(hello()).encode()])
            only = as_object(more[0]).get("only") if more else None
            wanted = tuple(b'"%s"' % str(one).encode() for one in only) if isinstance(only, list) else None
            self._followers[who] = wanted
        elif what == BYE:
            self._followers.pop(who, None)
        elif what == SEND and len(more) >= 5 and more[0] in _CHANNELS:
            sent = Sent(who, str(as_object(more[1]).get("msg_id", "")), more[0].decode(), more[1:])
            if sent.name in self._passed:
                self.refuse(sent)
            elif sent.name:
                self._passed[sent.name] = None
                if len(self._passed) > _REMEMBERED:
                    del self._passed[next(iter(self._passed))]
                return sent
        return None

    def refuse(self, sent: Sent) -> None:
        """It is not passed on: it was before, or nobody waits for it. Its sender need not send it again."""
        self._send([sent.who, AGAIN, sent.name.encode()])

    def tell(self, records: Iterable[Record]) -> None:
        """Everyone hears what has been written."""
        if not self._followers:
            return
        for record in records:
            frames = pack(record)
            for who, wanted in list(self._followers.items()):
                # Headers are searched, not parsed: a type stands in quotes in no header but its own.
                if wanted is None or record.channel != "iopub" or any(each in record.parts[0] for each in wanted):
                    self._send([who, *frames])

    def _send(self, frames: list[bytes]) -> None:
        try:
            send_frames(self.socket, frames)
        except zmq.ZMQError as exc:
            if exc.errno != zmq.EHOSTUNREACH:  # which comes with the first frame: no half message is left
                raise
            self._followers.pop(frames[0], None)

"""The server of the journal socket: clients receive every record in order from the moment that they follow.

Records are on disk before they are message, so clients read earlier ones from the journal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import zmq

from ownlab.lab.journal.records import Record, json_object
from ownlab.lab.transport.journal_protocol import (
    ACK,
    ACK_BYTES,
    ANSWER,
    BYE,
    COMMAND,
    DROPPED,
    DUPLICATE,
    FETCH,
    FETCHED,
    FOLLOW,
    HELLO,
    ORDERED,
    PING,
    SEND,
    STORED,
    pack,
)
from ownlab.text import pack_texts, unpack_texts

__all__ = ["IDENTITY", "ClientMessage", "JournalServer", "send_frames"]

# The identity frame of messages from this socket to the kernel, in place of a Jupyter client's: replies carry it back.
IDENTITY = b"line"

_CHANNELS = (b"shell", b"control", b"stdin")
# Pages resend messages that may not have arrived; the ids of this many messages are remembered.
_REMEMBERED = 10_000

# Bytes of records that are sent at once to a relay that is behind.
_FETCHED_BYTES = 4 << 20

# As plain numbers: pyzmq's own send_multipart combines two enum members for wanted_type frame, which doubles its time.
_MORE = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
_LAST = int(zmq.NOBLOCK)


def send_frames(socket: zmq.Socket[bytes], frames: list[bytes]) -> None:
    """Send one message."""
    for frame in frames[:-1]:
        socket.send(frame, _MORE)
    socket.send(frames[-1], _LAST)


class ClientMessage(NamedTuple):
    """A message that a client wants to be forwarded to the kernel."""

    identity: bytes
    name: str  # message id
    channel: str
    parts: list[bytes]  # header, parent header, metadata, content, buffers …


class _Follower:
    """A client that follows."""

    __slots__ = ("acknowledged", "acknowledges", "dropped", "page", "sent", "types")

    def __init__(self, request: dict[str, Any]) -> None:
        only = request.get("only")
        # Message types on iopub; None: all.
        self.types = tuple(b'"%s"' % str(name).encode() for name in only) if isinstance(only, list) else None
        self.acknowledges = request.get("acknowledges") is True
        self.page = request.get("page") is True
        self.sent = self.acknowledged = 0  # bytes
        self.dropped = False

    def wants(self, record: Record) -> bool:
        # Headers are searched, not parsed: a message type appears in quotes only in its own header.
        return self.types is None or record.channel != "iopub" or any(kind in record.parts[0] for kind in self.types)

    def has_room(self, size: int, backlog: int) -> bool:
        """Whether a record may be sent. A record of any size may, if nothing else is waiting."""
        waiting = self.sent - self.acknowledged
        return not self.acknowledges or waiting < 2 * ACK_BYTES or waiting + size <= backlog


class JournalServer:
    """The followers, on one ROUTER socket. A follower for which more than `backlog` bytes are waiting is dropped."""

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        backlog: int,
        *,
        folder: str = "",
        answer: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        """The caller binds the socket.

        `folder` of the journal and `answer` to commands are for clients on other machines, which cannot use the disk and the control
        socket of this one. Without them, such requests are ignored.
        """
        socket.router_mandatory = True  # otherwise a follower that is gone would never be noticed
        self.socket, self._backlog = socket, backlog
        self._folder, self._answer = folder, answer
        self._followers: dict[bytes, _Follower] = {}  # by identity
        self._seen_ids: dict[str, None] = {}
        self._expected: dict[bytes, int] = {}  # of a series of messages: the next number

    def receive(self, frames: list[bytes], hello: Callable[[], dict[str, Any]]) -> ClientMessage | None:
        """Handle a message from a client. Return it if it must be forwarded to the kernel."""
        identity, kind, *more = frames
        if kind == FOLLOW:
            self._send([identity, HELLO, json.dumps({**hello(), "ordered": True}).encode()])
            self._followers[identity] = _Follower(json_object(more[0]) if more else {})
        elif kind == ACK and more and more[0].isdigit() and len(more[0]) < 20 and identity in self._followers:
            self._followers[identity].acknowledged = int(more[0])
        elif kind == BYE:
            self._followers.pop(identity, None)
        elif kind == FETCH and self._folder and more and more[0].isdigit() and len(more[0]) < 20:
            self._send_from_disk(identity, int(more[0]))
        elif kind == COMMAND and self._answer and len(more) == 2:
            answer = pack_texts(self._answer(unpack_texts(json_object(more[1]))))
            self._send([identity, ANSWER, more[0], json.dumps(answer).encode()])
        elif kind == ORDERED and len(more) >= 7 and more[1].isdigit() and len(more[1]) < 20:
            number, expected = int(more[1]), self._expected.get(more[0], 1)
            if number <= expected:  # a higher one comes again, after those that were lost with a connection
                self._expected[more[0]] = max(expected, number + 1)
                return self._take(identity, more[2:])
        elif kind == SEND and identity in self._followers:
            # One that does not follow has sent FOLLOW, and perhaps earlier messages, to a process that was here before. A page
            # sends all of them again.
            return self._take(identity, more)
        return None

    def _take(self, identity: bytes, frames: list[bytes]) -> ClientMessage | None:
        """Return a message if it must be forwarded."""
        if len(frames) < 5 or frames[0] not in _CHANNELS:
            return None
        message = ClientMessage(identity, str(json_object(frames[1]).get("msg_id", "")), frames[0].decode(), frames[1:])
        if message.name in self._seen_ids:
            self.reject(message)
            return None
        if not message.name:
            return None
        self._seen_ids[message.name] = None
        if len(self._seen_ids) > _REMEMBERED:
            del self._seen_ids[next(iter(self._seen_ids))]
        return message

    def reject(self, message: ClientMessage) -> None:
        """Tell the sender that its message is not forwarded (a duplicate, or nobody waits for it), so it need not resend."""
        self._send([message.identity, DUPLICATE, message.name.encode()])

    def publish(self, records: Iterable[Record]) -> None:
        """Send records to all followers."""
        if not self._followers:
            return
        for record in records:
            frames = pack(record)
            size = sum(map(len, frames))
            for identity, follower in list(self._followers.items()):
                if follower.dropped or not follower.wants(record):
                    continue
                if follower.has_room(size, self._backlog):
                    follower.sent += size
                    self._send([identity, *frames])
                else:
                    # It reads what it misses from the journal.
                    follower.dropped = True
                    self._send([identity, DROPPED, b"%d" % record.number])

    def has_pages(self) -> bool:
        """Return whether a page is connected. A server that was killed has not said goodbye for its pages: they are pinged."""
        for identity in [identity for identity, follower in self._followers.items() if follower.page]:
            self._send([identity, PING])
        return any(follower.page for follower in self._followers.values())

    def end(self, position: int) -> None:
        """Tell dropped followers how far the journal goes: there will be no supervisor that they could follow."""
        for identity, follower in list(self._followers.items()):
            if follower.dropped:
                self._send([identity, DROPPED, b"%d" % position])

    def _send_from_disk(self, identity: bytes, after: int) -> None:
        """Send what the journal has above a number, up to a limit. The relay asks for the rest."""
        from pathlib import Path  # few runtimes have a relay

        from ownlab.lab.journal.reader import records_after

        last, size, rest = after, 0, b"end"
        for record in records_after(Path(self._folder), after):
            if size > _FETCHED_BYTES:
                rest = b"more"
                break
            frames = pack(record, STORED)
            size += sum(map(len, frames))
            self._send([identity, *frames])
            last = record.number
        self._send([identity, FETCHED, b"%d" % last, rest])

    def _send(self, frames: list[bytes]) -> None:
        try:
            send_frames(self.socket, frames)
        except zmq.ZMQError as exc:
            if exc.errno != zmq.EHOSTUNREACH:  # raised for the first frame: no partial message is sent
                raise
            self._followers.pop(frames[0], None)

"""Sends what a kernel publishes to clients of Jupyter's own protocol, within a bound of memory for each of them.

ZeroMQ counts the messages that wait for a client, not their bytes, and does not say for whom they wait. So each client gets a
topic of its own (ZMQ_XPUB_MANUAL), and ZeroMQ tells when it has released a message. A client that falls behind by more than
the backlog gets what it misses from the journal, when it reads again; if that was compacted meanwhile, the output says that
something is missing, and only the states of the kernel are sent, since clients wait for the end of what they execute. Pages of the lab follow the journal socket instead.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import zmq

from ownlab.lab.journal.records import json_object
from ownlab.lab.supervisor.message_inspector import DELIMITER
from ownlab.lab.supervisor.state_writer import log
from ownlab.text import text

__all__ = ["OutputPublisher"]

# Bytes between messages whose release is awaited. That costs a moment for each of them.
_MARK_BYTES = 1 << 20
# What ZeroMQ needs for the frames of a waiting message, beside their content.
_OVERHEAD_BYTES = 1 << 10
# Of a runtime without a journal, which has no pages: what a client does not read in time is lost, so more may wait.
_BYTES_WITHOUT_JOURNAL = 512 << 20
# Messages with the kernel's state that are remembered for a client that is behind: some megabytes at most.
_KEPT_STATES = 2_000
# Seconds between looks whether a client that is behind has read something.
_LOOK = 0.1

_MORE = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
_LAST = int(zmq.NOBLOCK)

Sign = Callable[[list[bytes]], bytes]


class _Client:
    """One client, or all those that subscribe to a part of the messages."""

    __slots__ = ("_marks", "_released", "_sent", "behind", "missed_states", "prefix")

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix  # of the first frame of its messages: the topic that it alone gets
        self.behind: int | None = None  # the number of the last record that was sent, if later ones were not
        # Messages with the kernel's state that came since then, by their numbers.
        self.missed_states: deque[tuple[int, list[bytes]]] = deque(maxlen=_KEPT_STATES)
        self._sent = self._released = 0  # bytes
        self._marks: deque[tuple[int, zmq.MessageTracker]] = deque()

    @property
    def waiting(self) -> int:
        """How many bytes have not left yet, up to _MARK_BYTES more than there are."""
        while self._marks and self._marks[0][1].done:
            self._released = self._marks.popleft()[0]
        return self._sent - self._released

    def has_room(self, size: int, backlog: int) -> bool:
        """Whether a message may be sent. One of any size may, if nothing else is waiting."""
        waiting = self.waiting
        return waiting <= _MARK_BYTES or waiting + size <= backlog

    def send(self, socket: zmq.Socket[bytes], frames: Sequence[bytes], size: int) -> None:
        self._sent += size
        if self.prefix:
            # ipykernel welcomes subscribers with a message that has no topic.
            frames = [self.prefix, *frames] if frames[0] == DELIMITER else [self.prefix + frames[0], *frames[1:]]
        for frame in frames[:-1]:
            socket.send(frame, _MORE)
        if self._sent - (self._marks[-1][0] if self._marks else self._released) < _MARK_BYTES:
            socket.send(frames[-1], _LAST)
            return
        # Shared with ZeroMQ, not copied, however small it is: a copy would be released at once.
        last = zmq.Frame(frames[-1], copy=False, track=True, copy_threshold=0)
        socket.send(last, _LAST, copy=False, track=True)
        assert last.tracker is not None
        self._marks.append((self._sent, last.tracker))


class OutputPublisher:
    """The clients of a runtime's iopub, on one XPUB socket."""

    def __init__(self, socket: zmq.Socket[bytes], backlog: int, journal: str, sign: Sign) -> None:
        """The caller binds the socket. `journal` may be "". `sign` returns the signature of a message's parts."""
        socket.sndhwm = 0  # bytes are counted, not messages
        socket.setsockopt(zmq.XPUB_MANUAL, 1)
        self.socket, self._journal, self._sign = socket, journal, sign
        self._backlog = backlog if journal else max(backlog, _BYTES_WITHOUT_JOURNAL)
        self._clients: dict[tuple[int, int], _Client] = {}  # by descriptor and inode of their connections
        self._by_topic = _Client(b"")
        self._topics = 0
        self._names = 0
        self._look_at = 0.0
        self._reported = False

    def accept(self) -> None:
        """Handle what clients have subscribed to, and who has left."""
        while True:
            try:
                message = self.socket.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            data, connection = message.bytes, _connection_of(message)
            if data[:1] == b"\1":
                self._subscribe(data[1:], connection)
            elif data[:1] == b"\0":
                self._unsubscribe(data[1:], connection)

    def _subscribe(self, topic: bytes, connection: tuple[int, int] | None) -> None:
        if connection is None:  # it is gone
            return
        if topic:  # no client of Jupyter does so
            if connection not in self._clients:  # else it gets everything
                self._topics += 1
                self.socket.setsockopt(zmq.SUBSCRIBE, topic)
            return
        self._names += 1
        # One that is known already has another topic from now on. Its descriptor may have been that of a connection which was
        # closed before its subscription was handled.
        # In front of the real topic: clients of Jupyter ignore what stands before the delimiter. No topic begins so.
        client = self._clients[connection] = _Client(b"\0%d\0" % self._names)
        self.socket.setsockopt(zmq.SUBSCRIBE, client.prefix)

    def _unsubscribe(self, topic: bytes, connection: tuple[int, int] | None) -> None:
        if topic:
            self._topics -= 1
            if connection is not None:
                self.socket.setsockopt(zmq.UNSUBSCRIBE, topic)
        elif connection in self._clients:
            self.socket.setsockopt(zmq.UNSUBSCRIBE, self._clients.pop(connection).prefix)
        else:  # ZeroMQ does not say who has left
            self._clients = {key: client for key, client in self._clients.items() if _is_open(key)}

    def send(self, frames: list[bytes], number: int) -> None:
        """Send a message to all clients. `number` is its record's, if there is a journal."""
        clients = [client for client in self._clients.values() if client.behind is None]
        if len(clients) < len(self._clients) and _is_state(frames):
            for client in self._clients.values():
                if client.behind is not None:
                    client.missed_states.append((number, frames))
        if self._topics:
            clients.append(self._by_topic)
        size = _size(frames) if clients else 0
        for client in clients:
            if client.has_room(size, self._backlog):
                client.send(self.socket, frames, size)
            elif self._journal and client is not self._by_topic:
                client.behind = number - 1
                if _is_state(frames):
                    client.missed_states.append((number, frames))
            elif client.waiting < 2 * self._backlog and _is_state(frames):
                client.send(self.socket, frames, size)  # a client waits for the end of each request
            elif not self._reported:
                log("a client does not read what the kernel publishes: messages to it are dropped")
                self._reported = True

    def due(self) -> float | None:
        """When `catch_up` must be called; None if no client is behind."""
        return self._look_at if any(client.behind is not None for client in self._clients.values()) else None

    def catch_up(self, now: float) -> None:
        """Send clients that are behind what they have missed, if they read again. Everything recorded must have been sent."""
        if now < self._look_at:
            return
        self._look_at = now + _LOOK
        for client in self._clients.values():
            if client.behind is not None and client.waiting <= self._backlog // 2:
                self._send_missed(client, client.behind)

    def _send_missed(self, client: _Client, after: int) -> None:
        for frames, number in self._missed(client, after):
            size = _size(frames)
            if not client.has_room(size, self._backlog):
                client.behind = number - 1
                return
            client.send(self.socket, frames, size)
            client.behind = number
            self._look_at = 0.0  # it reads: more may be sent soon
        client.behind = None
        client.missed_states.clear()

    def _missed(self, client: _Client, after: int) -> Iterator[tuple[list[bytes], int]]:
        """The messages above a number, in order."""
        from pathlib import Path  # few runtimes have such clients

        from ownlab.lab.journal.reader import compacted_to, records_after

        folder = Path(self._journal)
        try:
            compacted = compacted_to(folder)
            if compacted > after:
                states = [each for each in client.missed_states if after < each[0] <= compacted]
                if states:
                    yield self._gap_note(states[0][1]), after + 1
                for number, frames in states:
                    yield frames, number
            for record in records_after(folder, max(after, compacted)):
                if record.channel == "iopub" and not record.to_kernel:
                    frames = [b"", DELIMITER, self._sign(list(record.parts)), *record.parts]
                    if compacted > after and not states:
                        yield self._gap_note(frames), after + 1
                        compacted = 0
                    yield frames, record.number
        except OSError as exc:
            log(f"a client misses messages: the journal cannot be read: {exc.strerror}")

    def _gap_note(self, following: list[bytes]) -> list[bytes]:
        """An output that says that something is missing before this message."""
        at = following.index(DELIMITER) + 2
        header = {**json_object(following[at]), "msg_id": os.urandom(16).hex(), "msg_type": "stream"}
        content = {
            "name": "stderr",
            "text": text("Output is missing here: this client did not read it in time.") + "\n",
        }
        parts = [json.dumps(header).encode(), following[at + 1], b"{}", json.dumps(content).encode()]
        return [b"", DELIMITER, self._sign(parts), *parts]


def _is_state(frames: Sequence[bytes]) -> bool:
    return any(b'"status"' in frame for frame in frames[2:4])  # in the header, which follows the signature


def _size(frames: Sequence[bytes]) -> int:
    return sum(map(len, frames)) + _OVERHEAD_BYTES


def _connection_of(message: zmq.Frame) -> tuple[int, int] | None:
    """The connection that a subscription came from; None if it has been closed."""
    try:
        descriptor = int(message.get(zmq.SRCFD))
        return descriptor, os.fstat(descriptor).st_ino
    except (zmq.ZMQError, OSError):
        return None


def _is_open(connection: tuple[int, int]) -> bool:
    descriptor, inode = connection
    try:
        return os.fstat(descriptor).st_ino == inode
    except OSError:
        return False

"""The connection to a supervisor on a node: every record above a position in order, messages to the kernel, and commands.

The line may be cut at any time. ZeroMQ connects again; what was missed is fetched from the journal on the node, and messages of which
nothing was heard are sent again, which the supervisor notices by their ids.
"""

from __future__ import annotations

import itertools
import json
import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import zmq

from ownlab.errors import LabError
from ownlab.lab.journal.records import Record, json_object
from ownlab.lab.transport.control import NotAnswering
from ownlab.lab.transport.endpoints import Endpoint
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
    RECORD,
    SEND,
    STORED,
    unpack,
)
from ownlab.lab.transport.journal_server import ClientMessage, send_frames
from ownlab.text import pack_texts, text, unpack_texts

__all__ = ["Listener", "NodeLine"]

# Seconds between requests to be sent what is new, which also show that the node is there; it grows while nothing is heard.
_FOLLOW, _MOST_FOLLOW = 3.0, 30.0
# Seconds after which a message or a fetch of which nothing was heard is sent again.
_AGAIN = 5.0
# Milliseconds: a connection over which nothing comes back is given up and made again.
_HEARTBEAT, _HEARTBEAT_TIMEOUT = 5_000, 20_000
_RETRY, _MAX_RETRY = 100, 5_000
# Messages handled before the relay looks at its other sockets.
_MAX_MESSAGES = 256
# Commands whose answers are handled when they come; those of older ones were lost.
_MOST_POSTED = 16


class Listener(NamedTuple):
    """What is called with what the node sends."""

    position: Callable[[], int]  # the number of the last record that is here
    record: Callable[[Record], None]  # the next one
    flush: Callable[[], None]  # after some records
    duplicate: Callable[[ClientMessage], None]  # the node does not forward this message (again)
    has_pages: Callable[[], bool]  # whether somebody looks at the notebook here


class _Sent(NamedTuple):
    message: ClientMessage
    at: float


class NodeLine:
    """Connected from its creation to `close`. The caller polls `socket`, and calls `receive` and `check`."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: Endpoint, listener: Listener) -> None:
        self.hello: dict[str, Any] | None = None  # the last one
        self.heard_at = 0.0  # when the node said something
        self.socket = context.socket(zmq.DEALER)
        self.socket.sndhwm = self.socket.rcvhwm = 0
        self.socket.linger = 0
        self.socket.reconnect_ivl, self.socket.reconnect_ivl_max = _RETRY, _MAX_RETRY
        self.socket.heartbeat_ivl, self.socket.heartbeat_timeout = _HEARTBEAT, _HEARTBEAT_TIMEOUT
        endpoint.connect(self.socket)
        self._listener = listener
        self._unconfirmed: dict[str, _Sent] = {}  # by message id, in order
        self._series, self._last = b"", 0  # of messages in order: its name, and the number of the last one
        self._answers: dict[bytes, dict[str, Any]] = {}
        self._waits_for = b""  # the answer to this command; later ones are dropped
        self._handlers: dict[bytes, Callable[[dict[str, Any]], None]] = {}  # of answers that nobody waits for
        self._numbers = itertools.count(1)
        self._received_bytes = self._acknowledged_bytes = 0
        self._fetching: tuple[int, float] | None = None  # after which number, since when
        self._stuck_at = -1  # nothing more can be fetched here: a gap in the journal of the node
        self._pause = _FOLLOW
        self._follow(time.monotonic())

    def send(self, message: ClientMessage) -> None:
        """Send a client's message to the kernel, after all earlier ones."""
        if message.name in self._unconfirmed:
            return
        self._unconfirmed[message.name] = sent = _Sent(message, time.monotonic())
        if self.hello is not None:  # until then it is not known how this node takes messages
            self._transmit(sent)

    def command(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a command and return the answer, without {"ok"}. What else arrives meanwhile is handled."""
        self._waits_for = number = b"%d" % next(self._numbers)
        send_frames(self.socket, [COMMAND, number, json.dumps(pack_texts(request)).encode()])
        deadline = time.monotonic() + seconds
        while number not in self._answers:
            left = deadline - time.monotonic()
            if left <= 0 or not self.socket.poll(int(left * 1000) + 1):
                raise NotAnswering(
                    text("The node does not answer."), hint=text("The network may be cut; its job goes on.")
                )
            self.receive()
        answer = self._answers.pop(number)
        if not answer.get("ok"):
            raise LabError(str(answer.get("error") or text("it gave no reason")))
        return {key: value for key, value in answer.items() if key != "ok"}

    def post(self, request: dict[str, Any], handle: Callable[[dict[str, Any]], None]) -> None:
        """Send a command without waiting. Its answer is handled when it comes; it may be lost."""
        number = b"%d" % next(self._numbers)
        self._handlers[number] = handle
        if len(self._handlers) > _MOST_POSTED:
            del self._handlers[next(iter(self._handlers))]
        send_frames(self.socket, [COMMAND, number, json.dumps(pack_texts(request)).encode()])

    def receive(self) -> None:
        """Handle what has arrived, up to a limit."""
        try:
            self._receive()
        finally:
            self._listener.flush()

    def _receive(self) -> None:
        for _ in range(_MAX_MESSAGES):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self.heard_at, self._pause = time.monotonic(), _FOLLOW
            kind = frames[0]
            if kind in (RECORD, STORED):
                self._take(unpack(frames), fetched=kind == STORED)
                self._acknowledge(sum(map(len, frames)) if kind == RECORD else 0)
            elif kind == HELLO:
                self._greeted(json_object(frames[1]))
            elif kind == FETCHED:
                self._fetched(int(frames[1]), more=frames[2] == b"more")
            elif kind == DUPLICATE:
                sent = self._unconfirmed.pop(frames[1].decode(), None)
                if sent is not None:
                    self._listener.duplicate(sent.message)
            elif kind == DROPPED:
                self._follow(time.monotonic())
            elif kind == ANSWER:
                answer, handle = unpack_texts(json_object(frames[2])), self._handlers.pop(frames[1], None)
                if handle is not None:
                    handle(answer)
                elif frames[1] == self._waits_for:
                    self._answers[frames[1]] = answer

    def due(self) -> float:
        """When `check` must be called."""
        return self._follow_at

    def check(self, now: float) -> None:
        """Do what is due."""
        if now >= self._follow_at:
            self._pause = min(2 * self._pause, _MOST_FOLLOW) if now - self.heard_at > _AGAIN else _FOLLOW
            self._follow(now)

    def catch_up(self) -> None:
        """Ask for everything that is missing, now."""
        self._follow(time.monotonic())

    def close(self) -> None:
        """Leave."""
        self.socket.linger = 100
        send_frames(self.socket, [BYE])
        self.socket.close()

    def _follow(self, now: float) -> None:
        self._follow_at = now + self._pause
        self._received_bytes = self._acknowledged_bytes = 0
        request = {"acknowledges": True, "page": self._listener.has_pages()}
        send_frames(self.socket, [FOLLOW, json.dumps(request).encode()])

    def _greeted(self, hello: dict[str, Any]) -> None:
        now = time.monotonic()
        is_first, self.hello = self.hello is None, hello
        if int(hello.get("position") or 0) > self._listener.position():
            self._fetch(now)
        oldest = next(iter(self._unconfirmed.values()), None)
        if is_first or (oldest is not None and now - oldest.at > _AGAIN):
            self._series, self._last = (
                secrets.token_hex(8).encode(),
                0,
            )  # some numbers of the last one were never sent, or lost
            for name, sent in list(self._unconfirmed.items()):
                self._unconfirmed[name] = again = sent._replace(at=now)
                self._transmit(again)

    def _take(self, record: Record, *, fetched: bool) -> None:
        """Take a record if it is the next one. Those that are sent while earlier ones are fetched come again."""
        position = self._listener.position()
        if record.number <= position:
            return
        if not fetched and record.number != position + 1 and self._stuck_at != position:
            self._fetch(time.monotonic())
            return
        if record.to_kernel:
            self._unconfirmed.pop(str(json_object(record.parts[0]).get("msg_id", "")), None)
        self._listener.record(record)

    def _fetch(self, now: float) -> None:
        if self._fetching is None or now - self._fetching[1] > _AGAIN:
            position = self._listener.position()
            self._fetching = position, now
            send_frames(self.socket, [FETCH, b"%d" % position])

    def _fetched(self, last: int, *, more: bool) -> None:
        begun, self._fetching = self._fetching, None
        position = self._listener.position()
        if more:
            self._fetch(time.monotonic())
        elif begun is not None and begun[0] == position:
            self._stuck_at = max(position, last)

    def _acknowledge(self, size: int) -> None:
        self._received_bytes += size
        if self._received_bytes - self._acknowledged_bytes >= ACK_BYTES:
            self._acknowledged_bytes = self._received_bytes
            send_frames(self.socket, [ACK, b"%d" % self._received_bytes])

    def _transmit(self, sent: _Sent) -> None:
        message = [sent.message.channel.encode(), *sent.message.parts]
        if self.hello is not None and self.hello.get("ordered"):
            self._last += 1
            send_frames(self.socket, [ORDERED, self._series, b"%d" % self._last, *message])
        else:  # a node of an older version
            send_frames(self.socket, [SEND, *message])

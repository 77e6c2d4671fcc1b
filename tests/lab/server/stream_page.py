"""A page that streams its runtime: it knows its position, resends unacknowledged messages, and reconnects."""

from __future__ import annotations

import json
import os
import struct
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import websocket

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

PROTOCOL = "v1.kernel.websocket.jupyter.org"
PATIENCE = 180.0


class Received(NamedTuple):
    """A message with its number, or a text frame (then `channel` is "text")."""

    number: int
    channel: str
    header: dict[str, Any]
    parent: dict[str, Any]
    content: dict[str, Any]
    buffers: list[bytes]
    metadata: dict[str, Any] = {}  # noqa: RUF012  # nobody changes it

    @property
    def kind(self) -> str:
        return str(self.content["type"] if self.channel == "text" else self.header["msg_type"])


class StreamPage:
    """One page. `received` has the messages of all its connections."""

    def __init__(self, url: str, token: str, after: int | str = 0) -> None:
        self.session = uuid.uuid4().hex
        self.position: int | str = after  # of the last message received; before the first, the initial position
        self.received: list[Received] = []
        self.unacknowledged: dict[str, bytes] = {}
        self.reconnects = False  # when the server ends the connection
        self._url, self._token = url, token
        self._socket: websocket.WebSocket | None = None
        self.open()

    # -- its websocket

    def open(self) -> None:
        """Connect or reconnect, and resend unacknowledged messages."""
        self._socket = websocket.create_connection(
            f"{self._url}?session_id={self.session}&ownlab_after={self.position}",
            header=[f"Authorization: token {self._token}"],
            subprotocols=[PROTOCOL],
            timeout=PATIENCE,
        )
        for data in self.unacknowledged.values():
            self._socket.send_binary(data)

    def drop(self) -> None:
        """Cut the connection: messages in transit are lost."""
        if self._socket is not None:
            self._socket.shutdown()  # type: ignore[no-untyped-call]
            self._socket = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self.drop()

    # -- sending

    def send(
        self, kind: str, content: dict[str, Any], *, channel: str = "shell", parent: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None, msg_id: str = "",
    ) -> str:  # fmt: skip
        """Send a message and return its id."""
        msg_id = msg_id or uuid.uuid4().hex
        header = {"msg_id": msg_id, "msg_type": kind, "session": self.session, "username": "", "date": "",
                  "version": "5.3"}  # fmt: skip
        data = framed(channel, [json.dumps(part).encode() for part in (header, parent or {}, metadata or {}, content)])
        self.unacknowledged[msg_id] = data
        if self._socket is not None:
            self._socket.send_binary(data)
        return msg_id

    def execute(self, code: str, *, allow_stdin: bool = False, cell: str = "") -> str:
        """Send a cell."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {},
                   "allow_stdin": allow_stdin, "stop_on_error": True}  # fmt: skip
        return self.send("execute_request", content, metadata={"cellId": cell} if cell else {})

    def answer(self, question: Received, value: str) -> str:
        """Answer an input request."""
        return self.send("input_reply", {"value": value, "status": "ok"}, channel="stdin", parent=question.header)

    # -- receiving

    def next(self) -> Received:
        """Receive the next message."""
        assert self._socket is not None
        data = self._socket.recv()
        while self.reconnects and not data:
            self.close()
            self.open()
            data = self._socket.recv()
        message = _text(data) if isinstance(data, str) else _message(data)
        self.received.append(message)
        if message.kind == "taken" and message.channel == "text":
            self.unacknowledged.pop(message.content["msg_id"], None)
        if message.number:
            self.position = message.number
        return message

    def until(self, condition: Callable[[Received], bool], what: str = "") -> Received:
        """Receive until a message matches, and return it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if condition(message := self.next()):
                return message
        pytest.fail(f"never heard: {what}")

    def until_kind(self, *kinds: str) -> Received:
        return self.until(lambda message: message.kind in kinds, " or ".join(kinds))

    def until_idle(self, request: str) -> Received:
        """Receive until a cell has ended."""
        return self.until(
            lambda message: is_status(message, "idle") and message.parent.get("msg_id") == request, "idle"
        )

    def run(self, code: str) -> str:
        """Run a cell and return what it prints."""
        request = self.execute(code)
        self.until_idle(request)
        return self.printed(request)

    def printed(self, request: str = "") -> str:
        """Return everything printed, by one cell or by all."""
        return "".join(
            message.content["text"]
            for message in self.received
            if message.channel == "iopub" and message.kind == "stream" and request in ("", message.parent.get("msg_id"))
        )

    def numbers(self) -> list[int]:
        return [message.number for message in self.received if message.number]

    def kinds(self) -> list[str]:
        return [message.kind for message in self.received]


def is_status(message: Received, state: str) -> bool:
    return message.channel == "iopub" and message.kind == "status" and message.content["execution_state"] == state


def framed(channel: str, parts: Sequence[bytes]) -> bytes:
    """Frame a message as JupyterLab's serialize.js does."""
    places = [8 * (len(parts) + 3)]
    for piece in (channel.encode(), *parts):
        places.append(places[-1] + len(piece))
    return struct.pack(f"<{len(places) + 1}Q", len(places), *places) + channel.encode() + b"".join(parts)


def _message(data: bytes) -> Received:
    (number,) = struct.unpack_from("<Q", data)
    data = data[8:]
    (count,) = struct.unpack_from("<Q", data)
    places = struct.unpack_from(f"<{count}Q", data, 8)
    channel, *parts = (data[start:end] for start, end in pairwise(places))
    header, parent, metadata, content = map(json.loads, parts[:4])
    return Received(number, channel.decode(), header, parent, content, parts[4:], metadata)


def _text(data: str) -> Received:
    return Received(0, "text", {}, {}, json.loads(data), [])


Open = Callable[..., StreamPage]


@pytest.fixture
def pages() -> Iterator[list[StreamPage]]:
    opened: list[StreamPage] = []
    yield opened
    for page in opened:
        page.close()


@pytest.fixture
def follow(pages: list[StreamPage]) -> Callable[..., StreamPage]:
    """Open a page at a kernel of a lab."""

    def open_page(lab: LabServer, kernel: str, after: int | str = 0) -> StreamPage:
        url = f"ws://127.0.0.1:{lab.port}/api/kernels/{kernel}/channels"
        pages.append(StreamPage(url, lab.token, after))
        return pages[-1]

    return open_page


@pytest.fixture
def kernel(lab: LabServer) -> Iterator[str]:
    session = lab.session(f"{os.urandom(4).hex()}.ipynb")
    yield session["kernel"]["id"]
    lab.client.delete(f"{lab.url}/api/sessions/{session['id']}")

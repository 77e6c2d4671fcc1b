"""The connection between a relay and the supervisor on a node, over TCP with keys, and what happens when it is cut."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zmq

from ownlab.errors import LabError
from ownlab.lab.journal.records import Record
from ownlab.lab.journal.writer import JournalWriter
from ownlab.lab.relay.node_line import Listener, NodeLine
from ownlab.lab.transport.bindings import Bindings
from ownlab.lab.transport.control import NotAnswering
from ownlab.lab.transport.endpoints import Endpoint
from ownlab.lab.transport.journal_protocol import FOLLOW, ORDERED
from ownlab.lab.transport.journal_server import ClientMessage, JournalServer

PATIENCE = 90.0
PARTS = (b'{"msg_id": "a"}', b"{}", b"{}", b'{"text": "x"}')


def record(number: int, part: bytes = b"") -> Record:
    return Record(number, "iopub", False, 1.0, (*PARTS, part) if part else PARTS)


class Node:
    """A journal server behind the gate, as a supervisor in a job has it. It is served by `turn`, in the thread of the test."""

    def __init__(self, folder: Path, backlog: int = 32 << 20) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        public, secret = (key.decode() for key in zmq.curve_keypair())
        self.bindings, self.writer = Bindings(self.context), JournalWriter(str(folder / "journal"))
        socket_ = self.context.socket(zmq.ROUTER)
        socket_.sndhwm = socket_.rcvhwm = 0
        self.server = JournalServer(socket_, backlog, folder=str(folder / "journal"), answer=self._answer)
        self.endpoint = self.bindings.bind(socket_, Endpoint("tcp://127.0.0.1:0", public, secret), str(folder / "line"))
        self.bindings.start()
        self.position = 0
        self.sent: list[ClientMessage] = []

    def write(self, *records: Record) -> None:
        """Write records, then publish them, as a supervisor does."""
        self.writer.write(records)
        self.position = records[-1].number
        self.server.publish(records)

    def turn(self) -> None:
        """Handle what has arrived."""
        assert self.bindings.authenticator is not None
        for each, serve in (
            (self.bindings.authenticator, self.bindings.authenticate),
            (self.server.socket, self._serve),
        ):
            while each.poll(5):
                serve()

    def _serve(self) -> None:
        message = self.server.receive(self.server.socket.recv_multipart(), lambda: {"position": self.position})
        if message is not None:
            self.sent.append(message)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        return (
            {"ok": True, "heard": request["do"]} if request["do"] != "odd" else {"ok": False, "error": "no such thing"}
        )

    def close(self) -> None:
        self.server.socket.close(0)
        self.bindings.close()
        self.context.term()
        self.bindings.drain()


class Cable:
    """A TCP port in front of another one. Cut, it drops its connections and takes no new ones."""

    def __init__(self, port: int) -> None:
        self._to, self._open = port, True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        self._open = False
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._open = True

    def close(self) -> None:
        self.cut()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends `accept`
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was shut down
            while True:
                client, _ = self._listener.accept()
                if not self._open:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._to))
                self._ends += [client, server]
                for ends in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=_pump, args=ends))
                    self._threads[-1].start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Relay:
    """What a relay does with its line: it keeps the records in order."""

    def __init__(self, endpoint: Endpoint, have: int = 0) -> None:
        self.records: list[Record] = []
        self.duplicates: list[str] = []
        self._have = have
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.line = NodeLine(
            self.context,
            endpoint,
            Listener(
                position=lambda: self.records[-1].number if self.records else self._have,
                record=self.records.append,
                flush=lambda: None,
                duplicate=lambda message: self.duplicates.append(message.name),
                has_pages=lambda: False,
            ),
        )

    def numbers(self) -> list[int]:
        return [each.number for each in self.records]

    def close(self) -> None:
        self.line.close()
        self.context.term()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.close()


@pytest.fixture
def relays() -> Iterator[Callable[..., Relay]]:
    made: list[Relay] = []

    def make(endpoint: Endpoint, have: int = 0) -> Relay:
        made.append(Relay(endpoint, have))
        return made[-1]

    yield make
    for relay in made:
        relay.close()


def run_until(node: Node, relay: Relay, condition: Callable[[], Any]) -> None:
    """Serve both ends until the condition is met."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, relay.numbers()
        node.turn()
        relay.line.check(time.monotonic())
        if relay.line.socket.poll(5):
            relay.line.receive()


def message(name: str) -> ClientMessage:
    header = json.dumps({"msg_id": name}).encode()
    return ClientMessage(b"page", name, "shell", [header, b"{}", b"{}", b"{}"])


def test_what_was_written_before_is_fetched_and_what_is_new_follows(node: Node, relays: Callable[..., Relay]) -> None:
    node.write(*(record(number) for number in range(1, 11)))
    relay = relays(node.endpoint, 4)
    run_until(node, relay, lambda: relay.numbers() == [5, 6, 7, 8, 9, 10])
    node.write(record(11), record(12))
    run_until(node, relay, lambda: relay.numbers()[-1] == 12)
    assert relay.numbers() == list(range(5, 13))
    assert relay.records[-1] == record(12)


def test_a_long_backlog_comes_in_pieces_and_in_order(node: Node, relays: Callable[..., Relay]) -> None:
    large = bytes(1 << 20)
    for number in range(1, 21):
        node.write(record(number, large))
    relay = relays(node.endpoint)
    run_until(node, relay, lambda: relay.records)
    node.write(record(21))  # while earlier ones are still to be fetched
    run_until(node, relay, lambda: relay.numbers()[-1:] == [21])
    assert relay.numbers() == list(range(1, 22))


def test_nothing_is_missing_or_doubled_after_a_cut(node: Node, relays: Callable[..., Relay]) -> None:
    host, port = node.endpoint.address
    cable = Cable(port)
    relay = relays(node.endpoint._replace(url=f"tcp://{host}:{cable.port}"))
    try:
        node.write(record(1))
        run_until(node, relay, lambda: relay.numbers() == [1])
        cable.cut()
        node.write(record(2), record(3))
        relay.line.send(message("sent while it was cut"))
        cable.mend()
        node.write(record(4))
        run_until(node, relay, lambda: relay.numbers()[-1] == 4 and node.sent)
    finally:
        cable.close()
    assert relay.numbers() == [1, 2, 3, 4]
    assert [each.name for each in node.sent] == ["sent while it was cut"]


def test_a_message_is_forwarded_once_and_the_sender_learns_of_it(node: Node, relays: Callable[..., Relay]) -> None:
    relay = relays(node.endpoint)
    relay.line.send(message("once"))
    relay.line.send(message("once"))
    run_until(node, relay, lambda: relay.duplicates)
    assert (relay.duplicates, [each.name for each in node.sent]) == (["once"], ["once"])


def test_a_message_is_not_taken_before_one_that_was_lost(node: Node) -> None:
    """A connection that breaks loses the messages on their way; later ones, which waited, come over the next one."""

    def ordered(series: bytes, number: int, name: str) -> str:
        frames = [b"relay", ORDERED, series, b"%d" % number, b"shell", *message(name).parts]
        taken = node.server.receive(frames, lambda: {"position": 0})
        return taken.name if taken is not None else ""

    node.server.receive([b"relay", FOLLOW, b"{}"], lambda: {"position": 0})
    assert [ordered(b"a", 1, "first"), ordered(b"a", 3, "third"), ordered(b"a", 4, "fourth")] == ["first", "", ""]
    assert [ordered(b"b", number, name) for number, name in enumerate(("second", "third", "fourth"), 1)] == [
        "second", "third", "fourth",
    ]  # fmt: skip
    assert ordered(b"c", 1, "second") == "", "it was taken before"


def test_commands_are_answered_refused_or_time_out(node: Node, relays: Callable[..., Relay]) -> None:
    relay = relays(node.endpoint)
    run_until(node, relay, lambda: relay.line.hello)
    stopped = threading.Event()

    def serve() -> None:
        while not stopped.is_set():
            node.turn()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert relay.line.command({"do": "status"}, PATIENCE) == {"heard": "status"}
        with pytest.raises(LabError, match="no such thing"):
            relay.line.command({"do": "odd"}, PATIENCE)
    finally:
        stopped.set()
        thread.join()
    with pytest.raises(NotAnswering):
        relay.line.command({"do": "status"}, 0.1)


def test_a_stranger_gets_nothing(node: Node, relays: Callable[..., Relay]) -> None:
    node.write(record(1))
    public, secret = (key.decode() for key in zmq.curve_keypair())
    stranger: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    # It knows the address and the public key of the node, and has keys of its own.
    stranger.curve_serverkey = node.endpoint.public_key.encode()
    stranger.curve_publickey, stranger.curve_secretkey = public.encode(), secret.encode()
    refused = stranger.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
    stranger.connect(node.endpoint.url)
    stranger.send_multipart([b"follow", b"{}"])
    stranger.send_multipart([b"fetch", b"0"])
    stranger.send_multipart([b"command", b"1", b'{"do": "end"}'])
    relay = relays(node.endpoint)
    run_until(node, relay, lambda: relay.numbers() == [1] and refused.poll(0))
    assert not stranger.poll(0)
    stranger.disable_monitor()
    refused.close(0)
    stranger.close(0)


def test_odd_requests_are_ignored(node: Node, relays: Callable[..., Relay]) -> None:
    relay = relays(node.endpoint)
    for frames in ([b"fetch"], [b"fetch", b"x"], [b"fetch", b"9" * 30], [b"command"], [b"command", b"1"], [b"odd"]):
        relay.line.socket.send_multipart(frames)
    node.write(record(1))
    run_until(node, relay, lambda: relay.numbers() == [1])

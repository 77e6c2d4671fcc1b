"""The client of the journal socket, when the process at the other end is replaced by another one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import zmq
from tests.lab.transport.listening_relay import PATIENCE, Relay, message, record, until

from ownlab.lab.journal.records import Record
from ownlab.lab.transport.endpoints import unix_endpoint
from ownlab.lab.transport.journal_client import Hello, JournalClient, JournalMessage, Reconnected
from ownlab.lab.transport.journal_protocol import FOLLOW, SEND
from ownlab.lab.transport.journal_server import ClientMessage, JournalServer


def test_a_client_follows_the_process_that_replaces_another(tmp_path: Path) -> None:
    async def follow() -> list[JournalMessage]:
        heard: list[JournalMessage] = []
        first = Relay(tmp_path)
        client = JournalClient(unix_endpoint(str(tmp_path), "line"), heard.append)
        await until(lambda: heard, first)
        first.publish(1)
        await until(lambda: len(heard) == 2, first)
        first.kill()
        second = Relay(tmp_path, position=1)
        await until(lambda: len(heard) == 4, second)
        second.publish(2)
        await until(lambda: len(heard) == 5, second)
        client.close()
        second.kill()
        return heard

    heard = asyncio.run(follow())
    assert [type(each) for each in heard] == [Hello, Record, Reconnected, Hello, Record]
    assert heard[-1] == record(2)


def test_what_is_sent_to_a_replaced_process_does_not_overtake_what_it_has_lost(tmp_path: Path) -> None:
    """The client sends before it knows of the new connection; only what it sends after that is taken."""

    async def send() -> list[str]:
        heard: list[JournalMessage] = []
        first = Relay(tmp_path)
        client = JournalClient(unix_endpoint(str(tmp_path), "line"), heard.append)
        await until(lambda: heard, first)
        client.send("shell", message("lost"))
        await asyncio.to_thread(first.server.socket.poll, int(PATIENCE * 1000))  # it has arrived, and is never read
        first.kill()
        client.send("shell", message("too early"))
        second = Relay(tmp_path)
        await until(lambda: isinstance(heard[-1], Hello) and len(heard) == 3, second)
        for name in ("lost", "too early"):
            client.send("shell", message(name))
        await until(lambda: len(second.taken) == 2, second)
        client.close()
        second.kill()
        return second.taken

    assert asyncio.run(send()) == ["lost", "too early"]


def test_a_message_of_a_client_that_does_not_follow_is_not_taken() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    server = JournalServer(context.socket(zmq.ROUTER), 1 << 20)

    def receive(*frames: bytes) -> ClientMessage | None:
        return server.receive([b"page", *frames], lambda: {"position": 0})

    assert receive(SEND, b"shell", *message("early")) is None
    receive(FOLLOW, b"{}")
    taken = receive(SEND, b"shell", *message("early"))
    assert taken is not None
    assert taken.name == "early"
    server.socket.close(0)
    context.term()

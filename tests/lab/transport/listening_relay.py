"""What listens at the socket of a runtime, for tests of its clients."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq

from ownlab.lab.journal.records import Record
from ownlab.lab.transport.endpoints import unix_endpoint
from ownlab.lab.transport.journal_server import JournalServer

__all__ = ["PATIENCE", "Relay", "message", "record", "until"]

PATIENCE = 60.0


def record(number: int) -> Record:
    return Record(number, "iopub", False, 1.0, (b'{"msg_id": "a"}', b"{}", b"{}", b"{}"))


def message(name: str) -> list[bytes]:
    return [json.dumps({"msg_id": name}).encode(), b"{}", b"{}", b"{}"]


class Relay:
    """What listens at the socket of a runtime, until `kill`: what it has not read by then is lost."""

    def __init__(self, folder: Path, position: int = 0) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = self._context.socket(zmq.ROUTER)
        self.server = JournalServer(socket, 1 << 20)
        self.position = position
        self.taken: list[str] = []
        socket.bind(unix_endpoint(str(folder), "line").url)

    def turn(self) -> None:
        """Handle what has arrived."""
        while self.server.socket.poll(0):
            taken = self.server.receive(self.server.socket.recv_multipart(), self._hello)
            if taken is not None:
                self.taken.append(taken.name)

    def publish(self, number: int) -> None:
        self.position = number
        self.server.publish([record(number)])

    def kill(self) -> None:
        self.server.socket.close(0)
        self._context.term()

    def _hello(self) -> dict[str, Any]:
        state = {"busy": False, "execution_state": "idle", "kernel_info": None, "launch": 1, "kernel_session": "s"}
        return {"position": self.position, **state}


async def until(condition: Callable[[], Any], *relays: Relay) -> None:
    """Serve the relays until the condition is met."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        for relay in relays:
            relay.turn()
        await asyncio.sleep(0.005)

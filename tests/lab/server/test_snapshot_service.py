"""The snapshot stream: what it sends and when, and that no snapshots are taken while no page is visible."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import websocket

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

HIDDEN_SECONDS = 5.0


class Stream:
    def __init__(self, lab: LabServer) -> None:
        address = f"ws://127.0.0.1:{lab.port}/ownlab/api/stream"
        self.socket = websocket.create_connection(address, timeout=300, header=[f"Authorization: token {lab.token}"])

    def close(self) -> None:
        self.socket.close()
        self.socket.shutdown()  # type: ignore[no-untyped-call]  # where the server has closed it, `close` leaves our end open

    def next(self) -> dict[str, Any]:
        snapshot: dict[str, Any] = json.loads(self.socket.recv())
        return snapshot

    def show(self, visible: bool) -> None:
        self.socket.send(json.dumps({"visible": visible}))

    def rest(self) -> None:
        """Return the messages in transit."""
        self.socket.settimeout(1)
        with contextlib.suppress(websocket.WebSocketTimeoutException):
            while True:
                self.next()

    def until(self, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            snapshot = self.next()
            if condition(snapshot):
                return snapshot
        pytest.fail("it was never sent")


@pytest.fixture
def stream(lab: LabServer) -> Iterator[Stream]:
    opened = Stream(lab)
    yield opened
    opened.close()


def test_a_page_gets_a_snapshot_at_once_and_more_while_it_is_visible(stream: Stream) -> None:
    first = stream.next()
    assert len(first["cards"]) == 4
    stream.show(True)
    times = [stream.next()["at"] for _ in range(3)]
    assert sorted(times) == times
    assert times[-1] > first["at"]


def test_history_is_sent_once(stream: Stream) -> None:
    first = stream.next()
    stream.show(True)
    later = [stream.next() for _ in range(3)]
    times = [point["at"] for snapshot in (first, *later) for point in snapshot["history"]]
    assert len(times) == len(set(times))
    assert sum(len(snapshot["history"]) for snapshot in later) <= len(later)
    assert [len(point["cards"]) for snapshot in later for point in snapshot["history"]][-1:] == [4]


def test_a_change_is_sent_immediately(lab: LabServer, stream: Stream) -> None:
    stream.next()
    stream.show(True)
    kernel = lab.session("new.ipynb")["kernel"]["id"]
    stream.until(
        lambda snapshot: any(each["id"] == kernel and each["state"] == "running" for each in snapshot["runtimes"])
    )
    lab.page(kernel).execute("import time; time.sleep(600)")
    stream.until(lambda snapshot: any(each["id"] == kernel and each["busy"] for each in snapshot["runtimes"]))
    lab.client.delete(f"{lab.url}/api/kernels/{kernel}").raise_for_status()
    stream.until(lambda snapshot: all(each["id"] != kernel for each in snapshot["runtimes"]))


def test_no_snapshots_are_taken_while_no_page_is_visible(lab: LabServer, stream: Stream) -> None:
    """Every snapshot adds a point to the history: while the page is hidden, there is none."""
    stream.next()
    stream.show(True)
    stream.next()
    stream.show(False)
    lab.get("/api/status")  # answered after the message above was handled
    stream.rest()
    hidden = time.time()
    time.sleep(HIDDEN_SECONDS)  # the time under test
    shown = time.time()
    stream.socket.settimeout(30)
    stream.show(True)
    stream.until(lambda snapshot: snapshot["at"] >= shown)
    history = lab.get("/ownlab/api/snapshot").json()["history"]
    assert [point["at"] for point in history if hidden < point["at"] < shown] == []
    assert [point for point in history if point["at"] <= hidden]


def test_an_invalid_message_closes_the_stream(stream: Stream) -> None:
    stream.next()
    stream.socket.send('{"visible": "perhaps"}')
    code, _ = stream.socket.recv_data()
    assert code == websocket.ABNF.OPCODE_CLOSE


def test_two_pages_share_one_snapshot(lab: LabServer, stream: Stream) -> None:
    other = Stream(lab)
    try:
        for each in (stream, other):
            each.next()
            each.show(True)
        seen = {stream.next()["at"] for _ in range(4)}
        assert seen & {other.next()["at"] for _ in range(4)}
    finally:
        other.close()

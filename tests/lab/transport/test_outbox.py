"""Messages that wait for a node, on disk."""

from __future__ import annotations

import json
from pathlib import Path

from ownlab.lab.transport.journal_server import ClientMessage
from ownlab.lab.transport.outbox import OUTBOX_FILE, Outbox, read_outbox


def cell(name: str) -> ClientMessage:
    header = {"msg_id": name, "msg_type": "execute_request"}
    parts = [json.dumps(part).encode() for part in (header, {}, {"cellId": f"cell-{name}"}, {"code": name})]
    return ClientMessage(b"page", name, "shell", parts)


def names(messages: list[ClientMessage]) -> list[str]:
    return [message.name for message in messages]


def test_another_relay_finds_what_was_left_in_order(tmp_path: Path) -> None:
    first = Outbox(str(tmp_path))
    assert [first.add(cell(name)) for name in ("a", "b", "c", "b")] == [True, True, True, False]
    first.remove("a")
    assert names(Outbox(str(tmp_path)).load({"a"})) == ["b", "c"]
    assert [request["metadata"]["cellId"] for request in read_outbox(str(tmp_path))] == ["cell-a", "cell-b", "cell-c"]


def test_a_line_that_was_not_finished_costs_no_other(tmp_path: Path) -> None:
    Outbox(str(tmp_path)).add(cell("a"))
    with (tmp_path / OUTBOX_FILE).open("ab") as file:
        file.write(b'{"channel": "shell", "par')
    second = Outbox(str(tmp_path))
    assert names(second.load(())) == ["a"]
    second.add(cell("b"))
    assert names(Outbox(str(tmp_path)).load(())) == ["a", "b"]


def test_it_is_emptied_when_all_are_recorded(tmp_path: Path) -> None:
    first = Outbox(str(tmp_path))
    first.add(cell("a"))
    first.add(cell("b"))
    first.remove("a")
    assert (tmp_path / OUTBOX_FILE).stat().st_size
    first.remove("b")
    assert not (tmp_path / OUTBOX_FILE).stat().st_size
    first.add(cell("c"))  # and its relay is killed, after the node has taken it
    assert Outbox(str(tmp_path)).load({"c"}) == []
    assert not (tmp_path / OUTBOX_FILE).stat().st_size


def test_without_a_file_nothing_waits(tmp_path: Path) -> None:
    assert Outbox(str(tmp_path)).load(()) == []
    assert read_outbox(str(tmp_path)) == []

"""Replays for a page and for compaction. test_jupyterlab.py tests whether a page then shows the same."""

from __future__ import annotations

import random
from typing import Any

from tests.lab.journal.scene import Scene, fold_of, random_scene

from ownlab.lab.journal.records import decode, encode
from ownlab.lab.journal.replay import compacted_records, replay
from ownlab.lab.journal.state import JournalState


def everything(fold: JournalState) -> dict[str, Any]:
    """Return everything that a journal state can be asked for."""
    state: dict[str, Any] = {"comms": fold.comms.states(), "info": fold.comms.info(), "hooks": fold.comms.capturing()}
    for name in ("position", "launch", "kernel_session", "ended", "changed_at"):
        state[name] = getattr(fold, name)
    state["cells"] = {cell: execution.msg_id for cell, execution in fold.by_cell.items()}
    for request, execution in fold.executions.items():
        kept = {name: value for name, value in vars(execution).items() if name != "outputs"}
        state[request] = {**kept, "request": list(execution.request), "outputs": execution.outputs.dump()}
        state[f"{request} again"] = replay(fold, execution)
    return state


def test_a_state_from_compacted_records_is_the_same_and_continues_the_same() -> None:
    for seed in range(60):
        scene = random_scene(seed, 120, widgets=True)
        moment = random.Random(seed).randint(1, len(scene.records))
        fold = fold_of(scene.records[:moment])
        data = b"".join(encode(compacted_records(fold)))
        again, place = JournalState(), 0
        while place < len(data):
            record, place = decode(data, place)
            again.add(record)
        assert everything(again) == everything(fold), f"seed {seed}"
        for record in scene.records[moment:]:
            fold.add(record)
            again.add(record)
        assert everything(again) == everything(fold), f"seed {seed}"


def test_the_records_of_a_compacted_journal_are_in_order() -> None:
    for seed in range(20):
        fold = fold_of(random_scene(seed, 80).records)
        numbers = [record.number for record in compacted_records(fold)]
        assert numbers == sorted(numbers)
        assert numbers[-1] == fold.position


def test_a_running_cell_is_replayed_with_its_input_request_last() -> None:
    scene = Scene()
    request = scene.execute("a")
    scene.begin(request)
    scene.stream(request, "50%\r1")
    scene.display(request, "shown", "id")
    scene.add_message("clear_output", request, {"wait": True})
    question = scene.ask(request, "name:")
    fold = fold_of(scene.records)
    reported = replay(fold, fold.by_cell["a"])
    assert [(message.channel, message.header["msg_type"], message.content) for message in reported] == [
        ("iopub", "status", {"execution_state": "busy"}),
        ("iopub", "execute_input", {"code": "x", "execution_count": 3}),
        ("iopub", "stream", {"name": "stdout", "text": "10%\r1"}),
        ("iopub", "display_data", {"data": {"text/plain": "shown"}, "metadata": {}, "transient": {"display_id": "id"}}),
        ("iopub", "clear_output", {"wait": True}),
        ("stdin", "input_request", {"prompt": "name:", "password": False}),
    ]
    # The answer names the question by its id.
    assert reported[-1].header["msg_id"] == question
    assert {message.header["session"] for message in reported} == {"kernel-1"}
    assert {message.parent["msg_id"] for message in reported} == {request}
    assert len({message.header["msg_id"] for message in reported}) == len(reported)
    assert reported == replay(fold, fold.by_cell["a"])


def test_a_queued_cell_is_not_replayed_as_started() -> None:
    scene = Scene()
    scene.execute("a")
    fold = fold_of(scene.records)
    assert replay(fold, fold.by_cell["a"]) == []


def test_a_help_page_is_replayed_once_in_order() -> None:
    scene = Scene()
    request = scene.execute("a")
    scene.begin(request)
    payload = [{"source": "page", "data": {"text/plain": "help"}}, {"source": "set_next_input", "text": "y"}]
    scene.reply(request, payload=payload)
    scene.stream(request, "after")
    scene.idle(request)
    fold = fold_of(scene.records)
    reported = replay(fold, fold.by_cell["a"])
    kinds = [message.header["msg_type"] for message in reported]
    assert kinds == ["status", "execute_input", "display_data", "stream", "execute_reply", "status"]
    assert reported[4].content["payload"] == payload[1:]

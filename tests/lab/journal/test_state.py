"""The journal state: what a notebook shows, from made-up messages and from a real kernel's. The rest is compared with JupyterLab."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel
from tests.lab.journal.scene import Scene, fold_of, random_scene

from ownlab.lab.journal.death import Death
from ownlab.lab.journal.execution import Execution
from ownlab.lab.journal.records import Record
from ownlab.lab.journal.state import JournalState
from ownlab.text import Text, text


def newest(scene: Scene, cell: str = "a") -> Execution:
    return fold_of(scene.records).by_cell[cell]


def texts(execution: Execution) -> list[str]:
    outputs = [output for output in execution.outputs.as_json() if output["output_type"] != "error"]
    return [output.get("text") or output["data"]["text/plain"] for output in outputs]


def notes(fold: JournalState) -> dict[str, list[tuple[str, str]]]:
    """The errors of each cell."""
    return {
        cell: [(one["ename"], one["evalue"]) for one in execution.outputs.as_json() if one["output_type"] == "error"]
        for cell, execution in fold.by_cell.items()
    }


def test_an_execution_is_done_with_both_reply_and_idle_in_either_order() -> None:
    for order in ("reply idle", "idle reply"):
        scene = Scene()
        request = scene.execute("a")
        assert newest(scene).state == "queued"
        scene.begin(request)
        assert newest(scene).state == "running"
        first, second = order.split()
        getattr(scene, first)(request)
        assert (newest(scene).state, newest(scene).execution_count) == ("running", None)
        getattr(scene, second)(request)
        execution = newest(scene)
        assert execution.state == "done"
        assert execution.execution_count is not None
        # A page that has seen the first of the two has no count yet: it is owed one.
        assert execution.counted_at == len(scene.records)
        assert [execution.queued_at, execution.started_at, execution.ended_at] == [
            scene.records[number].at for number in (1, 2, 5)
        ]


def test_a_cell_executed_again_while_running_shows_only_the_second() -> None:
    scene = Scene()
    first = scene.execute("a")
    scene.begin(first)
    scene.stream(first, "first")
    second = scene.execute("a")
    scene.stream(first, "still first")
    assert texts(newest(scene)) == []
    assert [execution.msg_id for execution in fold_of(scene.records).running] == [first, second]
    scene.finish(first)
    scene.begin(second)
    scene.stream(second, "second")
    scene.finish(second)
    fold = fold_of(scene.records)
    assert texts(fold.by_cell["a"]) == ["second"]
    assert list(fold.executions) == [second]


def test_a_thread_prints_into_its_cell_after_the_end() -> None:
    scene = Scene()
    first = scene.execute("a")
    scene.finish(first)
    scene.finish(scene.execute("b"))
    scene.stream(first, "late")
    fold = fold_of(scene.records)
    assert texts(fold.by_cell["a"]) == ["late"]
    assert fold.by_cell["a"].outputs_at == fold.changed_at == len(scene.records)


def test_a_display_update_changes_the_cells_that_show_it() -> None:
    scene = Scene()
    first = scene.execute("a")
    scene.display(first, "0 %", "bar")
    scene.finish(first)
    second = scene.execute("b")
    scene.display(second, "100 %", "bar", "update_display_data")
    fold = fold_of(scene.records)
    assert texts(fold.by_cell["a"]) == ["100 %"]
    assert texts(fold.by_cell["b"]) == []
    assert fold.by_cell["a"].outputs_at == len(scene.records)


def test_a_restart_leaves_outputs_and_no_count() -> None:
    scene = Scene()
    running, queued = scene.execute("a"), scene.execute("b")
    scene.begin(running)
    scene.stream(running, "so far")
    scene.restart()
    scene.stream(running, "a thread of the old kernel")
    fold = fold_of(scene.records)
    assert [fold.executions[request].state for request in (running, queued)] == ["cut", "cut"]
    assert (texts(fold.by_cell["a"]), fold.by_cell["a"].execution_count) == (["so far"], None)
    assert fold.launch == 2
    assert fold.running == []


def test_requests_before_the_kernel_started_wait_for_it() -> None:
    scene = Scene()
    scene.event("kernel-ended", why="died")
    request = scene.execute("a")
    scene.event("kernel", launch=2)
    assert newest(scene).state == "queued"
    scene.begin(request)
    scene.stream(request, "ran")
    scene.finish(request)
    assert (newest(scene).state, texts(newest(scene))) == ("done", ["ran"])


def test_aborted_cells_are_empty_and_have_no_count() -> None:
    scene = Scene()
    request = scene.execute("a")
    scene.add_message("status", request, {"execution_state": "busy"})
    scene.reply(request, "aborted")
    scene.idle(request)
    assert (newest(scene).state, newest(scene).execution_count, texts(newest(scene))) == ("aborted", None, [])


def test_a_runtime_that_died_silently_leaves_notes_in_its_cells() -> None:
    scene = Scene()
    done, running, _queued = scene.execute("a"), scene.execute("b"), scene.execute("c")
    scene.finish(done)
    scene.begin(running)
    scene.stream(running, "half")
    fold = fold_of(scene.records)
    fold.cut(Death("machine"))
    fold.cut(Death("runtime"))
    assert texts(fold.by_cell["a"]) == []
    assert notes(fold) == {
        "a": [],
        "b": [("KernelDied", "The machine was restarted or switched off while the kernel ran.")],
        "c": [("NotRun", "not run: the kernel died")],
    }
    assert texts(fold.by_cell["b"])[0] == "half"
    # Newer than whatever a page can have saved, and the same each time.
    assert fold.by_cell["b"].outputs_at == fold.position == len(scene.records) + 1
    assert fold.ended == "The machine was restarted or switched off while the kernel ran."


def test_a_recorded_end_needs_no_note() -> None:
    scene = Scene()
    scene.begin(scene.execute("a"))
    scene.event("kernel-ended", why="stopped")
    scene.event("ended", why=text("stopped by {person}", person="hand"))
    fold = fold_of(scene.records)
    fold.cut(Death("runtime"))
    assert (fold.ended, fold.by_cell["a"].state, texts(fold.by_cell["a"])) == ("stopped by hand", "cut", [])
    assert isinstance(fold.ended, Text)
    assert fold.ended.template == "stopped by {person}"


def test_lost_records_are_noted_in_the_cell_that_ran() -> None:
    scene = Scene()
    request, following = scene.execute("a"), scene.execute("b")
    scene.begin(request)
    scene.stream(request, "before\n")
    scene.event("lost", count=7, bytes=7000, why="No space left on device")
    scene.stream(request, "after\n")
    assert texts(newest(scene)) == [
        "before\n",
        "[ownlab: The disk was full while this cell ran. 6.8 KiB of its output are missing here.]\n",
        "after\n",
    ]
    assert newest(scene).state == "running"
    # Its end may be among them: when the next cell runs, it is over.
    scene.begin(following)
    assert newest(scene).state == "cut"
    assert texts(newest(scene, "b")) == []


def test_input_replies_are_shown_as_in_jupyterlab() -> None:
    scene = Scene()
    request = scene.execute("a")
    scene.begin(request)
    question = scene.ask(request, "name:")
    assert newest(scene).pending_input is not None
    scene.answer("a", question, "Ada")
    scene.answer("a", question, "twice")
    assert newest(scene).pending_input is None
    scene.answer("a", scene.ask(request, "word:", password=True), "secret", password=True)
    assert texts(newest(scene)) == ["name: Ada\nword: ········\n"]
    scene.ask(request, "interrupted:")
    scene.finish(request)
    assert newest(scene).pending_input is None


def test_executions_without_a_cell_are_kept() -> None:
    scene = Scene()
    request = scene.execute(None)
    scene.stream(request, "console")
    fold = fold_of(scene.records)
    assert texts(fold.executions[request]) == ["console"]
    assert fold.by_cell == {}
    assert fold.changed_at == 0


def test_silent_code_does_not_change_the_cell() -> None:
    scene = Scene()
    request = scene.execute("a")
    scene.stream(request, "shown")
    content = {"code": "x", "silent": True}
    header = {"msg_id": "silent", "msg_type": "execute_request", "session": "page"}
    parts = tuple(json.dumps(part).encode() for part in (header, {}, {"cellId": "a"}, content))
    fold = fold_of([*scene.records, Record(9, "shell", True, 9.0, parts)])
    assert texts(fold.by_cell["a"]) == ["shown"]
    assert fold.executions["silent"].cell is None


def test_executions_of_other_programs_are_forgotten_eventually() -> None:
    scene = Scene()
    for _ in range(300):
        scene.finish(scene.execute(None))
    assert 200 <= len(fold_of(scene.records).executions) <= 201


@pytest.mark.parametrize(
    "part",
    [b"", b"no JSON", b"[]", b"null", b'{"text": NaN}', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000],
    ids=["nothing", "text", "list", "null", "nan", "bytes", "deep list", "deep object"],
)
def test_invalid_messages_do_not_break_the_state(part: bytes) -> None:
    scene = random_scene(1, 60, widgets=True)
    for place in range(4):
        fold = JournalState()
        for record in scene.records:
            fold.add(record)
            if record.channel != "event":
                fold.add(record._replace(parts=(*record.parts[:place], part, *record.parts[place + 1 :])))
        fold.add(Record(99, "iopub", False, 1.0, (part,)))
        fold.add(Record(100, "event", False, 1.0, (part,)))
        assert fold.position == 100


def test_lone_surrogates_are_replaced() -> None:
    scene = Scene()
    request = scene.execute("a")
    content = b'{"name": "stdout", "text": "half \\ud83d and \\ud83d\\ude00"}'
    scene.stream(request, "")
    record = scene.records.pop()
    scene.records.append(record._replace(parts=(*record.parts[:3], content)))
    assert texts(newest(scene)) == ["half \ufffd and 😀"]


CODE = """
import ipywidgets, threading, time
from IPython.display import clear_output, display
out = ipywidgets.Output()
display(out)
print("10%", end=""); print("\\r20%", flush=True)
with out:
    print("inside")
    display("shown inside")
print("outside", flush=True)
handle = display("first", display_id=True)
handle.update("second")
1 / 0
"""


def test_the_messages_of_a_real_kernel() -> None:
    fold = JournalState()
    manager, client = start_new_kernel()
    try:
        message = client.session.msg("execute_request", {"code": CODE, "silent": False, "allow_stdin": False})
        message["metadata"] = {"cellId": "a", "recordTiming": True}
        add(fold, "shell", True, message)
        client.shell_channel.send(message)
        deadline = time.monotonic() + 180
        while fold.running and time.monotonic() < deadline:
            for channel in ("iopub", "shell"):
                source = getattr(client, f"{channel}_channel")
                while source.msg_ready():
                    add(fold, channel, False, source.get_msg())
            time.sleep(0.01)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    execution = fold.by_cell["a"]
    assert (execution.state, execution.execution_count) == ("done", 1)
    view, first, shown, error = execution.outputs.as_json()
    assert "application/vnd.jupyter.widget-view+json" in view["data"]
    assert first["text"] == "20%\noutside\n"
    assert shown["data"]["text/plain"] == "'second'"
    assert error["ename"] == "ZeroDivisionError"
    (widget,) = (state for state in fold.comms.states()[0]["states"].values() if state["model_name"] == "OutputModel")
    assert [output["output_type"] for output in widget["state"]["outputs"]] == ["stream", "display_data"]
    assert set(execution.timing) == {
        "iopub.status.busy",
        "iopub.execute_input",
        "shell.execute_reply.started",
        "shell.execute_reply",
        "iopub.status.idle",
    }


def add(fold: JournalState, channel: str, to_kernel: bool, message: dict[str, Any]) -> None:
    """A message as a supervisor writes it down."""
    names = ("header", "parent_header", "metadata", "content")
    parts = tuple(json.dumps(message[name], default=lambda date: date.isoformat()).encode() for name in names)
    fold.add(Record(fold.position + 1, channel, to_kernel, time.time(), (*parts, *message.get("buffers", ()))))

"""Comms and widgets, reconstructed from messages. Which outputs a widget captures is compared with JupyterLab elsewhere."""

from __future__ import annotations

import json
from typing import Any

from tests.lab.journal.scene import Scene, fold_of

from ownlab.lab.journal.comms import Comms
from ownlab.lab.journal.records import Record

LIMIT = 1 << 20
SLIDER = {"_model_name": "IntSliderModel", "_model_module": "controls", "_model_module_version": "2.0.0", "value": 3}


def open_widget(comms: Comms, comm: str, state: dict[str, Any], *buffers: bytes, **data: Any) -> None:
    comms.open({"comm_id": comm, "target_name": "jupyter.widget", "data": {"state": state, **data}}, buffers)


def update(method: str, state: dict[str, Any], **data: Any) -> dict[str, Any]:
    return {"comm_id": "w", "data": {"method": method, "state": state, **data}}


def outputs_of(scene: Scene, widget: str = "w") -> str:
    state = fold_of(scene.records).comms.states()[0]["states"][widget]["state"]
    return "".join(output["text"] for output in state["outputs"])


def cell_of(scene: Scene, cell: str) -> str:
    return "".join(output["text"] for output in fold_of(scene.records).by_cell[cell].outputs.as_json())


def sent_by_page(scene: Scene, outputs: list[str], echo: bool = True) -> None:
    """A page tells the kernel what its Output widget shows, and the kernel tells it to everybody."""
    state = {"outputs": [{"output_type": "stream", "name": "stdout", "text": text} for text in outputs]}
    request = scene.call("w", {"method": "update", "state": state, "buffer_paths": []})
    if echo:
        scene.add_message("comm_msg", request, update("echo_update", state))


def test_the_newest_state_is_kept_from_either_side() -> None:
    comms = Comms(LIMIT)
    open_widget(comms, "w", SLIDER)
    comms.update(update("update", {"value": 4}), (), to_kernel=True)
    comms.update(update("echo_update", {"value": 5}), (), to_kernel=False)
    comms.update(update("custom", {"value": 6}), (), to_kernel=False)
    states = comms.states()[0]["states"]
    names = {"model_name": "IntSliderModel", "model_module": "controls", "model_module_version": "2.0.0"}
    assert states == {"w": {**names, "state": {**SLIDER, "value": 5}}}


def test_comms_are_listed_by_target_until_they_are_closed() -> None:
    comms = Comms(LIMIT)
    open_widget(comms, "w", SLIDER)
    comms.open({"comm_id": "c", "target_name": "jupyter.widget.control", "data": {}}, ())
    assert comms.info() == {"w": {"target_name": "jupyter.widget"}, "c": {"target_name": "jupyter.widget.control"}}
    assert list(comms.info("jupyter.widget")) == ["w"]
    assert list(comms.states()[0]["states"]) == ["w"]
    comms.close({"comm_id": "w"})
    assert list(comms.info()) == ["c"]


def test_buffers_are_inserted_and_removed_as_ipywidgets_does() -> None:
    comms = Comms(LIMIT)
    open_widget(
        comms, "w", {**SLIDER, "list": [1, None], "deep": {}}, b"one", b"two", buffer_paths=[["list", 1], ["x"]]
    )
    comms.update(
        update("update", {"deep": {}}, buffer_paths=[["deep", "y"], ["no", "such"]]), (b"3", b"4"), to_kernel=False
    )
    reported, buffers = comms.states()
    assert reported["states"]["w"]["state"] == {**SLIDER, "list": [1, None], "deep": {}}
    by_path = dict(zip(map(tuple, reported["buffer_paths"]), buffers, strict=True))
    assert by_path == {
        ("w", "state", "list", 1): b"one",
        ("w", "state", "deep", "y"): b"3",
        ("w", "state", "x"): b"two",
    }


def test_the_state_can_be_dumped_and_loaded() -> None:
    comms = Comms(LIMIT)
    open_widget(comms, "w", {**SLIDER, "list": [None]}, b"one", buffer_paths=[["list", 0]])
    output = {"_model_name": "OutputModel", "_model_module": "@jupyter-widgets/output", "msg_id": ""}
    open_widget(comms, "o", output)
    comms.begin("request")
    comms.update({"comm_id": "o", "data": {"method": "update", "state": {"msg_id": "request"}}}, (), to_kernel=False)
    comms.capture("request", "stream", {"name": "stdout", "text": "abc\r"}, 4)
    state, buffers = comms.dump()
    again = Comms(LIMIT)
    again.load(json.loads(json.dumps(state)), buffers)
    for registry in (comms, again):
        assert registry.capture("request", "stream", {"name": "stdout", "text": "X"}, 1)
    assert again.states() == comms.states()
    assert again.info() == comms.info()
    assert again.capturing() == {"o": "request"}


def test_an_output_widget_captures_outputs() -> None:
    scene = Scene()
    request = scene.execute("a")
    scene.widget("w", request)
    scene.stream(request, "cell ")
    scene.update("w", request, msg_id=request)
    scene.stream(request, "widget ")
    scene.update("w", request, msg_id="")
    scene.stream(request, "cell")
    assert (cell_of(scene, "a"), outputs_of(scene)) == ("cell cell", "widget ")


def test_late_updates_from_a_page_change_nothing() -> None:
    scene = Scene()
    request = scene.execute("a")
    scene.widget("w", request)
    scene.update("w", request, msg_id=request)
    scene.stream(request, "one\n")
    scene.stream(request, "two\n")
    # The page has seen the first line alone, and is closed before it can tell of the second.
    sent_by_page(scene, ["one\n"])
    assert outputs_of(scene) == "one\ntwo\n"
    scene.stream(request, "three\n")
    assert outputs_of(scene) == "one\ntwo\nthree\n"


def test_updates_by_the_kernel_itself_count() -> None:
    scene = Scene()
    request = scene.execute("a")
    scene.widget("w", request)
    scene.update("w", request, msg_id=request)
    scene.stream(request, "one\n")
    scene.update("w", request, outputs=[{"output_type": "stream", "name": "stdout", "text": "set\n"}])
    sent_by_page(scene, ["one\n"])
    assert outputs_of(scene) == "set\n"
    # The answer to request_state tells what the kernel has heard from pages.
    scene.update("w", request, outputs=[], _model_name="OutputModel", msg_id=request)
    assert outputs_of(scene) == "set\n"


def test_outputs_known_only_to_a_page_are_taken_from_it() -> None:
    scene = Scene()
    scene.widget("w", scene.execute("a"))
    sent_by_page(scene, ["from the page"], echo=False)
    assert outputs_of(scene) == "from the page"


def test_a_callback_prints_into_a_widget_while_its_request_lasts() -> None:
    scene = Scene()
    scene.widget("w", scene.execute("a"))
    click = scene.call("button", {"method": "custom", "content": {"event": "click"}})
    scene.add_message("status", click, {"execution_state": "busy"})
    scene.update("w", click, msg_id=click)
    scene.stream(click, "clicked")
    scene.update("w", click, msg_id="")
    scene.idle(click)
    scene.update("w", click, msg_id=click)
    scene.stream(click, "too late")
    assert (cell_of(scene, "a"), outputs_of(scene)) == ("", "clicked")


def test_comms_end_with_their_kernel() -> None:
    scene = Scene()
    scene.widget("w", scene.execute("a"))
    scene.restart()
    assert fold_of(scene.records).comms.info() == {}


def test_buffers_are_read_from_records() -> None:
    content = {"comm_id": "w", "target_name": "jupyter.widget", "data": {"state": SLIDER, "buffer_paths": [["x"]]}}
    header = {"msg_id": "m", "msg_type": "comm_open"}
    parts = tuple(json.dumps(part).encode() for part in (header, {}, {}, content))
    fold = fold_of([Record(1, "iopub", False, 1.0, (*parts, b"\x00\xff"))])
    assert fold.comms.states()[1] == [b"\x00\xff"]

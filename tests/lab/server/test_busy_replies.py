"""Replies in place of a busy kernel are those that it would send itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.server.stream_page import Open, Received, StreamPage, follow, is_status, kernel, pages

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

__all__ = ["follow", "kernel", "pages"]  # fixtures

WAIT = "import time\nwhile True: time.sleep(0.01)"


def ask(page: StreamPage, kind: str, content: dict[str, Any]) -> tuple[Received, list[Received]]:
    """Return the reply, and the other messages about this request."""
    request = page.send(kind, content)
    reply = page.until(
        lambda message: message.parent.get("msg_id") == request and message.channel == "shell", "a reply"
    )

    def is_over(message: Received) -> bool:
        return message.parent.get("msg_id") == request and is_status(message, "idle")

    if not any(map(is_over, page.received)):  # it may arrive before the reply
        page.until(is_over, "its idle")
    return reply, [
        message for message in page.received if message.parent.get("msg_id") == request and message is not reply
    ]


def keep_busy(page: StreamPage, code: str = WAIT) -> str:
    request = page.execute(code)
    page.until(lambda message: message.kind == "execute_input" and message.parent["msg_id"] == request, "it runs")
    return request


def test_the_info_of_a_busy_kernel_equals_its_own(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    own, _ = ask(page, "kernel_info_request", {})
    assert own.number > 0, "an idle kernel answers for itself"
    cell = keep_busy(page)
    reply, others = ask(page, "kernel_info_request", {})
    assert reply.number == 0
    assert reply.content == own.content
    assert reply.header["session"] == own.header["session"]
    assert set(reply.header) == set(own.header) - {"subshell_id"}
    assert [message.content["execution_state"] for message in others] == ["busy", "idle"], (
        "JupyterLab waits for this idle"
    )
    now = page.until(lambda message: message.kind == "status" and not message.parent, "what it really does")
    assert now.content["execution_state"] == "busy"
    assert page.unacknowledged == {} or page.until_kind("taken")
    lab.post(f"/api/kernels/{kernel}/interrupt")
    page.until_idle(cell)
    assert ask(page, "kernel_info_request", {})[0].number > 0


def test_a_page_that_was_sent_busy_is_sent_idle(lab: LabServer, kernel: str, follow: Open, tmp_path: Path) -> None:
    """JupyterLab ignores the busy and idle status of debug requests: our own busy must be followed by our own idle."""
    page = follow(lab, kernel)
    ask(page, "kernel_info_request", {})
    end = tmp_path / "end"
    keep_busy(page, f"import os, time\nwhile not os.path.exists({str(end)!r}): time.sleep(0.01)")
    ask(page, "kernel_info_request", {})
    page.until(lambda message: is_status(message, "busy") and not message.parent, "the server's own busy")
    end.touch()
    last = page.until(lambda message: is_status(message, "idle") and not message.parent, "the server's own idle")
    assert last.number == 0


def test_a_new_page_of_a_busy_kernel_is_sent_busy(lab: LabServer, kernel: str, follow: Open) -> None:
    first = follow(lab, kernel)
    ask(first, "kernel_info_request", {})
    keep_busy(first)
    late = follow(lab, kernel, after="now")
    assert late.next().kind == "hello"
    reply = late.next()
    assert is_status(reply, "busy")
    assert reply.header["session"] == first.received[-1].header["session"]
    assert ask(late, "kernel_info_request", {})[0].content["implementation"] == "ipython"


def test_widget_states_are_sent_while_a_cell_runs(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    page.run(
        "import ipywidgets as w\n"
        "bar = w.IntProgress(max=9)\n"
        "picture = w.Image(value=b'\\x89PNG', format='png')\n"
        "bar.value = 3"
    )
    own = states_of(page)
    keep_busy(page, f"bar.value = 7\n{WAIT}")
    page.until(
        lambda message: message.kind == "comm_msg" and message.content["data"].get("state") == {"value": 7}, "a step"
    )
    late = follow(lab, kernel, after="now")
    reply = states_of(late)
    states = reply.content["data"]["states"]
    bar = next(message for message in states.values() if message["model_name"] == "IntProgressModel")
    assert bar["state"]["value"] == 7
    assert bar["state"]["max"] == 9
    assert set(bar) == {"model_name", "model_module", "model_module_version", "state"}
    [path] = reply.content["data"]["buffer_paths"]
    assert states[path[0]]["model_name"] == "ImageModel"
    assert path[1:] == ["state", "value"]
    assert reply.buffers == [b"\x89PNG"]
    assert set(states) == set(own.content["data"]["states"])

    comms = ask(late, "comm_info_request", {"target_name": "jupyter.widget"})[0].content
    assert set(comms["comms"]) == set(states)
    assert comms["status"] == "ok"
    assert ask(late, "comm_info_request", {"target_name": "nobody"})[0].content["comms"] == {}


def states_of(page: StreamPage) -> Received:
    """Request the states as the manager of ipywidgets does when a page is opened."""
    comm = "control"
    page.send("comm_open", {"comm_id": comm, "target_name": "jupyter.widget.control", "data": {}})
    request = page.send("comm_msg", {"comm_id": comm, "data": {"method": "request_states"}})
    reply = page.until(
        lambda message: message.kind == "comm_msg" and message.parent.get("msg_id") == request, "their states"
    )
    assert reply.channel == "iopub"
    assert reply.content["comm_id"] == comm
    assert reply.content["data"]["method"] == "update_states"
    assert not [
        message for message in page.received if message.parent.get("msg_id") == request and message.channel == "shell"
    ]
    page.until(lambda message: message.kind == "taken" and message.content["msg_id"] == request, "it was taken")
    return reply

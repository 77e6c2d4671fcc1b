"""What counts as activity of a kernel."""

from __future__ import annotations

import json
import time

import pytest

from ownlab.lab.supervisor.message_inspector import DELIMITER, MessageInspector


def status(state: str, request: str, name: str = "1") -> list[bytes]:
    header, parent = {"msg_type": "status", "session": "s"}, {"msg_type": request, "msg_id": name}
    parts = [json.dumps(each).encode() for each in (header, parent, {}, {"execution_state": state})]
    return [b"topic", DELIMITER, b"", *parts]


def ask(inspector: MessageInspector, request: str) -> None:
    for state in ("busy", "idle"):
        inspector.inspect("iopub", "from_kernel", status(state, request))


@pytest.mark.parametrize("request_type", ["kernel_info_request", "comm_info_request", "debug_request"])
def test_what_a_page_asks_by_itself_does_not_end_the_idle_time(request_type: str) -> None:
    inspector = MessageInspector("")
    ask(inspector, "execute_request")
    before = inspector.idle_since, inspector.last_activity
    time.sleep(0.01)
    ask(inspector, request_type)
    assert (inspector.idle_since, inspector.last_activity) == before
    assert inspector.execution_state == "idle"
    ask(inspector, "execute_request")
    assert inspector.idle_since > before[0]


def test_a_question_of_the_page_does_not_end_a_cell() -> None:
    inspector = MessageInspector("")
    inspector.inspect("iopub", "from_kernel", status("busy", "execute_request", "cell"))
    ask(inspector, "debug_request")
    assert inspector.busy
    assert inspector.execution_state == "busy"

"""Replies in place of a busy kernel, to requests that would otherwise wait for the running cell to end.

These are kernel_info_request, comm_info_request, and requests for the state of widgets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ownlab.lab.journal.records import json_object
from ownlab.lab.server.kernel_activity import KernelState
from ownlab.lab.server.kernel_messages import KernelMessage, make_message, state_messages, status_message

if TYPE_CHECKING:
    from ownlab.lab.journal.comms import Comms
    from ownlab.lab.journal.state import JournalState
    from ownlab.lab.runtimes.journals import Journals

__all__ = ["WIDGETS_REQUEST", "Answer", "BusyReplies"]

# Sent by our own page to get the contents of Output widgets again. It is never forwarded to the kernel.
WIDGETS_REQUEST = "ownlab_widgets_request"


class Answer(NamedTuple):
    """The content of a reply, and the number of the last journal record it includes."""

    position: int
    content: bytes
    buffers: list[bytes]


class BusyReplies:
    """The replies for the pages of one runtime."""

    def __init__(self, runtime: str, journals: Journals) -> None:
        self._runtime, self._journals = runtime, journals

    def handles(self, parts: Sequence[bytes], state: KernelState) -> bool:
        """Return whether a page's request is answered here and not forwarded to the kernel."""
        kind = json_object(parts[0]).get("msg_type")
        if kind == "kernel_info_request":
            return state.busy and state.kernel_info is not None
        if kind == "comm_info_request":
            return state.busy
        if kind == WIDGETS_REQUEST:
            return True
        # Also if the kernel is idle: this does not wake it up, and it does not know the contents of Output widgets.
        return (
            kind == "comm_msg"
            and b"request_states" in parts[3]
            and json_object(parts[3]).get("data") == {"method": "request_states"}
        )

    async def look_up(self, parts: Sequence[bytes], state: KernelState) -> Answer:
        """Get the content of the reply. Raises LabError if the journal is gone."""
        content = json_object(parts[3])
        kind = json_object(parts[0]).get("msg_type")
        if kind == "comm_msg":
            return await self._query(partial(_widget_states, content.get("comm_id")))
        if kind == "comm_info_request":
            return await self._query(partial(_comm_info, content.get("target_name")))
        if kind == WIDGETS_REQUEST:
            return await self._query(lambda comms: (comms.captured(), []))
        return Answer(0, _encode({"status": "ok", **(state.kernel_info or {})}), [])

    def build(self, channel: str, parts: Sequence[bytes], answer: Answer, state: KernelState) -> list[KernelMessage]:
        """Build the messages that the kernel would send.

        The page must have received everything up to `answer.position`; `state` is the kernel's state at that point.
        """
        parent = parts[0]
        kind = str(json_object(parent).get("msg_type"))
        if kind == "comm_msg":
            reply = make_message("iopub", kind, answer.content, parent, session=state.session, buffers=answer.buffers)
            return [reply, *state_messages(state, parent)]
        if kind == WIDGETS_REQUEST:
            captured = json_object(answer.content).items()
            return [
                each for widget, outputs in captured for each in _output_updates(widget, outputs, parent, state.session)
            ]
        # JupyterLab waits for an idle status with this request as its parent, but does not apply it to the kernel
        # (untracked_message_types in Jupyter). Therefore the kernel's real state follows, without a parent.
        return [
            status_message("busy", state.session, parent),
            make_message(channel, kind.replace("_request", "_reply"), answer.content, parent, session=state.session),
            status_message("idle", state.session, parent),
            *state_messages(state),
        ]

    async def _query(self, question: Callable[[Comms], tuple[dict[str, Any], list[bytes]]]) -> Answer:
        def read(journal: JournalState) -> Answer:
            content, buffers = question(journal.comms)
            return Answer(journal.position, _encode(content), buffers)  # encode now: the state keeps changing

        return await self._journals.query(self._runtime, read)


def _widget_states(comm: object, comms: Comms) -> tuple[dict[str, Any], list[bytes]]:
    """Same reply as Widget._handle_control_comm_msg of ipywidgets."""
    states, buffers = comms.states()
    return {"comm_id": comm, "data": {"method": "update_states", **states}}, buffers


def _comm_info(target: str | None, comms: Comms) -> tuple[dict[str, Any], list[bytes]]:
    return {"status": "ok", "comms": comms.info(target)}, []


def _output_updates(widget: str, state: dict[str, Any], parent: bytes, session: str) -> list[KernelMessage]:
    """Return updates that restore an Output widget.

    The page registers the widget for a request only when `msg_id` changes, so `msg_id` is first emptied, then set.
    """
    changes = [{**state, "msg_id": ""}, *([{"msg_id": state["msg_id"]}] if state["msg_id"] else [])]
    return [
        make_message(
            "iopub", "comm_msg", _encode({"comm_id": widget, "data": _update(change)}), parent, session=session
        )
        for change in changes
    ]


def _update(state: dict[str, Any]) -> dict[str, Any]:
    return {"method": "update", "state": state, "buffer_paths": []}


def _encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()

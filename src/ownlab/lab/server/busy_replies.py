"""Answers in a kernel's place what would wait behind its running cell: what it is, which widgets there are."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ownlab.lab.journal.records import json_object
from ownlab.lab.server.kernel_state import Pulse

if TYPE_CHECKING:
    from ownlab.lab.journal.comms import Comms
    from ownlab.lab.journal.state import JournalState
    from ownlab.lab.runtimes.journals import Journals

__all__ = ["WIDGETS_REQUEST", "Desk", "Found", "Made", "state_of", "status"]

# Said by a page of ours: tell me again what Output widgets have taken. No kernel hears of it.
WIDGETS_REQUEST = "ownlab_widgets_request"
_PROTOCOL = "5.3"  # of Jupyter's messages, as ipykernel speaks it


class Made(NamedTuple):
    """A message that no kernel sent."""

    channel: str
    parts: list[bytes]


class Found(NamedTuple):
    """An answer's content, and the number of the last message that it takes into account."""

    position: int
    content: bytes
    buffers: list[bytes]


def make(
    channel: str,
    kind: str,
    content: bytes,
    parent: bytes = b"{}",
    *,
    session: str,
    buffers: Sequence[bytes] = (),
) -> Made:
    """Under the kernel's own session: JupyterLab forgets what it has not handled yet when another one speaks."""
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": kind,
        "username": "ownlab",
        "session": session,
        "date": datetime.now(timezone.utc).isoformat(),
        "version": _PROTOCOL,
    }
    return Made(channel, [json.dumps(header).encode(), parent, b"{}", content, *buffers])


class Desk:
    """For the pages of one runtime."""

    def __init__(self, runtime: str, journals: Journals) -> None:
        self._runtime, self._journals = runtime, journals

    def takes(self, parts: Sequence[bytes], pulse: Pulse) -> bool:
        """Whether a page's message is answered here, and not passed on."""
        kind = json_object(parts[0]).get("msg_type")
        if kind == "kernel_info_request":
            return pulse.busy and pulse.kernel_info is not None
        if kind == "comm_info_request":
            return pulse.busy
        if kind == WIDGETS_REQUEST:
            return True
        # Also where the kernel is idle: it need not be woken, and does not know what widgets of type Output show.
        return (
            kind == "comm_msg"
            and b"request_states" in parts[3]
            and json_object(parts[3]).get("data") == {"method": "request_states"}
        )

    async def find(self, parts: Sequence[bytes], pulse: Pulse) -> Found:
        """What there is to answer. LabError where the journal is gone."""
        content = json_object(parts[3])
        kind = json_object(parts[0]).get("msg_type")
        if kind == "comm_msg":
            return await self._ask(partial(_states, content.get("comm_id")))
        if kind == "comm_info_request":
            return await self._ask(partial(_info, content.get("target_name")))
        if kind == WIDGETS_REQUEST:
            return await self._ask(lambda comms: (comms.captured(), []))
        return Found(0, _encode({"status": "ok", **(pulse.kernel_info or {})}), [])

    def answer(self, channel: str, parts: Sequence[bytes], found: Found, pulse: Pulse) -> list[Made]:
        """What the kernel would say; for a page that was told everything up to what was found, where `pulse` is."""
        parent = parts[0]
        kind = str(json_object(parent).get("msg_type"))
        if kind == "comm_msg":
            told = make("iopub", kind, found.content, parent, session=pulse.session, buffers=found.buffers)
            return [told, *state_of(pulse, parent)]
        if kind == WIDGETS_REQUEST:
            captured = json_object(found.content).items()
            return [made for widget, state in captured for made in _retold(widget, state, parent, pulse.session)]
        # JupyterLab waits for an idle of this very request, and does not take one with such a parent for the kernel's
        # own (Jupyter's untracked_message_types): that is told last, as it is.
        return [
            status("busy", pulse.session, parent),
            make(channel, kind.replace("_request", "_reply"), found.content, parent, session=pulse.session),
            status("idle", pulse.session, parent),
            *state_of(pulse),
        ]

    async def _ask(self, question: Callable[[Comms], tuple[dict[str, Any], list[bytes]]]) -> Found:
        def answer(fold: JournalState) -> Found:
            content, buffers = question(fold.comms)
            return Found(fold.position, _encode(content), buffers)  # encoded at once: it goes on changing

        return await self._journals.query(self._runtime, answer)


def _states(comm: object, comms: Comms) -> tuple[dict[str, Any], list[bytes]]:
    """As ipywidgets answers in Widget._handle_control_comm_msg."""
    states, buffers = comms.states()
    return {"comm_id": comm, "data": {"method": "update_states", **states}}, buffers


def _info(target: str | None, comms: Comms) -> tuple[dict[str, Any], list[bytes]]:
    return {"status": "ok", "comms": comms.info(target)}, []


def _retold(widget: str, state: dict[str, Any], parent: bytes, session: str) -> list[Made]:
    """An Output widget's outputs. Its page takes hold of a request only where `msg_id` changes: so it does."""
    changes = [{**state, "msg_id": ""}, *([{"msg_id": state["msg_id"]}] if state["msg_id"] else [])]
    return [
        make("iopub", "comm_msg", _encode({"comm_id": widget, "data": _update(change)}), parent, session=session)
        for change in changes
    ]


def _update(state: dict[str, Any]) -> dict[str, Any]:
    return {"method": "update", "state": state, "buffer_paths": []}


def status(state: str, session: str, parent: bytes = b"{}") -> Made:
    """A status message."""
    return make("iopub", "status", _encode({"execution_state": state}), parent, session=session)


def state_of(pulse: Pulse, parent: bytes = b"{}") -> list[Made]:
    """What the kernel does, as a status. Nothing where it just died: a page that hears "dead" gives it up for good."""
    if pulse.execution_state not in ("starting", "idle", "busy"):
        return []
    return [status(pulse.execution_state, pulse.session, parent)]


def _encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()

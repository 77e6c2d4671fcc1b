"""An execution told again from its present state: to a page that was away, and to the journal when it is compacted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ownlab.lab.journal.execution import Execution, format_time
from ownlab.lab.journal.json_parts import parse_object
from ownlab.lab.journal.outputs import Content
from ownlab.lab.journal.records import EVENT, Record
from ownlab.lab.journal.state import JournalState

__all__ = ["ReplayedMessage", "compacted_records", "replay"]


class ReplayedMessage(NamedTuple):
    """A message of the kernel."""

    channel: str
    header: dict[str, Any]
    parent: dict[str, Any]
    metadata: dict[str, Any]
    content: dict[str, Any]


def replay(fold: JournalState, execution: Execution) -> list[ReplayedMessage]:
    """Messages that bring a fresh JupyterLab OutputArea with this request's future to the state it would have now."""
    told: list[ReplayedMessage] = []
    timing = execution.timing

    def tell(channel: str, kind: str, content: Content, date: str | None, metadata: Content | None = None) -> None:
        header = {
            "msg_id": f"{execution.msg_id}_{len(told)}",
            "msg_type": kind,
            "username": execution.request[0].get("username") or "",
            "session": fold.kernel_session,
            "date": date or format_time(execution.started_at or execution.queued_at),
            "version": "5.3",
        }
        told.append(ReplayedMessage(channel, header, execution.request[0], metadata or {}, content))

    if execution.started_at is not None or "iopub.status.busy" in timing:
        tell("iopub", "status", {"execution_state": "busy"}, timing.get("iopub.status.busy"))
    if execution.input_count is not None:
        code = execution.request[2].get("code")
        content = {"code": code if isinstance(code, str) else "", "execution_count": execution.input_count}
        tell("iopub", "execute_input", content, timing.get("iopub.execute_input"))
    for kind, content in execution.outputs.told():
        tell("iopub", kind, content, None)
    if execution.reply is not None:
        header, metadata = parse_object(execution.reply.parts[0]), parse_object(execution.reply.parts[2])
        tell("shell", "execute_reply", _without_pages(execution.reply_content()), header.get("date"), metadata)
    if execution.idle:
        tell("iopub", "status", {"execution_state": "idle"}, timing.get("iopub.status.idle"))
    if execution.pending_input is not None:
        question = execution.pending_input
        # Its own header: an answer names the question by it.
        header = parse_object(question.parts[0])
        told.append(ReplayedMessage("stdin", header, execution.request[0], {}, parse_object(question.parts[3])))
    return told


def compacted_records(fold: JournalState) -> Iterator[Record]:
    """Records, all of them events, from which a fold becomes what this one is. An execution has its request's number."""
    at = 0.0
    for execution in fold.executions.values():
        state, parts = execution.dump()
        at = execution.queued_at
        yield _event(execution.asked_at, at, "execution", state, parts)
    state, parts = fold.dump()
    yield _event(fold.position, at, "fold", state, parts)


def _event(number: int, at: float, what: str, state: Content, parts: list[bytes]) -> Record:
    return Record(number, EVENT, False, at, (json.dumps({"event": what, **state}).encode(), *parts))


def _without_pages(reply: Content) -> Content:
    """A page of help was told as an output, in its place among the others."""
    payload = reply.get("payload")
    if not isinstance(payload, list):
        return reply
    return {**reply, "payload": [one for one in payload if not (isinstance(one, dict) and one.get("source") == "page")]}

"""Replays an execution from its current state: for a page that reconnects, and for the journal when it is compacted."""

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
    """A message from the kernel."""

    channel: str
    header: dict[str, Any]
    parent: dict[str, Any]
    metadata: dict[str, Any]
    content: dict[str, Any]


def replay(journal_state: JournalState, execution: Execution) -> list[ReplayedMessage]:
    """Return messages that bring a new JupyterLab OutputArea, with this request's future, to the current state."""
    messages: list[ReplayedMessage] = []
    timing = execution.timing

    def add(channel: str, kind: str, content: Content, date: str | None, metadata: Content | None = None) -> None:
        header = {
            "msg_id": f"{execution.msg_id}_{len(messages)}",
            "msg_type": kind,
            "username": execution.request[0].get("username") or "",
            "session": journal_state.kernel_session,
            "date": date or format_time(execution.started_at or execution.queued_at),
            "version": "5.3",
        }
        messages.append(ReplayedMessage(channel, header, execution.request[0], metadata or {}, content))

    if execution.started_at is not None or "iopub.status.busy" in timing:
        add("iopub", "status", {"execution_state": "busy"}, timing.get("iopub.status.busy"))
    if execution.input_count is not None:
        code = execution.request[2].get("code")
        content = {"code": code if isinstance(code, str) else "", "execution_count": execution.input_count}
        add("iopub", "execute_input", content, timing.get("iopub.execute_input"))
    for kind, content in execution.outputs.replay():
        add("iopub", kind, content, None)
    if execution.reply is not None:
        header, metadata = parse_object(execution.reply.parts[0]), parse_object(execution.reply.parts[2])
        add("shell", "execute_reply", _without_pages(execution.reply_content()), header.get("date"), metadata)
    if execution.refused:  # no kernel answers; without an answer the cell would wait for ever
        add("shell", "execute_reply", {"status": "aborted"}, None)
        add("iopub", "status", {"execution_state": "idle"}, None)
    if execution.idle:
        add("iopub", "status", {"execution_state": "idle"}, timing.get("iopub.status.idle"))
    if execution.pending_input is not None:
        question = execution.pending_input
        # Its own header: the reply refers to the request by it.
        header = parse_object(question.parts[0])
        messages.append(ReplayedMessage("stdin", header, execution.request[0], {}, parse_object(question.parts[3])))
    return messages


def compacted_records(journal_state: JournalState) -> Iterator[Record]:
    """Yield events that restore this state. An execution has the number of its request."""
    at = 0.0
    for execution in journal_state.executions.values():
        state, parts = execution.dump()
        at = execution.queued_at
        yield _event(execution.asked_at, at, "execution", state, parts)
    state, parts = journal_state.dump()
    yield _event(journal_state.position, at, "fold", state, parts)


def _event(number: int, at: float, what: str, state: Content, parts: list[bytes]) -> Record:
    return Record(number, EVENT, False, at, (json.dumps({"event": what, **state}).encode(), *parts))


def _without_pages(reply: Content) -> Content:
    """Drop pages of help from a reply: they were replayed as outputs, in order."""
    payload = reply.get("payload")
    if not isinstance(payload, list):
        return reply
    return {
        **reply,
        "payload": [page for page in payload if not (isinstance(page, dict) and page.get("source") == "page")],
    }

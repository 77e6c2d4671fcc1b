"""What a page is told about a runtime in one piece: the executions of its cells so far, and the death of its kernel."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from ownlab.json_encoding import encode_json
from ownlab.lab.journal.death import RecordedDeath
from ownlab.lab.journal.replay import replay
from ownlab.lab.journal.state import Execution, JournalState
from ownlab.text import in_english, render

__all__ = ["attachment", "describe_death", "describe_not_run"]

Request = dict[str, dict[str, Any]]  # header, metadata and content of an execute_request


def describe_death(
    journal: JournalState, number: int | None = None, *, translate: Callable[[str], str] | None = None
) -> dict[str, Any] | None:
    """Return a death, the last one by default, as a frame for the page; None if there is none.

    "recorded": whether its record is on disk. There is none if everything was killed at once.
    """
    deaths = [each for each in journal.deaths if number in (None, each.number)]
    if not deaths:
        return None
    number = deaths[-1].number
    return {
        "type": "died",
        "position": number,
        "death": _death_record(deaths[-1], translate),
        "notes": _notes(journal, number),
        "recorded": journal.cut_at != number,
    }


def describe_not_run(journal: JournalState, number: int) -> dict[str, Any]:
    """Return the frame that tells a page which cell was refused at a record number: it was run before the page knew of a death."""
    return {"type": "not-run", "position": number, "notes": _notes(journal, number)}


def _notes(journal: JournalState, number: int) -> list[dict[str, Any]]:
    """Return the notes that a record has added to cells."""
    concerned = [each for each in journal.by_cell.values() if each.live and each.outputs_at == number]
    return [{"msg_id": each.msg_id, "cell": each.cell, "output": each.outputs.as_json()[-1]} for each in concerned]


def _death_record(recorded: RecordedDeath, translate: Callable[[str], str] | None) -> dict[str, Any]:
    summary = recorded.death.summary()
    return {
        "at": recorded.at,
        "cell": recorded.cell,
        "summary": render(summary, translate) if translate else in_english(summary),
    }


def attachment(
    journal: JournalState, after: int, outbox: Sequence[Request] = (), translate: Callable[[str], str] | None = None
) -> bytes:
    """Return the answer to GET …/attach?after=N as JSON. `after`: the number of the last record that the page shows.

    `outbox`: cells that the node of the runtime may not have taken yet. It must have been read before the journal: a cell leaves it
    when it is in the journal.
    """
    waiting = [
        _describe_waiting(request) for request in outbox if request["header"]["msg_id"] not in journal.executions
    ]
    shown = {each["cell"] for each in waiting}
    answer = {
        "position": journal.position,
        "kernel_session": journal.kernel_session,
        "now": time.time(),
        "capturing": journal.comms.capturing(),
        "asked": [{"channel": "iopub", **each} for each in journal.asked.values()],
        "packages": journal.packages_after(after),
        "death": _death_record(journal.last_death, translate) if journal.last_death else None,
        "ran_since_death": bool(journal.deaths) and journal.last_death is None,
        "executions": [
            *(
                _describe_execution(journal, each)
                for each in journal.by_cell.values()
                if _is_relevant(each, after) and each.cell not in shown
            ),
            *waiting,
        ],
    }
    try:
        return encode_json(answer)
    except UnicodeEncodeError:  # a lone surrogate was printed
        return json.dumps(answer).encode()


def _describe_waiting(request: Request) -> dict[str, Any]:
    """An execution that waits beside the server until its node can be reached."""
    return {
        "msg_id": request["header"]["msg_id"], "cell": request["metadata"]["cellId"], "state": "queued", "queued_at": time.time(),
        "started_at": None, "ended_at": None, "execution_count": None, "request": request, "messages": [],
    }  # fmt: skip


def _is_relevant(execution: Execution, after: int) -> bool:
    """Return whether the page needs an execution: it changed after `after`, or its outputs may still change."""
    if not execution.live:  # its kernel is gone and sends nothing more
        return False
    changed = max(execution.outputs_at, execution.counted_at) > after
    return changed or execution.unfinished or bool(execution.display_ids)


def _describe_execution(journal: JournalState, execution: Execution) -> dict[str, Any]:
    header, metadata, content = execution.request
    return {
        "msg_id": execution.msg_id,
        "cell": execution.cell,
        "state": execution.state,
        "queued_at": execution.queued_at,
        "started_at": execution.started_at,
        "ended_at": execution.ended_at,
        "execution_count": execution.execution_count,
        "request": {"header": header, "metadata": metadata, "content": content},
        "messages": [
            {
                "channel": message.channel,
                "header": message.header,
                "parent_header": message.parent,
                "metadata": message.metadata,
                "content": message.content,
            }
            for message in replay(journal, execution)
        ],
    }

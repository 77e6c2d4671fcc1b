"""What a page needs to go on showing cells that run: each execution retold from its beginning."""

from __future__ import annotations

import json
import time
from typing import Any

from ownlab.json_encoding import encode_json
from ownlab.lab.journal.replay import replay
from ownlab.lab.journal.state import Execution, JournalState

__all__ = ["attachment"]


def attachment(fold: JournalState, after: int) -> bytes:
    """The answer to GET …/attach?after=N, as JSON; `after` is what the page shows already."""
    answer = {
        "position": fold.position,
        "kernel_session": fold.kernel_session,
        "now": time.time(),
        "capturing": fold.comms.capturing(),
        "asked": [{"channel": "iopub", **each} for each in fold.asked.values()],
        "packages": fold.packages_after(after),
        "executions": [_told(fold, each) for each in fold.by_cell.values() if _matters(each, after)],
    }
    try:
        return encode_json(answer)
    except UnicodeEncodeError:  # half a character was printed
        return json.dumps(answer).encode()


def _matters(execution: Execution, after: int) -> bool:
    """Of cells that ended before, only those matter that later ones may still change."""
    if not execution.live:  # of a kernel that is gone: nothing will come from it
        return False
    changed = max(execution.outputs_at, execution.counted_at) > after
    return changed or execution.unfinished or bool(execution.display_ids)


def _told(fold: JournalState, execution: Execution) -> dict[str, Any]:
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
                "channel": told.channel,
                "header": told.header,
                "parent_header": told.parent,
                "metadata": told.metadata,
                "content": told.content,
            }
            for told in replay(fold, execution)
        ],
    }

"""What the cells of a run print and display, passed to its reporter while they run.

It has a connection of its own: a terminal that is slow must not delay the messages that tell how a cell ended. If it is too slow,
the supervisor drops it; what was not shown is in the output notebook.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ownlab.lab.journal.json_parts import parse_header, parse_object
from ownlab.lab.journal.records import Record
from ownlab.lab.runs.reporter import Reporter
from ownlab.lab.runs.unbroken_line import UnbrokenLine
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.transport.journal_client import Dropped, Hello, JournalMessage
from ownlab.text import text

__all__ = ["LiveOutput"]

# Errors are in the report of their cell.
_TYPES = ("stream", "display_data", "execute_result")
# For the last output to arrive after the end of its cell was received on the other connection.
_LAST_SECONDS = 5.0


class LiveOutput:
    """Follows a runtime and reports the output of one execution at a time."""

    def __init__(self, plan: Plan, reporter: Reporter) -> None:
        self._reporter = reporter
        self._msg_id = ""
        self._idle = asyncio.Event()
        self._ready = asyncio.Event()
        self._client = UnbrokenLine(plan, self._receive)

    async def follow(self, msg_id: str) -> None:
        """Report the output of this execution from now on; return when nothing of it can be missed."""
        self._msg_id = msg_id
        self._idle.clear()
        await _wait(self._ready)

    async def finish(self) -> None:
        """Wait until the last output of the execution was reported."""
        await _wait(self._idle)
        self._msg_id = ""

    def give_up(self) -> None:
        """Expect nothing more of the execution: its kernel is gone."""
        self._idle.set()

    def close(self) -> None:
        """Stop following."""
        self._client.close()

    def _receive(self, thing: JournalMessage) -> None:
        if isinstance(thing, Hello):
            self._ready.set()
        elif isinstance(thing, Dropped):
            self._idle.set()
            self._reporter.notice(
                text("The output comes too fast to be shown here; all of it is in the output notebook.")
            )
        elif isinstance(thing, Record) and thing.channel == "iopub" and not thing.to_kernel and len(thing.parts) >= 4:
            parent = parse_header(thing.parts[1])
            if parent is not None and parent.msg_id == self._msg_id:
                self._message(thing)

    def _message(self, record: Record) -> None:
        header = parse_header(record.parts[0])
        kind = header.msg_type if header else ""
        if kind == "status":
            if parse_object(record.parts[3]).get("execution_state") == "idle":
                self._idle.set()
        elif kind in _TYPES:
            content: dict[str, Any] = parse_object(record.parts[3])
            self._reporter.output({"output_type": kind, **content})


async def _wait(event: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(event.wait(), _LAST_SECONDS)
    except asyncio.TimeoutError:
        return  # the supervisor has ended; the run notices that itself

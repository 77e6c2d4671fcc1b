"""What a relay knows of its node: its name and cards, what the runtime uses there, and when the job or a limit ends it.

Figures are measured only while somebody asks. Nobody waits for the node: the answer is the last one that came, if it is recent.
"""

from __future__ import annotations

import time
from typing import Any

from ownlab.lab.engines.interface import JobStatus
from ownlab.lab.relay.node_line import NodeLine
from ownlab.lab.supervisor.state_writer import StateWriter

__all__ = ["NodeDeadline", "NodeFigures"]

# Seconds.
_RECENT = 15.0  # older figures are not shown
_LOST = 5.0  # after which an answer is not expected any more
_SAME = 3.0  # deadlines that differ by less are the same: each comes with the delay of the network


class NodeFigures:
    """The last figures of the node."""

    def __init__(self) -> None:
        self._usage: dict[str, Any] | None = None
        self._number = 0
        self._measured_at = self._asked_at = float("-inf")

    def ask(self, line: NodeLine | None) -> dict[str, Any] | None:
        """Return the last figures if they are recent, and ask for new ones."""
        now = time.monotonic()
        if line is not None and now - self._asked_at > _LOST:
            self._asked_at = now
            line.post({"do": "usage"}, self._take)
        return self._usage if now - self._measured_at < _RECENT else None

    def _take(self, answer: dict[str, Any]) -> None:
        self._asked_at = float("-inf")
        usage, number = answer.get("usage"), int(answer.get("number") or 0)
        if isinstance(usage, dict) and number != self._number:
            self._usage, self._number, self._measured_at = usage, number, time.monotonic()


class NodeDeadline:
    """When the node ends the runtime, as its supervisor says; it is told when the cluster ends the job."""

    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer
        self._at: float | None = None  # by the clock here
        self._why, self._may_extend = "", False

    def tell(self, line: NodeLine, status: JobStatus) -> None:
        """Tell the node when its job ends, in seconds from now: its clock may differ from this one."""
        seconds = None if status.ends_at is None else status.ends_at - time.time()
        line.post({"do": "job_end", "seconds": seconds}, self.take)

    def take(self, answer: dict[str, Any]) -> None:
        """Take what a status of the node says."""
        if not answer.get("ok", True) or "ends_in" not in answer:  # an error, or a node of an older version
            return
        left = answer["ends_in"]
        at = time.time() + left if isinstance(left, (int, float)) else None
        why, may_extend = str(answer.get("ends_why") or ""), bool(answer.get("may_extend"))
        same_time = at == self._at or (at is not None and self._at is not None and abs(at - self._at) < _SAME)
        if same_time and (why, may_extend) == (self._why, self._may_extend):
            return
        self._at, self._why, self._may_extend = at, why, may_extend
        self._writer.update_row(ends_at=at, ends_why=why, may_extend=may_extend)

    def status(self, warn: float) -> dict[str, Any]:
        """Its part of the answer to {"do": "status"}. `warn`: seconds before the end in which people are warned."""
        left = None if self._at is None else self._at - time.time()
        return {
            "ends_at": self._at,
            "ends_in": left,
            "ends_why": self._why,
            "warned": left is not None and left <= warn,
            "may_extend": self._may_extend,
        }

"""What a kernel does at the moment, from what it says of itself on the line."""

from __future__ import annotations

from typing import Any

from ownlab.lab.journal.records import EVENT, Record, json_object
from ownlab.lab.transport.journal_client import Hello

__all__ = ["Pulse", "Status"]

# Stands for what ran before we listened: nobody said which request that was.
_BEFORE = "before"


class Pulse:
    """Kept up to date with each record that is heard."""

    def __init__(self, hello: Hello) -> None:
        self.execution_state = hello.execution_state
        self.kernel_info = hello.kernel_info
        self.session = hello.kernel_session
        self._working: set[str] = {_BEFORE} if hello.busy else set()  # ids of requests

    @property
    def busy(self) -> bool:
        """Whether what it is asked now has to wait."""
        return bool(self._working)

    def note(self, record: Record) -> Status | None:
        """Called with each record; what a status says."""
        if record.channel == EVENT:
            self._note_event(json_object(record.parts[0]).get("event"))
        elif record.to_kernel:
            return None
        elif record.channel == "iopub":
            # Headers are searched, not parsed: "status" stands in no header but a status'.
            if b'"status"' in record.parts[0]:
                return self._note_status(Status(record))
        elif b'"kernel_info_reply"' in record.parts[0]:
            self.kernel_info = json_object(record.parts[3]) or self.kernel_info
        return None

    def _note_event(self, what: object) -> None:
        if what in ("kernel", "kernel-ended", "ended"):
            self._working.clear()
            self.execution_state = "starting" if what == "kernel" else "dead"

    def _note_status(self, status: Status) -> Status:
        self.session = status.session or self.session
        if status.state == "busy" and status.parent_type != "kernel_info_request":
            self._working.add(status.parent_id)
        elif status.state == "idle":
            if status.parent_id not in self._working and status.parent_type != "kernel_info_request":
                self._working.discard(_BEFORE)
            self._working.discard(status.parent_id)
        elif status.state == "starting":
            self._working.clear()
        if self._working:
            self.execution_state = "busy"
        elif status.state != "busy":
            self.execution_state = status.state
        return status


class Status:
    """A status message, as far as it matters."""

    def __init__(self, record: Record) -> None:
        header, parent, _, content = (json_object(part) for part in record.parts[:4])
        self.session = str(header.get("session", ""))
        self.state = str(content.get("execution_state", ""))
        self.parent_id = str(parent.get("msg_id", ""))
        self.parent_type: Any = parent.get("msg_type")

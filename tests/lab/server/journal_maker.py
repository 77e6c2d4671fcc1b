"""Journals as a supervisor writes them, for tests that need no kernel."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

from ownlab.lab.journal.records import Record, event
from ownlab.lab.journal.storage import JournalInfo, write_journal_info
from ownlab.lab.journal.writer import JournalWriter

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def notebook_of(*cells: str, minor: int = 5) -> dict[str, Any]:
    """Return a notebook of code cells with these ids."""
    made: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": name,
            "metadata": {},
            "source": f"run({name!r})",
            "execution_count": None,
            "outputs": [],
        }
        for name in cells
    ]
    if minor < 5:
        for cell in made:
            del cell["id"]
    return {"nbformat": 4, "nbformat_minor": minor, "metadata": {}, "cells": made}


class JournalMaker:
    """The journal of a runtime that has ended."""

    def __init__(self, home: Path, notebook: Path, lab: str = "", started_at: float | None = None) -> None:
        self.runtime = str(uuid.uuid4())
        self.folder = home / "journals" / self.runtime
        self.position = 0
        self._at = time.time() if started_at is None else started_at
        write_journal_info(self.folder, JournalInfo(self.runtime, str(notebook), lab, "ownlab-cpu", self._at))
        self._writer = JournalWriter(str(self.folder))
        self._record(event(1, self._at, "kernel", launch=1))

    def request(self, cell: str, code: str = "", **metadata: Any) -> str:
        """Record that a page executes a cell. Return the id of its message."""
        request = uuid.uuid4().hex
        metadata = {"cellId": cell, "recordTiming": True, **metadata}
        self._message("shell", True, "execute_request", {"code": code or f"run({cell!r})"}, {}, metadata, request)
        return request

    def send(self, request: str, kind: str, **content: Any) -> None:
        """Record a message of the kernel about a request."""
        self._message("iopub", False, kind, content, {"msg_id": request, "msg_type": "execute_request"})

    def print(self, request: str, text: str) -> None:
        self.send(request, "stream", name="stdout", text=text)

    def begin(self, request: str) -> None:
        self.send(request, "status", execution_state="busy")

    def end(self, request: str, count: int) -> None:
        content = {"status": "ok", "execution_count": count, "payload": [], "user_expressions": {}}
        self._message("shell", False, "execute_reply", content, {"msg_id": request, "msg_type": "execute_request"})
        self.send(request, "status", execution_state="idle")

    def run_cell(self, cell: str, text: str, count: int = 1, code: str = "") -> str:
        """Record a cell from its start to its end."""
        request = self.request(cell, code)
        self.begin(request)
        self.print(request, text)
        self.end(request, count)
        return request

    def end_runtime(self, why: str = "it was stopped") -> None:
        """Record the end of the runtime."""
        self._record(event(self.position + 1, self._at, "ended", why=why))
        self._writer.close()

    def saved_position(self) -> int:
        """Return the position in held.json."""
        path = self.folder / "held.json"
        position: int = json.loads(path.read_text())["position"] if path.exists() else 0
        return position

    def _message(
        self,
        channel: str,
        to_kernel: bool,
        kind: str,
        content: dict[str, Any],
        parent: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        msg_id: str = "",
    ) -> None:
        header = {"msg_id": msg_id or uuid.uuid4().hex, "msg_type": kind, "session": "of-the-kernel", "username": "",
                  "date": "2026-01-02T03:04:05Z", "version": "5.3"}  # fmt: skip
        parts = tuple(json.dumps(part).encode() for part in (header, parent, metadata or {}, content))
        self._record(Record(self.position + 1, channel, to_kernel, self._at, parts))

    def _record(self, record: Record) -> None:
        self.position = record.number
        self._writer.write([record])

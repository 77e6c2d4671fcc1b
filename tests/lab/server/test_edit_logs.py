"""The edit logs of a server in memory."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.lab.server.journal_maker import notebook_of

from ownlab.lab.notebooks.edits.edit_log import EditLog
from ownlab.lab.notebooks.edits.records import CellPatch, Patch, SourcePatch
from ownlab.lab.server.edits import EditLogs
from ownlab.lab.server.recent_writes import stamp


def test_requests_that_meet_a_log_at_once_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two logs of one file would overwrite each other: acknowledged edits would be lost."""
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))
    path = tmp_path / "n.ipynb"
    content: dict[str, Any] = notebook_of("a")
    path.write_text(json.dumps(content))
    logs = EditLogs("lab")
    log = logs.open(str(path), content, stamp(str(path)))
    logs.prepare(str(path), log)
    log.apply(Patch("n.ipynb", "page", 1, cells=(CellPatch("a", "code", SourcePatch("typed", "run('a')")),)))

    reading, go_on = threading.Barrier(2), threading.Event()
    really_open = EditLog.open

    def slow_open(file: Path) -> EditLog | None:
        found = really_open(file)
        try:
            reading.wait(1)  # the other thread is here, too, unless it must wait
        except threading.BrokenBarrierError:
            go_on.set()
        return found

    monkeypatch.setattr(EditLog, "open", slow_open)
    after_restart = EditLogs("lab")
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: after_restart.find(str(path)), range(2))
    assert first is second
    assert first is not None
    assert go_on.is_set(), "only one of them read the file"

"""Labs and their runtimes as the command line shows them."""

from __future__ import annotations

import os
import time

from ownlab.lab.service.labs import Lab, labs, lock_holder, log_file
from ownlab.lab.service.records import LabState, RuntimeSummary
from ownlab.lab.store.layout import read_layout
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.store.store import Store
from ownlab.text import text
from ownlab.units import format_seconds

__all__ = ["lab_folder", "lab_state", "runtime_summary", "still_running"]


def still_running(store_folder: str, lab: str | None = None) -> list[RuntimeRow]:
    """Return the living runtimes that this user's labs started; with `lab` (an id), only those of that lab."""
    if read_layout(store_folder) is None:
        return []  # nothing has ever run here
    with Store.open(store_folder, create=False) as store:
        rows = [row for row in store.runtimes() if row.uid == os.geteuid() and row.lab is not None]
        return [row for row in rows if lab in (None, row.lab) and store.is_alive(row.id)]


def lab_state(lab: Lab, store_folder: str, page: str = "lab") -> LabState:
    """Describe a lab that is running."""
    watchdog = lock_holder(lab.folder, "watchdog")
    return LabState(
        url=lab.url,
        token=lab.token,
        address=lab.address(page),
        pid=lab.pid,
        watchdog=watchdog.pid if watchdog else None,
        folder=lab.folder,
        port=lab.port,
        started=lab.started,
        runtimes=len(still_running(store_folder, lab.id)),
        log=str(log_file(lab.folder)),
    )


def runtime_summary(row: RuntimeRow) -> RuntimeSummary:
    """Describe a runtime of a lab briefly."""
    since = format_seconds(max(1.0, round(time.time() - row.changed_at)))
    state = _activity(row, since) if row.state == "running" else row.state
    return RuntimeSummary(row.id, row.notebook, lab_folder(row), row.label, state)


def _activity(row: RuntimeRow, since: str) -> str:
    if row.busy:
        return text("busy for {duration}", duration=since)
    return text("idle for {duration}", duration=since)


def lab_folder(row: RuntimeRow) -> str | None:
    """Return the folder of the lab that started a runtime, if it is a lab of this user."""
    return next((lab.folder for lab in labs() if lab.id == row.lab), None)

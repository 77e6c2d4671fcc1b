"""Labs and their runtimes as the command line tells of them."""

from __future__ import annotations

import os
import time

from ownlab.lab.service.labs import Lab, holder, labs, log_file
from ownlab.lab.service.records import LabState, RuntimeWord
from ownlab.lab.store.layout import read_layout
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.store.store import Store
from ownlab.units import format_seconds

__all__ = ["lab_folder", "lab_state", "runtime_word", "still_running"]


def still_running(store_folder: str, lab: str | None = None) -> list[RuntimeRow]:
    """The living runtimes that labs of this person started; with `lab`, an id, those of that lab alone."""
    if read_layout(store_folder) is None:
        return []  # nothing ever ran here
    with Store.open(store_folder, create=False) as store:
        rows = [row for row in store.runtimes() if row.uid == os.geteuid() and row.lab is not None]
        return [row for row in rows if lab in (None, row.lab) and store.is_alive(row.id)]


def lab_state(lab: Lab, store_folder: str, page: str = "lab") -> LabState:
    """A lab that is up."""
    watchdog = holder(lab.folder, "watchdog")
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


def runtime_word(row: RuntimeRow) -> RuntimeWord:
    """A runtime of a lab in a few words."""
    since = format_seconds(max(1.0, round(time.time() - row.changed_at)))
    state = f"{'busy' if row.busy else 'idle'} for {since}" if row.state == "running" else row.state
    return RuntimeWord(row.id, row.notebook, lab_folder(row), row.label, state)


def lab_folder(row: RuntimeRow) -> str | None:
    """The folder of the lab that started a runtime, where it is this person's."""
    return next((lab.folder for lab in labs() if lab.id == row.lab), None)

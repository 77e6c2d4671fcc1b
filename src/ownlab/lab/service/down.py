"""`ownlab down`: stops labs and runtimes."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from ownlab.errors import DeadlineError, LabError, UsageError
from ownlab.lab.runtimes.end_reasons import STOPPED_WITH_LAB
from ownlab.lab.runtimes.inventory import is_living
from ownlab.lab.runtimes.operations import stop_runtime, wait_until
from ownlab.lab.service.labs import Lab, Role, is_served, lab_id, labs, lock_holder, read_lab
from ownlab.lab.service.up import refuse_other_host
from ownlab.lab.service.watchdog import END_SECONDS
from ownlab.lab.store.locks_only import AnyStore
from ownlab.lab.store.rows import RuntimeRow
from ownlab.text import text

__all__ = ["choose_labs", "stop_lab", "stop_runtimes", "wait_for_end"]

# In addition to the time for on_end functions: ending a process tree and recording it.
_MORE_SECONDS = 20.0


def choose_labs(folder: str | None, *, every: bool) -> list[Lab]:
    """Return the lab of this folder, of the working folder, or the only one that is running; or all of them."""
    if folder is not None:
        lab = read_lab(os.path.expanduser(folder))
        return [lab] if lab is not None and is_served(lab.folder) else []
    running = [lab for lab in labs() if is_served(lab.folder)]
    if every or len(running) <= 1:
        return running
    here = [lab for lab in running if lab.id == lab_id(".")]
    if here:
        return here
    folders = "\n  ".join(lab.folder for lab in running)
    raise UsageError(
        text("Several labs are running:\n  {folders}", folders=folders),
        hint=text("Name one: ownlab down FOLDER. Use --all for all of them."),
    )


def stop_lab(lab: Lab) -> None:
    """Stop its watchdog, which stops the server; then the server itself if no watchdog was left."""
    refuse_other_host(lab.folder)
    _stop(lab.folder, "watchdog", END_SECONDS + 5)
    _stop(lab.folder, "server", END_SECONDS)


def _stop(folder: str, role: Role, seconds: float) -> None:
    for number, timeout in ((signal.SIGTERM, seconds), (signal.SIGKILL, 5.0)):
        process = lock_holder(folder, role)
        if process is None:
            return
        if process.pid:
            _send(process.pid, number)
        if wait_until(timeout, lambda: lock_holder(folder, role) is None, every=0.05):
            return
    raise DeadlineError(text("The {role} of {folder} did not end after SIGKILL.", role=role, folder=folder))


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has just ended
    except PermissionError as exc:
        raise LabError(text("You are not allowed to stop process {pid}.", pid=pid)) from exc


def stop_runtimes(store: AnyStore, rows: Sequence[RuntimeRow], on_end: float) -> list[RuntimeRow]:
    """Ask all of them to end, wait, and return those that ended in time."""
    for row in rows:
        _ask(store, row)
    wait_for_end(store, rows, on_end)
    return [row for row in rows if not is_living(store, row)]


def _ask(store: AnyStore, row: RuntimeRow) -> None:
    try:
        stop_runtime(store, row.id, why=STOPPED_WITH_LAB.fill())
    except LabError:
        if is_living(store, row):  # otherwise it has ended meanwhile
            raise


def wait_for_end(store: AnyStore, rows: Sequence[RuntimeRow], on_end: float) -> bool:
    """Whether all of them ended within the time they have to save their work."""
    return wait_until(on_end + _MORE_SECONDS, lambda: not any(is_living(store, row) for row in rows), every=0.05)

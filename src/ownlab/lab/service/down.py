"""What `ownlab down` does: ends labs, and runtimes."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from ownlab.errors import DeadlineError, LabError, UsageError
from ownlab.lab.runtimes.operations import stop_runtime, wait_until
from ownlab.lab.service.labs import Lab, Role, holder, lab_id, labs, read_lab
from ownlab.lab.service.up import refuse_other_host, somebody_serves
from ownlab.lab.service.watchdog import END_SECONDS
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.store.store import Store

__all__ = ["await_end", "choose_labs", "end_lab", "end_runtimes"]

# Beyond what functions given to on_end have: ending a process tree, and writing it down.
_MORE_SECONDS = 20.0


def choose_labs(folder: str | None, *, every: bool) -> list[Lab]:
    """The lab that is meant: of this folder, of the working folder, or the only one that is up; or every one."""
    if folder is not None:
        lab = read_lab(os.path.expanduser(folder))
        return [lab] if lab is not None and somebody_serves(lab.folder) else []
    found = [lab for lab in labs() if somebody_serves(lab.folder)]
    if every or len(found) <= 1:
        return found
    here = [lab for lab in found if lab.id == lab_id(".")]
    if here:
        return here
    listed = "\n  ".join(lab.folder for lab in found)
    raise UsageError(f"several labs are up:\n  {listed}", hint="Name one: ownlab down FOLDER. All of them: --all")


def end_lab(lab: Lab) -> None:
    """End its watchdog, which ends the server; and the server itself where no watchdog is left."""
    refuse_other_host(lab.folder)
    _end(lab.folder, "watchdog", END_SECONDS + 5)
    _end(lab.folder, "server", END_SECONDS)


def _end(folder: str, role: Role, seconds: float) -> None:
    for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 5.0)):
        process = holder(folder, role)
        if process is None:
            return
        if process.pid:
            _send(process.pid, number)
        if wait_until(patience, lambda: holder(folder, role) is None, every=0.05):
            return
    raise DeadlineError(f"the {role} of {folder} does not end, not even when it is killed")


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has just ended
    except PermissionError as exc:
        raise LabError(f"process {pid} may not be ended by you") from exc


def end_runtimes(store: Store, rows: Sequence[RuntimeRow], on_end: float) -> list[RuntimeRow]:
    """Ask all of them to end at once, then wait for them; those that have ended in their time."""
    for row in rows:
        _ask(store, row)
    await_end(store, rows, on_end)
    return [row for row in rows if not store.is_alive(row.id)]


def _ask(store: Store, row: RuntimeRow) -> None:
    try:
        stop_runtime(store, row.id, why="the lab was ended")
    except LabError:
        if store.is_alive(row.id):  # else it has ended by itself meanwhile
            raise


def await_end(store: Store, rows: Sequence[RuntimeRow], on_end: float) -> bool:
    """Whether all of them ended in the time that they have to save their work."""
    return wait_until(on_end + _MORE_SECONDS, lambda: not any(store.is_alive(row.id) for row in rows), every=0.05)

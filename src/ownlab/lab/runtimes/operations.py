"""What people do to runtimes that are there: find one, stop it, give it more time."""

from __future__ import annotations

import os
import signal
from typing import Any

from ownlab.errors import LabError
from ownlab.lab.runtimes.plan import read_plan
from ownlab.lab.runtimes.start import runtime_folder
from ownlab.lab.runtimes.state import lives
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.store.runtime_processes import boot_id, marker
from ownlab.lab.store.store import Store
from ownlab.lab.transport.control_client import ask

__all__ = ["extend_runtime", "find_runtime", "stop_runtime"]


def find_runtime(store: Store, name: str) -> RuntimeRow:
    """By its id, the beginning of one, or its notebook, also without .ipynb; LabError where that is none, or more than one."""
    rows = [row for row in store.runtimes() if store.alive(row.id)]
    found = [row for row in rows if row.id == name] or [row for row in rows if name and row.id.startswith(name)]
    for notebook in (name, f"{name}.ipynb"):
        found = found or [row for row in rows if name and _is_notebook(row.notebook, notebook)]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(f"{row.id[:8]} ({row.person}, {row.notebook or row.label})" for row in found)
        raise LabError(f"{name} may be any of these runtimes: {listed}", hint="Name one by the beginning of its id.")
    raise LabError(f"there is no runtime {name}", hint="`ownlab runtimes` lists them.")


def stop_runtime(store: Store, runtime_id: str, *, now: bool = False, why: str = "it was stopped") -> RuntimeRow:
    """Ask a runtime to end: after it could save its work, or at once. Returns without waiting for its end."""
    row = _find_own(store, runtime_id, "stop")
    sockets = _sockets(row)
    if sockets is not None:
        try:
            ask(sockets, "end", why=why, now=now)
        except LabError:
            if not _signal(row, now):  # it does not answer: perhaps because it has just ended
                raise
    elif not _signal(row, now):
        raise LabError(f"runtime {row.id} cannot be reached: its supervisor is not the process that its row names")
    return row


def extend_runtime(store: Store, runtime_id: str) -> dict[str, Any]:
    """Move the end that a limit has set; what the supervisor answers (ends_at, ends_why)."""
    row = _find_own(store, runtime_id, "extend")
    sockets = _sockets(row)
    if sockets is None:
        raise LabError(f"runtime {row.id} can be extended by {row.person} alone, from the account that started it")
    return ask(sockets, "extend")


def _find_own(store: Store, runtime_id: str, deed: str) -> RuntimeRow:
    row = find_runtime(store, runtime_id)
    if os.geteuid() not in (0, row.uid):
        who = row.person if row.uid == 0 else f"{row.person} or root"
        raise LabError(f"runtime {row.id} is {row.person}'s; only {who} can {deed} it")
    return row


def _is_notebook(path: str, name: str) -> bool:
    return bool(path) and (path == name or path.endswith("/" + name))


def _sockets(row: RuntimeRow) -> str | None:
    """Where its control socket is; None where its folder is not ours to know: another person's, or another OWNLAB_HOME."""
    if row.uid != os.geteuid():
        return None
    try:
        return read_plan(str(runtime_folder(row.id) / "plan.json")).sockets
    except FileNotFoundError:
        return None


def _signal(row: RuntimeRow, now: bool) -> bool:
    """End it through its supervisor's process: SIGTERM lets it save, after SIGKILL its keeper ends the rest at once.

    Everyone who shares the store can write a row: so the process must be marked as this runtime's, too.
    """
    process = row.supervisor._asdict()
    if row.boot != boot_id() or not lives(process) or marker(row.supervisor.pid) != row.id:
        return False
    os.kill(row.supervisor.pid, signal.SIGKILL if now else signal.SIGTERM)
    return True

"""What people do to runtimes that are there: find one, stop it, give it more time."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

from ownlab.errors import LabError
from ownlab.lab.runtimes.plan import Plan, read_plan
from ownlab.lab.runtimes.state import lives, read_state, runtime_folder
from ownlab.lab.store.orphans import boot_id, marker
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.store.store import Store
from ownlab.lab.transport.control import ask

__all__ = [
    "end_runtime",
    "extend_runtime",
    "find_runtime",
    "remove_folders",
    "send_signal",
    "stop_runtime",
    "wait_until",
]

_ENDS_WITHIN = 10.0


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


def send_signal(process: Mapping[str, int] | None, signum: int, *, group: bool = False) -> None:
    """Send a signal, if that very process still lives; to its whole group where it leads one."""
    if process is None or not lives(process):
        return
    with contextlib.suppress(ProcessLookupError):  # it ended in this moment
        if group and os.getpgid(process["pid"]) == process["pid"]:
            os.killpg(process["pid"], signum)
        else:
            os.kill(process["pid"], signum)


def end_runtime(plan: Plan, child: subprocess.Popen[bytes] | None, why: str) -> None:
    """End the runtime at once, in whatever state it is, and remove what it leaves. Blocks for seconds at most."""
    state = read_state(plan.home) or {}
    if lives(state.get("supervisor")):
        try:
            ask(plan.sockets, "end", why=why, now=True)
        except LabError:  # it does not listen (any more): a signal reaches it
            send_signal(state.get("supervisor"), signal.SIGTERM)
    if child is not None and child.stdin is not None:
        with contextlib.suppress(OSError):  # a pipe whose other end is gone
            child.stdin.close()

    def gone() -> bool:
        return not any(lives(state.get(name)) for name in ("keeper", "supervisor", "kernel")) and _reaped(child)

    if not wait_until(_ENDS_WITHIN, gone):
        # The keeper of a supervisor that was killed ends all that descends from it; and it is killed last.
        for victim in ("supervisor", "keeper"):
            send_signal(state.get(victim), signal.SIGKILL)
            if victim == "supervisor" and not state and child is not None:
                child.kill()
            if wait_until(_ENDS_WITHIN / 2, gone):
                break
    remove_folders(plan)


def remove_folders(plan: Plan) -> None:
    """Take away the runtime's folders, once its processes have ended."""
    for folder in {plan.home, plan.sockets} - {""}:
        shutil.rmtree(folder, ignore_errors=True)


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


def _reaped(child: subprocess.Popen[bytes] | None) -> bool:
    return child is None or child.poll() is not None


def wait_until(seconds: float, condition: Callable[[], bool], *, every: float = 0.01) -> bool:
    """Whether a condition was met in the time given; it is asked again and again."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(every)
    return met

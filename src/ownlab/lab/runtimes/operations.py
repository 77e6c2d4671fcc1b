"""Operations on running runtimes: find, stop, extend and end them."""

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
from ownlab.lab.runtimes.end_request import may_have_job, request_end
from ownlab.lab.runtimes.inventory import living_runtimes
from ownlab.lab.runtimes.launch_plan import Plan, read_plan
from ownlab.lab.runtimes.notebook_names import is_notebook, is_run_of
from ownlab.lab.runtimes.state import is_alive, is_runtime_alive, plan_of, read_state, runtime_folder, state_of
from ownlab.lab.store.locks_only import AnyStore
from ownlab.lab.store.orphans import boot_id, runtime_of_process
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.transport.control import NotAnswering, send_command
from ownlab.lab.transport.endpoints import Endpoint
from ownlab.text import Template, listing, template, text

__all__ = [
    "JOB_RUNTIME_HOME",
    "command_started",
    "end_if_alive",
    "end_own_job",
    "end_runtime",
    "extend_runtime",
    "find_runtime",
    "remove_folders",
    "send_signal",
    "stop_runtime",
    "wait_until",
]

# On a node of a cluster: the folder of the runtime there, for what its kernel starts.
JOB_RUNTIME_HOME = "OWNLAB_JOB_RUNTIME_HOME"

_ENDS_WITHIN = 10.0
_JOB_ENDS_WITHIN = 90.0  # Slurm gives it KillWait seconds to save
_LISTENS_WITHIN = 30.0
_BEGINS_TO_END_WITHIN = 5.0
_RUNNING = ("waiting", "starting", "running", "dead")
_MAY_NOT_STOP = template("Runtime {id} belongs to {user}; only {user} or root may stop it.")
_MAY_NOT_EXTEND = template("Runtime {id} belongs to {user}; only {user} or root may extend it.")
_ROOT_ONLY = template("Runtime {id} belongs to {user}, who alone may stop or extend it.")


def find_runtime(store: AnyStore, name: str) -> RuntimeRow:
    """Find a runtime by its id, a prefix of it, or its notebook (with or without .ipynb), or the run of that.

    LabError if it is not exactly one.
    """
    rows = living_runtimes(store)
    matches = [row for row in rows if row.id == name] or [row for row in rows if name and row.id.startswith(name)]
    for notebook in (name, f"{name}.ipynb"):
        matches = matches or [row for row in rows if name and is_notebook(row.notebook, notebook)]
    matches = matches or [row for row in rows if is_run_of(row.notebook, name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = listing(f"{row.id[:8]} ({row.person}, {row.notebook or row.label})" for row in matches)
        message = text("{name} matches several runtimes: {runtimes}.", name=name, runtimes=listed)
        raise LabError(message, hint=text("Use the first characters of an id."))
    raise LabError(text("There is no runtime {name}.", name=name), hint=text("`ownlab runtimes` lists them."))


def stop_runtime(
    store: AnyStore, runtime_id: str, *, now: bool = False, why: str = text("it was stopped")
) -> RuntimeRow:
    """Ask a runtime to end, after saving its work or immediately. Returns without waiting for its end."""
    row = _find_own(store, runtime_id, _MAY_NOT_STOP)
    control = _control_endpoint(row)
    if control is not None:
        try:
            send_command(control, "end", why=why, now=now)
        except LabError:
            if now and (plan := plan_of(row.id)) is not None and plan.node is not None:
                request_end(plan, why)  # its keeper starts another relay, which ends the job
            if not _signal(row, now):  # it does not answer, perhaps because it has just ended
                raise
    elif not _signal(row, now):
        message = text(
            "Runtime {id} cannot be reached: its supervisor is not the process that the store names.", id=row.id
        )
        raise LabError(message)
    return row


def end_own_job(runtime: str, why: str, *, now: bool, env: Mapping[str, str] = os.environ) -> bool:
    """On a node of a cluster: end the runtime whose kernel has started this process. False if it is not that one.

    The store of its lab is on another machine.
    """
    home = env.get(JOB_RUNTIME_HOME, "")
    if not home or env.get("OWNLAB_RUNTIME") != runtime:
        return False
    try:
        plan = read_plan(os.path.join(home, "plan.json"))
    except (OSError, ValueError, KeyError, TypeError):  # the job that set the variable has ended
        return False
    send_command(plan.control_endpoint, "end", why=why, now=now)
    return True


def extend_runtime(store: AnyStore, runtime_id: str) -> dict[str, Any]:
    """Postpone the end that a limit has set. Return the supervisor's answer (ends_at, ends_why)."""
    row = _find_own(store, runtime_id, _MAY_NOT_EXTEND)
    control = _control_endpoint(row)
    if control is None:
        message = text(
            "Runtime {id} can only be extended by {user}, from the account that started it.", id=row.id, user=row.person
        )
        raise LabError(message)
    return send_command(control, "extend")


def command_started(plan: Plan, do: str, **values: Any) -> dict[str, Any]:
    """Send a command to a supervisor that may have just started: its kernel runs a moment before it listens."""
    deadline = time.monotonic() + _LISTENS_WITHIN
    while is_runtime_alive(plan.runtime) and time.monotonic() < deadline:
        with contextlib.suppress(NotAnswering):
            return send_command(plan.control_endpoint, do, **values)
        time.sleep(0.02)
    return send_command(plan.control_endpoint, do, **values)


def send_signal(process: Mapping[str, int] | None, signum: int, *, group: bool = False) -> None:
    """Send a signal if that process is still alive; to its whole group if it leads one."""
    if process is None or not is_alive(process):
        return
    with contextlib.suppress(ProcessLookupError):  # it ended at this moment
        if group and os.getpgid(process["pid"]) == process["pid"]:
            os.killpg(process["pid"], signum)
        else:
            os.kill(process["pid"], signum)


def end_runtime(plan: Plan, child: subprocess.Popen[bytes] | None, why: str) -> None:
    """End the runtime immediately, in whatever state it is, and remove its folders. Blocks for a few seconds at most.

    If the relay of a job hangs or is dead, another one cancels the job, which may take longer. If that one does not get it done
    either, the folders stay, and the lab's next start tries again.
    """
    state = read_state(plan.home) or {}
    if is_alive(state.get("supervisor")):
        try:
            send_command(plan.control_endpoint, "end", why=why, now=True)
        except LabError:  # it does not answer: send a signal instead
            send_signal(state.get("supervisor"), signal.SIGTERM)
    if child is not None and child.stdin is not None:
        with contextlib.suppress(OSError):  # the other end of the pipe is gone
            child.stdin.close()

    def gone() -> bool:
        return not any(is_alive(state.get(name)) for name in ("keeper", "supervisor", "kernel")) and _reaped(child)

    is_gone = wait_until(_ENDS_WITHIN, gone)
    if may_have_job(plan):
        if not _cancel_job(plan, state, why):
            return
    elif not is_gone:
        # The keeper of a killed supervisor kills all its descendants, so the keeper is killed last.
        for victim in ("supervisor", "keeper"):
            send_signal(state.get(victim), signal.SIGKILL)
            if victim == "supervisor" and not state and child is not None:
                child.kill()
            if wait_until(_ENDS_WITHIN / 2, gone):
                break
    remove_folders(plan)


def _cancel_job(plan: Plan, state: Mapping[str, Any], why: str) -> bool:
    """Have another relay cancel the job of a runtime. Return whether it has ended."""
    from ownlab.lab.runtimes.start import revive  # which uses this module

    request_end(plan, why)
    if is_alive(state.get("keeper")):  # it starts another relay
        send_signal(state.get("supervisor"), signal.SIGKILL)
    else:
        revive(plan, os.environ)
    return wait_until(_JOB_ENDS_WITHIN, lambda: not may_have_job(plan), every=0.1)


def end_if_alive(runtime: str, why: str) -> None:
    """End a runtime that was to end, but does not. Waits for one that is ending."""
    plan = plan_of(runtime)
    if plan is None or plan.host not in ("", os.uname().nodename):
        return
    if not wait_until(
        _BEGINS_TO_END_WITHIN, lambda: state_of(runtime) not in _RUNNING or not is_runtime_alive(runtime)
    ):
        end_runtime(plan, None, why)


def remove_folders(plan: Plan) -> None:
    """Remove the runtime's folders, after its processes have ended."""
    for folder in {plan.home, plan.sockets} - {""}:
        shutil.rmtree(folder, ignore_errors=True)


def _find_own(store: AnyStore, runtime_id: str, refusal: Template) -> RuntimeRow:
    row = find_runtime(store, runtime_id)
    if os.geteuid() not in (0, row.uid):
        raise LabError((refusal if row.uid else _ROOT_ONLY).fill(id=row.id, user=row.person))
    return row


def _control_endpoint(row: RuntimeRow) -> Endpoint | None:
    """Where its commands are sent to; None if we cannot know it: another user's, or another OWNLAB_HOME."""
    if row.uid != os.geteuid():
        return None
    try:
        return read_plan(str(runtime_folder(row.id) / "plan.json")).control_endpoint
    except (OSError, ValueError, KeyError, TypeError):  # it is gone, or damaged
        return None


def _signal(row: RuntimeRow, now: bool) -> bool:
    """Signal its supervisor: SIGTERM lets it save its work; after SIGKILL its keeper kills the rest immediately.

    Everyone who shares the store can write rows, so the process must also be marked as this runtime's.
    """
    process = row.supervisor._asdict()
    if row.boot != boot_id() or not is_alive(process) or runtime_of_process(row.supervisor.pid) != row.id:
        return False
    os.kill(row.supervisor.pid, signal.SIGKILL if now else signal.SIGTERM)
    return True


def _reaped(child: subprocess.Popen[bytes] | None) -> bool:
    return child is None or child.poll() is not None


def wait_until(seconds: float, condition: Callable[[], bool], *, every: float = 0.01) -> bool:
    """Poll a condition; return whether it was met in time."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(every)
    return met

"""Reads the folders of runtimes: plan.json, state.json, and whether the processes that they name are alive."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ownlab.config.paths import state_folder
from ownlab.errors import LabError, StoreError
from ownlab.lab.runtimes.end_request import has_job_folder, may_have_job
from ownlab.lab.runtimes.launch_plan import Plan, read_plan
from ownlab.processes.procfs import read_stat
from ownlab.text import text, unpack_texts

__all__ = [
    "LEFT",
    "all_plans",
    "has_kernel",
    "is_alive",
    "is_locked",
    "is_run_below",
    "is_runtime_alive",
    "kernel_exit_code",
    "may_continue",
    "plan_of",
    "plan_with_journal_socket",
    "read_state",
    "runtime_folder",
    "state_of",
    "was_left",
]

LEFT = "left"  # the state of a runtime on a node whose relay has ended, while its job goes on


def runtime_folder(runtime: str, env: Mapping[str, str] = os.environ) -> Path:
    """The runtime's own folder, whether or not it exists."""
    return state_folder(env) / "runtimes" / runtime


def read_state(home: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return what the supervisor wrote last; None if there is nothing yet, or the runtime is gone."""
    try:
        with open(os.path.join(home, "state.json"), encoding="utf-8") as file:
            state: dict[str, Any] = unpack_texts(json.load(file))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        message = text("{folder}/state.json cannot be read: {error}.", folder=home, error=exc)
        raise LabError(message) from exc
    return state


def was_left(plan: Plan) -> bool:
    """Whether the relay of a runtime on a node has ended and left the job to the next one, on whatever host."""
    try:
        return (read_state(plan.home) or {}).get("state") == LEFT
    except LabError:
        return False


def is_alive(process: Mapping[str, int] | None) -> bool:
    """Whether this process, and not a later one with the same pid, is still running."""
    if process is None:
        return False
    stat = read_stat(process["pid"])
    return stat is not None and not stat.is_zombie and stat.started == process["started"]


def kernel_exit_code(home: str) -> int | None:
    """Return None while a kernel lives or is starting; otherwise its exit code, 1 if unknown."""
    state = read_state(home)
    if state is None:
        # Its next relay is being started, unless its files are just being removed.
        return None if has_job_folder(home) and os.path.exists(os.path.join(home, "plan.json")) else 1
    if "node" in state and state["state"] in ("waiting", "starting", "running", LEFT):
        return None  # it lives on a node, whether or not its relay does
    if is_alive(state.get("kernel")):
        return None
    if state["state"] in ("waiting", "starting") and is_alive(state.get("supervisor")):
        return None
    code = state.get("exit_code")
    return 1 if code is None else int(code)


def has_kernel(state: Mapping[str, Any]) -> bool:
    """Whether a kernel lives, here or, as its relay says, on a node."""
    return is_alive(state.get("kernel")) or bool((state.get("node") or {}).get("kernel"))


def plan_of(runtime: str) -> Plan | None:
    """Return the plan of one of this user's runtimes; None if there is no such runtime."""
    return _read_plan(_runtimes_folder() / runtime)


def state_of(runtime: str) -> str | None:
    """Return the state that the supervisor wrote last: "waiting", "running", …; None if there is no such runtime."""
    state = read_state(_runtimes_folder() / runtime)
    return str(state["state"]) if state else None


def all_plans(but: Collection[str] = ()) -> list[Plan]:
    """Return the plans of all runtimes of this user, except `but`."""
    try:
        names = sorted(os.listdir(_runtimes_folder()))
    except FileNotFoundError:
        return []
    return [plan for name in names if name not in but and (plan := _read_plan(_runtimes_folder() / name)) is not None]


def is_run_below(plan: Plan, folder: str) -> bool:
    """Whether it is a run, which belongs to no lab, of a notebook in or below this folder, which is a real path."""
    if plan.lab or not plan.journal or not plan.notebook:
        return False
    return os.path.realpath(plan.notebook).startswith(os.path.join(folder, ""))


def plan_with_journal_socket(runtime: str) -> Plan | None:
    """Return the plan of a runtime that can be followed; None for other kernels and runtimes without a journal."""
    plan = plan_of(runtime)
    if plan is None or not plan.journal:
        return None
    endpoint = plan.journal_endpoint
    # The relay of a node may just be started again: whoever follows it waits.
    return plan if plan.node is not None or not endpoint.is_unix or os.path.exists(endpoint.path) else None


def is_runtime_alive(runtime: str) -> bool:
    """Whether the supervisor may still write to the journal."""
    plan = plan_of(runtime)
    if plan is None:
        return False
    if plan.host not in ("", os.uname().nodename):  # with a shared home directory: unknown from here
        return True
    try:
        state = read_state(plan.home)
    except LabError:
        return True
    return is_alive(state.get("supervisor")) if state and state.get("supervisor") else is_locked(plan)


def may_continue(runtime: str) -> bool:
    """Whether the journal may still grow: by its supervisor, or by the next relay of a job that goes on while there is none."""
    plan = plan_of(runtime)
    return plan is not None and (may_have_job(plan) or is_runtime_alive(runtime))


def _runtimes_folder() -> Path:
    return state_folder() / "runtimes"


def _read_plan(home: Path) -> Plan | None:
    try:
        return read_plan(str(home / "plan.json"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError):
        # Damaged, or of another version: leave it alone.
        return None


def is_locked(plan: Plan) -> bool:
    """Whether a process of the runtime holds its lock; True if that cannot be told."""
    from ownlab.lab.store import locks
    from ownlab.lab.store.layout import lock_path

    try:
        beside = os.path.join(plan.home, f"{plan.runtime}.lock")  # used if the store's folder cannot be
        return locks.is_held(lock_path(plan.store, plan.runtime)) or locks.is_held(beside)
    except (OSError, StoreError):
        return True

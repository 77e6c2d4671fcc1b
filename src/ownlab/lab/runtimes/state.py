"""What a runtime's folder says of it: its state, whether its processes live, and how what is left of it is ended."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ownlab.config.paths import state_folder
from ownlab.errors import LabError, StoreError
from ownlab.lab.runtimes.plan import Plan, read_plan
from ownlab.lab.transport.journal_protocol import line_address
from ownlab.processes.procfs import read_stat

__all__ = [
    "all_plans",
    "exit_code",
    "is_run_in",
    "is_runtime_alive",
    "lives",
    "plan_of",
    "plan_with_line",
    "read_state",
    "runtime_folder",
    "state_of",
]


def runtime_folder(runtime: str, env: Mapping[str, str] = os.environ) -> Path:
    """The runtime's own folder, whether or not it is there."""
    return state_folder(env) / "runtimes" / runtime


def read_state(home: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What the supervisor wrote last; None where it has not yet, or where the runtime is gone."""
    try:
        with open(os.path.join(home, "state.json"), encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise LabError(f"{home}/state.json cannot be read: {exc}") from exc
    return found


def lives(process: Mapping[str, int] | None) -> bool:
    """Whether this very process, and not a later one of the same number, is still at work."""
    if process is None:
        return False
    stat = read_stat(process["pid"])
    return stat is not None and not stat.is_zombie and stat.started == process["started"]


def exit_code(home: str) -> int | None:
    """None while a kernel lives, or is still to come; else how it ended, 1 where nobody knows."""
    state = read_state(home)
    if state is None:
        return 1
    if lives(state.get("kernel")):
        return None
    if state["state"] in ("waiting", "starting") and lives(state.get("supervisor")):
        return None
    code = state.get("exit_code")
    return 1 if code is None else int(code)


def plan_of(runtime: str) -> Plan | None:
    """The plan of one of this person's runtimes; None where there is no such runtime (any more)."""
    return _read_plan(_folder() / runtime)


def state_of(runtime: str) -> str | None:
    """Its state as its supervisor wrote it last: "waiting", "running", …; None where there is no such runtime."""
    state = read_state(_folder() / runtime)
    return str(state["state"]) if state else None


def all_plans(but: Collection[str] = ()) -> list[Plan]:
    """Of every runtime of this person whose folder is there, but these."""
    try:
        names = sorted(os.listdir(_folder()))
    except FileNotFoundError:
        return []
    return [plan for name in names if name not in but and (plan := _read_plan(_folder() / name)) is not None]


def is_run_in(plan: Plan, folder: str) -> bool:
    """Whether it is a run, which belongs to no lab, of a notebook in this folder or below; `folder` is a real path."""
    if plan.lab or not plan.journal or not plan.notebook:
        return False
    return os.path.realpath(plan.notebook).startswith(os.path.join(folder, ""))


def plan_with_line(runtime: str) -> Plan | None:
    """Of a runtime that can be followed. Foreign kernels cannot, nor a runtime of an ownlab that kept no journals."""
    plan = plan_of(runtime)
    if plan is None or not plan.journal:
        return None
    return plan if os.path.exists(line_address(plan.sockets).removeprefix("ipc://")) else None


def is_runtime_alive(runtime: str) -> bool:
    """Whether its supervisor may still write to its journal."""
    plan = plan_of(runtime)
    if plan is None:
        return False
    if plan.host not in ("", os.uname().nodename):  # with a shared home: nothing can be told from here
        return True
    try:
        state = read_state(plan.home)
    except LabError:
        return True
    return lives(state.get("supervisor")) if state and state.get("supervisor") else _is_held(plan)


def _folder() -> Path:
    return state_folder() / "runtimes"


def _read_plan(home: Path) -> Plan | None:
    try:
        return read_plan(str(home / "plan.json"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError):
        # Damaged, or another version's: whose it is cannot be told, so it is left alone.
        return None


def _is_held(plan: Plan) -> bool:
    from ownlab.lab.store.store import Store

    try:
        with Store.open(plan.store, create=False) as store:
            return store.alive(plan.runtime)
    except StoreError:
        return True

"""This person's runtimes, by their folders."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from ownlab.config.paths import state_folder
from ownlab.lab.runtimes.plan import Plan, read_plan
from ownlab.lab.runtimes.state import read_state
from ownlab.lab.transport.line_protocol import line_address

__all__ = ["all_plans", "is_run_in", "plan_of", "plan_with_line", "state_of"]


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

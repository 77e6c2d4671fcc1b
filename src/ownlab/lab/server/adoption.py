"""Which runtimes of a lab are alive when its server starts, and what their supervisors say of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ownlab.errors import LabError, StoreError
from ownlab.lab.runtimes.operations import remove_folders
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.runtimes.state import all_plans, is_run_below, read_state
from ownlab.lab.transport.control import send_command

__all__ = ["Survivor", "bury", "living", "survivors"]

# A supervisor answers within milliseconds; one that does not is stopped, or the machine is swapping.
_PATIENCE = 2.0
# What can be adopted. A runtime whose kernel just died is: it is restarted, as under a server that was there all along.
_ADOPTABLE = ("waiting", "starting", "running", "dead")


class Survivor(NamedTuple):
    """A runtime that goes on without a server."""

    plan: Plan
    status: dict[str, Any]  # as the supervisor answers; only what its state.json holds where it does not answer


def survivors(lab: str, folder: str) -> tuple[list[Survivor], list[Plan]]:
    """The living runtimes of a lab, and the plans that dead ones left behind. Only for who holds the lab's lock.

    Runs of notebooks in its folder are adopted too, and never buried: one that begins just now looks dead.
    """
    # Of another host's, with which this one shares a home, nothing can be told here: it is not ours to bury.
    plans = [plan for plan in all_plans() if _is_here(plan) and (plan.lab == lab or is_run_below(plan, folder))]
    known = _statuses(plans)
    dead = [plan for plan in plans if plan.lab and known[plan.runtime] is None]
    return _adoptable(plans, known), dead


def living(plans: Sequence[Plan]) -> list[Survivor]:
    """Those of this host that can be adopted by a server that is there already: what died under it is over."""
    plans = [plan for plan in plans if _is_here(plan)]
    return [one for one in _adoptable(plans, _statuses(plans)) if one.status["state"] != "dead"]


def _adoptable(plans: Sequence[Plan], known: Mapping[str, dict[str, Any] | None]) -> list[Survivor]:
    found = []
    for plan in plans:
        status = known[plan.runtime]
        if not status or not status.get("connection") or status["state"] not in _ADOPTABLE:
            continue
        if plan.lab or status["state"] != "dead":  # a run whose kernel died is over: nobody starts another one
            found.append(Survivor(plan, status))
    return found


def _is_here(plan: Plan) -> bool:
    return plan.host in ("", os.uname().nodename)


def _statuses(plans: Sequence[Plan]) -> dict[str, dict[str, Any] | None]:
    """By runtime; None: it is dead."""
    if not plans:  # nothing is imported for nothing: somebody waits for the page
        return {}
    from ownlab.processes.background import call_each

    return {plan.runtime: status for plan, status in zip(plans, call_each(_status, plans), strict=True)}


def bury(plans: Iterable[Plan]) -> None:
    """Take away what dead runtimes left: their folders, their rows in the store, their locks, their processes."""
    from ownlab.lab.store.store import Store

    plans = list(plans)
    for folder in {plan.store for plan in plans}:
        with Store.open(folder, create=False) as store:
            store.reap()
    for plan in plans:
        remove_folders(plan)


def _status(plan: Plan) -> dict[str, Any] | None:
    """None: it is dead."""
    try:
        return send_command(plan.sockets, "status", timeout=_PATIENCE)
    except LabError:
        # Stopped, or gone: its lock tells.
        return read_state(plan.home) if _alive(plan) else None


def _alive(plan: Plan) -> bool:
    from ownlab.lab.store.store import Store

    try:
        with Store.open(plan.store, create=False) as store:
            return store.is_alive(plan.runtime)
    except StoreError:
        return True  # nobody can tell: nothing of it is touched

"""Which runtimes of a lab are alive when its server starts, and what their supervisors say of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from ownlab.errors import LabError, StoreError
from ownlab.lab.runtimes.control import ask
from ownlab.lab.runtimes.folders import all_plans
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.runtimes.state import read_state, remove

__all__ = ["Survivor", "bury", "survivors"]

# A supervisor answers within milliseconds; one that does not is stopped, or the machine is swapping.
_PATIENCE = 2.0
# What can be adopted. A runtime whose kernel just died is: it is restarted, as under a server that was there all along.
_ADOPTABLE = ("waiting", "starting", "running", "dead")


class Survivor(NamedTuple):
    """A runtime that goes on without a server."""

    plan: Plan
    status: dict[str, Any]  # as the supervisor answers; only what its state.json holds where it does not answer


def survivors(lab: str) -> tuple[list[Survivor], list[Plan]]:
    """The living runtimes of a lab, and the plans that dead ones left behind. Only for who holds the lab's lock."""
    # Of another host's, with which this one shares a home, nothing can be told here: it is not ours to bury.
    plans = [plan for plan in all_plans() if plan.lab == lab and plan.host in ("", os.uname().nodename)]
    if not plans:  # nothing is imported for nothing: somebody waits for the page
        return [], []
    from ownlab.guests.beside import each_beside

    living, dead = [], []
    for plan, status in zip(plans, each_beside(_status, plans), strict=True):
        if status is None:
            dead.append(plan)
        elif status.get("state") in _ADOPTABLE and status.get("connection"):
            living.append(Survivor(plan, status))
    return living, dead


def bury(plans: Iterable[Plan]) -> None:
    """Take away what dead runtimes left: their folders, their rows in the store, their locks, their processes."""
    from ownlab.lab.store.store import Store

    plans = list(plans)
    for folder in {plan.store for plan in plans}:
        with Store.open(folder, create=False) as store:
            store.reap()
    for plan in plans:
        remove(plan)


def _status(plan: Plan) -> dict[str, Any] | None:
    """None: it is dead."""
    try:
        return ask(plan.sockets, "status", timeout=_PATIENCE)
    except LabError:
        # Stopped, or gone: its lock tells.
        return read_state(plan.home) if _alive(plan) else None


def _alive(plan: Plan) -> bool:
    from ownlab.lab.store.store import Store

    try:
        with Store.open(plan.store, create=False) as store:
            return store.alive(plan.runtime)
    except StoreError:
        return True  # nobody can tell: nothing of it is touched

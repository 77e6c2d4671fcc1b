"""Every living runtime that a store, a lock or a folder names: what remains known even if the store cannot be used."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection, Mapping
from typing import Any, cast

from ownlab.errors import LabError, OwnlabError, StoreError
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.state import all_plans, read_state
from ownlab.lab.store.lock_records import holds_lock_elsewhere
from ownlab.lab.store.locks_only import AnyStore
from ownlab.lab.store.orphans import boot_id
from ownlab.lab.store.rows import Process, RuntimeRow, State

__all__ = ["is_living", "living_runtimes", "person", "runtimes_with_a_folder"]

# States of state.json that a row does not have.
_ROW_STATES: dict[str, State] = {"dead": "starting", "refused": "ending", "ended": "ending"}


def living_runtimes(store: AnyStore) -> list[RuntimeRow]:
    """Return the living runtimes of everyone who uses the store, and those of this user that only have a folder."""
    rows = [row for row in store.runtimes() if is_living(store, row)]
    return [*rows, *runtimes_with_a_folder({row.id for row in rows})]


def is_living(store: AnyStore, row: RuntimeRow) -> bool:
    """Whether the runtime's lock is held, at its place or, if it was removed or could not be created there, elsewhere."""
    try:
        if store.is_alive(row.id):
            return True
    except StoreError:  # the folder of locks cannot be used
        pass
    return row.boot == boot_id() and holds_lock_elsewhere(row)


def runtimes_with_a_folder(known: Collection[str]) -> list[RuntimeRow]:
    """Return the living runtimes of this user that have a folder, except `known`: those which no store knows."""
    try:
        plans = all_plans(but=known)
    except OwnlabError:  # a user without a state folder, who cannot create one either, has no runtimes there
        return []
    rows = (_row(plan) for plan in plans if plan.host in ("", os.uname().nodename))
    return [row for row in rows if row is not None and holds_lock_elsewhere(row)]


def person() -> str:
    """Return the name of this user."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user without a name, as in containers
        return f"uid {os.geteuid()}"


def _row(plan: Plan) -> RuntimeRow | None:
    try:
        state = read_state(plan.home)
        began = os.stat(os.path.join(plan.home, "plan.json")).st_mtime
    except (LabError, OSError):
        return None
    if state is None:
        return None
    keeper, supervisor = _process(state.get("keeper")), _process(state.get("supervisor"))
    if keeper is None or supervisor is None:
        return None
    name = str(state.get("state"))
    return RuntimeRow(
        id=plan.runtime,
        uid=os.geteuid(),
        person=person(),
        lab=plan.lab,
        notebook=plan.notebook,
        type=plan.type,
        label=plan.label,
        want=plan.want,
        state=_ROW_STATES.get(name, cast(State, name)),
        queued_at=began,
        started_at=began,
        boot=boot_id(),
        keeper=keeper,
        supervisor=supervisor,
        kernel=_process(state.get("kernel")),
        busy=False,
        changed_at=began,
        ends_at=None,
        ends_why="",
        may_extend=False,
        units_per_hour=plan.units_per_hour,
    )


def _process(given: Mapping[str, Any] | None) -> Process | None:
    return None if given is None else Process(int(given["pid"]), int(given["started"]))

"""What a supervisor writes down: state.json for its owner, its row and its use in the store for everyone.

Nothing here ends a kernel: where the disk is full the reason is remembered, and it is tried again.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ownlab.errors import StoreError
from ownlab.files import replace_file
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.store.rows import Process
from ownlab.units import PARTS

if TYPE_CHECKING:
    from ownlab.lab.store.store import Store

__all__ = ["FAILED", "Book", "cards_held", "first_state", "say", "write_state"]

FAILED = 3  # exit code of a supervisor whose kernel never came to life; its state.json has the reason

# Seconds. A cell that runs for a millisecond makes the kernel busy and idle: such changes are gathered.
_GATHER = 1.0
_RETRY = 5.0


def say(text: str) -> None:
    """One line in the runtime's log, with the time; or nothing, where the disk that it would tell of is full."""
    with suppress(OSError):
        os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode(errors="replace"))


def first_state(plan: Plan, keeper: Process, supervisor: Process | None) -> dict[str, Any]:
    """What state.json says at the beginning."""
    return {
        "runtime": plan.runtime,
        "state": "starting",
        "reason": "",
        "place": None,
        "keeper": keeper._asdict(),
        "supervisor": supervisor._asdict() if supervisor else None,
        "kernel": None,
        "exit_code": None,
        "connection": plan.connection,
        "devices": [],
        "launches": 0,
    }


def write_state(plan: Plan, state: dict[str, Any]) -> str:
    """Replace state.json; why that failed, or "" where it did not."""
    try:
        replace_file(os.path.join(plan.home, "state.json"), json.dumps(state))
    except OSError as exc:
        return f"state.json cannot be written: {exc.strerror}"
    return ""


class Book:
    """Holds what is to be written until it is."""

    def __init__(self, plan: Plan, store: Store, state: dict[str, Any]) -> None:
        self.state = state
        self.trouble = ""
        self._plan = plan
        self._store = store
        self._columns: dict[str, object] = {}
        self._state_due = False
        self._due: float | None = None
        self._flushed_at = float("-inf")
        self._metered_at: float | None = None

    def note(self, **changes: Any) -> None:
        """Change state.json, now."""
        self.state.update(changes)
        self._state_due = True
        self.flush(time.monotonic(), only_state=True)

    def row(self, *, now: bool = False, **columns: object) -> None:
        """Change columns of the runtime's row: with the next flush, or now."""
        self._columns.update(columns)
        if self._due is None:
            self._due = max(time.monotonic(), self._flushed_at + _GATHER)
        if now:
            self.flush(time.monotonic())

    def due(self) -> float | None:
        """When `flush` should be called next."""
        return self._due

    def flush(self, now: float, *, only_state: bool = False) -> None:
        """Write what waits. What cannot be written waits on."""
        trouble = ""
        if self._state_due:
            trouble = write_state(self._plan, self.state)
            self._state_due = bool(trouble)
        if self._columns and not only_state:
            self._flushed_at, self._due = now, None
            try:
                self._store.update(self._plan.runtime, **self._columns)
                self._columns = {}
            except StoreError as exc:
                trouble = exc.message
        if trouble:
            self._due = now + _RETRY
        if trouble != self.trouble and not (only_state and not trouble):
            say(trouble or "the store and state.json can be written again")
            self.trouble = trouble

    def meter(self, now: float, *, begin: bool = False) -> None:
        """Add what was used since the last time to today's use, by the clock that never jumps."""
        if begin:
            self._metered_at = now
        if self._metered_at is None or now <= self._metered_at:
            return
        plan, seconds = self._plan, now - self._metered_at
        try:
            self._store.add_usage(
                plan.runtime, seconds, seconds * cards_held(plan), seconds / 3600 * plan.units_per_hour
            )
            self._metered_at = now
        except StoreError as exc:
            say(f"the use of {seconds:.0f} s is written later: {exc.message}")


def cards_held(plan: Plan) -> float:
    """How many whole cards a runtime's leases come to."""
    return plan.want.cards * plan.want.parts / PARTS if plan.want.kind else 0.0

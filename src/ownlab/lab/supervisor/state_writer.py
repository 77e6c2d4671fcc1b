"""Everything that a supervisor writes: state.json for its owner, its row and usage in the store for everyone, and the log.

A full disk never ends a kernel: the reason is kept, and writing is retried.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ownlab.atomic_files import replace_file
from ownlab.errors import StoreError
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.store.rows import Process
from ownlab.text import pack_texts, text
from ownlab.units import PARTS

if TYPE_CHECKING:
    from ownlab.lab.supervisor.registration import Registration

__all__ = ["FAILED", "LEFT", "StateWriter", "cards_held", "initial_state", "log", "write_script_end", "write_state"]

FAILED = 3  # exit code of a supervisor whose kernel never ran; state.json has the reason
LEFT = 75  # exit code of a relay that has left its job to the next one

# Seconds. A cell that runs for a millisecond makes the kernel busy and idle: such changes are written together.
_GATHER = 1.0
_RETRY = 5.0
_CHECK = 10.0  # between two looks whether the store still has this runtime


def log(message: str) -> None:
    """Write one line with the time to the runtime's log, or nothing if the disk is full."""
    with suppress(OSError):
        os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {message}\n".encode(errors="replace"))


def initial_state(plan: Plan, keeper: Process, supervisor: Process | None) -> dict[str, Any]:
    """The first content of state.json."""
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
    """Replace state.json. Return why that failed, or ""."""
    try:
        replace_file(os.path.join(plan.home, "state.json"), json.dumps(pack_texts(state)))
    except OSError as exc:
        return text("state.json cannot be written: {reason}", reason=exc.strerror)
    return ""


def write_script_end(plan: Plan, state: Mapping[str, Any], *, stopped: str) -> None:
    """Write how a script ended into its folder, which is kept. `stopped`: why it was ended from outside, otherwise ""."""
    end = {
        "at": time.time(),
        "exit_code": state["exit_code"],
        "state": state["state"],
        "reason": state["reason"],
        "stopped": stopped,
    }
    try:
        replace_file(os.path.join(plan.script_folder, "end.json"), json.dumps(pack_texts(end)))
    except OSError as exc:
        log(f"the end of the script cannot be written: {exc.strerror}")


class StateWriter:
    """Buffers changes until they are written."""

    def __init__(self, plan: Plan, registration: Registration, state: dict[str, Any]) -> None:
        self.state = state
        self.trouble = ""
        self._plan = plan
        self._registration = registration
        self._columns: dict[str, object] = {}
        self._state_due = False
        self._due: float | None = None
        self._flushed_at = float("-inf")
        self._metered_at: float | None = None
        self._check_at = time.monotonic() + _CHECK

    def update_state(self, **changes: Any) -> None:
        """Change state.json immediately."""
        self.state.update(changes)
        self._state_due = True
        self.flush(time.monotonic(), only_state=True)

    def update_row(self, *, now: bool = False, **columns: object) -> None:
        """Change columns of the runtime's row, with the next flush or immediately."""
        self._columns.update(columns)
        if self._due is None:
            self._due = max(time.monotonic(), self._flushed_at + _GATHER)
        if now:
            self.flush(time.monotonic())

    def due(self) -> float:
        """When `flush` must be called next."""
        return self._check_at if self._due is None else min(self._due, self._check_at)

    def flush(self, now: float, *, only_state: bool = False) -> None:
        """Write what is pending. What cannot be written stays pending."""
        trouble = ""
        if self._state_due:
            trouble = write_state(self._plan, self.state)
            self._state_due = bool(trouble)
        if not only_state:
            self._due = None
        if not only_state and (self._columns or now >= self._check_at):
            self._flushed_at, self._check_at = now, now + _CHECK
            try:
                if self._columns:
                    self._registration.update(**self._columns)
                else:
                    self._registration.check()
                self._columns = {}
            except StoreError as exc:
                trouble = exc.message
        if trouble:
            self._due = now + _RETRY
        if trouble != self.trouble and not (only_state and not trouble):
            log(trouble or "the store and state.json can be written again")
            self.trouble = trouble

    def record_usage(self, now: float, *, begin: bool = False) -> None:
        """Add the usage since the last call to today's, measured by the monotonic clock."""
        if begin:
            self._metered_at = now
        if self._metered_at is None or now <= self._metered_at:
            return
        plan, seconds = self._plan, now - self._metered_at
        try:
            self._registration.add_usage(seconds, seconds * cards_held(plan), seconds / 3600 * plan.units_per_hour)
            self._metered_at = now
        except StoreError as exc:
            log(f"the usage of {seconds:.0f} s will be written later: {exc.message}")


def cards_held(plan: Plan) -> float:
    """The number of whole cards that the runtime's leases amount to."""
    return plan.want.cards * plan.want.parts / PARTS if plan.want.kind else 0.0

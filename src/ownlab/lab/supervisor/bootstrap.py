"""The start of a supervisor: open the store, lease cards, start the kernel, and only then import the rest."""

from __future__ import annotations

import os
import pwd
import signal
import time
from typing import Any

from ownlab.errors import CardsTaken, DeviceUnusable, LabError, StoreError
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.store.orphans import boot_id
from ownlab.lab.store.rows import Lease, Process, QueuePosition, RuntimeRow
from ownlab.lab.supervisor.kernel_process import Launcher
from ownlab.lab.supervisor.process_tree import adopt_orphans, identify, signal_when_parent_dies
from ownlab.lab.supervisor.registration import Registration
from ownlab.lab.supervisor.state_writer import FAILED, StateWriter, initial_state, log, write_state
from ownlab.text import sentences

__all__ = ["KEEPER_DIED", "runtime_row", "supervise"]

KEEPER_DIED = signal.SIGUSR1


def supervise(plan: Plan, keeper: Process, lock: int, umask: int) -> int:
    """Run the runtime from the queue to its end. Return the exit code: 0, or FAILED."""
    # Signals stay pending until the event loop can read them.
    signal.pthread_sigmask(signal.SIG_BLOCK, (KEEPER_DIED, signal.SIGTERM, signal.SIGCHLD))
    signal_when_parent_dies(KEEPER_DIED)
    adopt_orphans()
    if os.getppid() != keeper.pid:
        return 1
    own = identify(os.getpid())
    state = initial_state(plan, keeper, own)
    launcher = Launcher(plan, lock, umask)
    try:
        registration = Registration(plan.store, runtime_row(plan, keeper, own), lock)
        granted = _register(plan, registration)
        kernel = None
        if not isinstance(granted, QueuePosition):
            launcher.assign(plan.devices, granted)
            kernel = launcher.start({}, plan.cwd)
    except (LabError, CardsTaken, DeviceUnusable) as exc:
        refused = not isinstance(exc, LabError)
        return _fail(plan, state, "refused" if refused else "ended", sentences(exc.message, exc.hint))
    # The kernel is starting: what is imported from here on does not delay it.
    from ownlab.lab.supervisor.lifecycle import Lifecycle

    lifecycle = Lifecycle(plan, registration, StateWriter(plan, registration, state), launcher)
    lifecycle.begin(granted, kernel)
    if lifecycle.exit_code is None:
        from ownlab.lab.supervisor.event_loop import run

        run(lifecycle, keeper.pid)
    lifecycle.close()
    registration.close()
    return lifecycle.exit_code or 0


def _register(plan: Plan, registration: Registration) -> tuple[Lease, ...] | QueuePosition:
    """Enter the queue and ask for cards. A runtime without cards starts even if the store cannot be used."""
    try:
        registration.enqueue()
        return registration.acquire(plan.devices, quota=plan.limits.card_seconds_per_week)
    except StoreError as exc:
        if plan.want.kind is not None:
            raise
        log(f"not in the store yet: {exc.message}")
        return ()


def _fail(plan: Plan, state: dict[str, Any], how: str, reason: str) -> int:
    log(f"{how}: {reason}")
    write_state(plan, {**state, "state": how, "reason": reason})
    return FAILED


def runtime_row(plan: Plan, keeper: Process, supervisor: Process) -> RuntimeRow:
    """The row of a runtime that is about to start."""
    now, uid = time.time(), os.getuid()
    try:
        person = pwd.getpwuid(uid).pw_name
    except KeyError:
        person = str(uid)  # a user without a name, as in containers
    return RuntimeRow(
        id=plan.runtime,
        uid=uid,
        person=person,
        lab=plan.lab,
        notebook=plan.notebook,
        type=plan.type,
        label=plan.label,
        want=plan.want,
        state="waiting",
        queued_at=now,
        started_at=None,
        boot=boot_id(),
        keeper=keeper,
        supervisor=supervisor,
        kernel=None,
        busy=False,
        changed_at=now,
        ends_at=None,
        ends_why="",
        may_extend=False,
        units_per_hour=plan.units_per_hour,
    )

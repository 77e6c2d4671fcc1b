"""The runtime of a run: started for it, or kept from the last one; and ended with it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType

from ownlab.errors import LabError
from ownlab.lab.runs.reporter import Stop, Teller
from ownlab.lab.runs.validation import Ready
from ownlab.lab.runtimes import operations, start
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.transport.control import send_command

__all__ = ["RunRuntime"]

# Seconds.
_START = 60.0
_LOOK = 0.3  # between two looks at the queue
_ENDS = 5.0  # beyond what functions given to on_end have


class RunRuntime:
    """Ends where its block is left, unless it is kept."""

    def __init__(self, ready: Ready) -> None:
        self._ready = ready
        self._child: subprocess.Popen[bytes] | None = None
        self.plan = ready.kept or _plan(ready)
        if ready.kept is None:
            self._child = _spawn(self.plan, ready.env)
        self.kept = ready.kept is not None  # it stays
        self.at_once = False  # nobody waits for functions given to on_end

    def __enter__(self) -> RunRuntime:
        return self

    def wait(self, teller: Teller, stop: Stop) -> None:
        """Until it has its kernel. CardsTaken or LabError where it does not get one."""
        if self._ready.kept is not None:
            return
        told = ""
        while True:
            now = start.wait_until_started(self.plan, _START, self._child)
            if now["state"] != "waiting":
                return
            if now["reason"] != told:
                told = now["reason"]
                teller.waiting(self.plan.label, self._ready.report("waiting", told))
            if stop.signum:
                raise KeyboardInterrupt
            time.sleep(_LOOK)

    def end(self, why: str) -> None:
        """End it, unless it is kept: after functions given to on_end had their time. Nothing of it is left."""
        if self.kept:
            return
        try:
            if not self.at_once:
                with suppress(LabError):  # it has ended by itself
                    send_command(self.plan.sockets, "end", why=why, now=False)
                    operations.wait_until(self.plan.limits.on_end + _ENDS, self._is_gone)
        finally:
            operations.end_runtime(self.plan, self._child, why)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end("its run is over")

    def _is_gone(self) -> bool:
        if self._child is not None:
            return self._child.poll() is not None
        return not os.path.exists(self.plan.home)


def _spawn(plan: Plan, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return start.start_supervisor(plan, env)
    except BaseException:
        operations.remove_folders(plan)
        raise


def _plan(ready: Ready) -> Plan:
    return start.make_plan(
        ready.type,
        runtime=ready.runtime,
        cwd=os.path.dirname(ready.input),
        env=ready.env,
        # One that may be kept has to outlive us; any other ends with us, however that happens.
        detached=ready.asked.keep,
        wait=ready.asked.wait,
        journal=True,
        notebook=ready.output.path,
    )

"""The runtime of a run: started for it or kept from the last one, and ended with it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType

from ownlab.errors import LabError
from ownlab.lab.runs.reporter import Reporter, Stop
from ownlab.lab.runs.validation import PreparedRun
from ownlab.lab.runtimes import operations, start
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.text import text

__all__ = ["RunRuntime"]

# Seconds.
_START = 60.0
_POLL = 0.3  # between two reads of the queue
_ENDS = 5.0  # in addition to the time of on_end functions
_ENDS_ON_NODE = 60.0  # the same, with the end of its job


class RunRuntime:
    """A context manager that ends the runtime, unless it is kept."""

    def __init__(self, prepared: PreparedRun) -> None:
        self._prepared = prepared
        self._child: subprocess.Popen[bytes] | None = None
        self.plan = prepared.kept or _plan(prepared)
        if prepared.kept is None:
            self._child = _spawn(self.plan, prepared.env)
        self.kept = prepared.kept is not None  # it outlives the run
        self.at_once = False  # without time for on_end functions

    def __enter__(self) -> RunRuntime:
        return self

    def wait(self, reporter: Reporter, stop: Stop) -> None:
        """Wait until it has its kernel. CardsTaken or LabError if it gets none."""
        if self._prepared.kept is not None:
            return
        shown = ""
        while True:
            now = start.wait_until_started(self.plan, _START, self._child)
            if now["state"] != "waiting":
                return
            if now["reason"] != shown:
                shown = now["reason"]
                reporter.waiting(self.plan.label, self._prepared.report("waiting", shown))
            if stop.signum:
                raise KeyboardInterrupt
            time.sleep(_POLL)

    def end(self, why: str) -> None:
        """End it, unless it is kept, after on_end functions had their time. No process is left."""
        if self.kept:
            return
        try:
            if not self.at_once:
                with suppress(LabError):  # it has already ended
                    operations.command_started(self.plan, "end", why=why, now=False)
                    ends = _ENDS if self.plan.node is None else _ENDS_ON_NODE
                    operations.wait_until(self.plan.limits.on_end + ends, self._has_ended)
        finally:
            operations.end_runtime(self.plan, self._child, why)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end(text("its run is over"))

    def _has_ended(self) -> bool:
        if self._child is not None:
            return self._child.poll() is not None
        return not os.path.exists(self.plan.home)


def _spawn(plan: Plan, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return start.start_supervisor(plan, env)
    except BaseException:
        operations.remove_folders(plan)
        raise


def _plan(prepared: PreparedRun) -> Plan:
    return start.make_plan(
        prepared.type if prepared.request.node_type is None else prepared.request.node_type,
        runtime=prepared.runtime,
        cwd=os.path.dirname(prepared.input),
        env=prepared.env,
        # A runtime that may be kept must outlive us; any other ends with us in any case.
        detached=prepared.request.keep,
        wait=prepared.request.wait,
        journal=True,
        notebook=prepared.output.path,
    )

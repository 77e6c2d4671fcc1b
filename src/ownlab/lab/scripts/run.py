"""One run of a script from start to end, or into the background.

The runtime's supervisor owns the ranks, writes how they ended, and needs nobody else: a run in the background has no process
besides. One in the foreground ends with the process that started it, even if that is killed.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ownlab.errors import CardsTaken, DeadlineError, LabError
from ownlab.lab.runs.reporter import Stop
from ownlab.lab.runtimes import operations, start
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.state import read_state
from ownlab.lab.scripts.folder import LogFollower, log_file, remove_unstarted
from ownlab.lab.scripts.outcome import describe_run
from ownlab.lab.scripts.preparation import PreparedScript
from ownlab.lab.scripts.records import ScriptReport
from ownlab.lab.transport.control import send_command
from ownlab.text import text

__all__ = ["ScriptReporter", "run_script", "start_in_background"]

# Seconds.
_POLL = 0.05
_START = 60.0


class ScriptReporter:
    """Receives the progress of a run. This base class ignores it."""

    def waiting(self, label: str, reason: str) -> None:
        """No card is free; the reason says who uses them and how many are waiting."""

    def started(self, prepared: PreparedScript, cards: tuple[int, ...]) -> None:
        """The ranks are starting, on the cards with these numbers."""

    def output(self, printed: str) -> None:
        """Rank 0 has printed something."""

    def interrupting(self) -> None:
        """The ranks were asked to end, and may still save."""


def run_script(prepared: PreparedScript, reporter: ScriptReporter, stop: Stop) -> ScriptReport:
    """Run a script to its end. CardsTaken or LabError if it cannot begin."""
    with _started(prepared, detached=False) as (plan, child):
        run = _Run(prepared, plan, child, reporter, stop)
        run.follow()
    return describe_run(prepared.folder, prepared.start)


def start_in_background(prepared: PreparedScript) -> ScriptReport:
    """Start a script that goes on without us. Return once it runs, waits for a card, or has ended already."""
    plan, child = _start(prepared, detached=True)
    deadline = time.monotonic() + _START
    try:
        while child.poll() is None:
            state = read_state(plan.home)
            if state is not None and state["state"] in ("waiting", "running"):
                return describe_run(prepared.folder, prepared.start)
            _check_deadline(deadline)
            time.sleep(_POLL)
    except BaseException:  # Ctrl-C too
        operations.end_runtime(plan, child, text("it did not start"))
        raise
    _raise_refusal(prepared, plan)
    operations.remove_folders(plan)
    return describe_run(prepared.folder, prepared.start)


def _check_deadline(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise DeadlineError(text("The script did not start in {seconds:g} s.", seconds=_START))


@contextmanager
def _started(prepared: PreparedScript, *, detached: bool) -> Iterator[tuple[Plan, subprocess.Popen[bytes]]]:
    plan, child = _start(prepared, detached=detached)
    try:
        yield plan, child
    finally:
        operations.end_runtime(plan, child, text("its run is over"))


def _start(prepared: PreparedScript, *, detached: bool) -> tuple[Plan, subprocess.Popen[bytes]]:
    plan = None
    try:
        plan = start.make_script_plan(
            prepared.type,
            prepared.script,
            runtime=prepared.start.runtime,
            ranks=prepared.start.ranks,
            folder=prepared.folder,
            name=prepared.name,
            cwd=prepared.start.cwd,
            env=prepared.env,
            detached=detached,
            wait=prepared.request.wait,
        )
        return plan, start.start_supervisor(plan, prepared.env)
    except BaseException:
        if plan is not None:
            operations.remove_folders(plan)
        remove_unstarted(prepared.folder)
        raise


class _Run:
    """A run in the foreground."""

    def __init__(
        self,
        prepared: PreparedScript,
        plan: Plan,
        child: subprocess.Popen[bytes],
        reporter: ScriptReporter,
        stop: Stop,
    ) -> None:
        self._prepared, self._plan, self._child = prepared, plan, child
        self._reporter, self._stop = reporter, stop
        self._log = LogFollower(log_file(prepared.folder, 0))
        self._has_started = self._waits = False
        self._reason = ""
        self._requests = 0  # to stop, so far
        self._handled = 0
        self._wake = threading.Event()

    def follow(self) -> None:
        """Show what rank 0 prints until everything has ended."""
        self._stop.on_request(self._requested)
        while self._child.poll() is None:
            self._read_state()
            self._handle_requests()
            if not self._show_output():
                self._wake.wait(_POLL)
                self._wake.clear()
        while self._show_output():
            pass
        self._stop.on_request(lambda: None)
        if not self._has_started:
            _raise_refusal(self._prepared, self._plan)

    def _show_output(self) -> bool:
        printed = self._log.read()
        if printed:
            self._reporter.output(printed)
        return bool(printed)

    def _read_state(self) -> None:
        if self._has_started:
            return
        state = read_state(self._plan.home)
        if state is None:
            return
        self._waits = state["state"] == "waiting"
        if self._waits and state["reason"] != self._reason:
            self._reason = state["reason"]
            self._reporter.waiting(self._plan.label, self._reason)
        elif state["state"] == "running":
            self._has_started = True
            held = state["devices"]
            self._reporter.started(
                self._prepared, tuple(device.number for device in self._plan.devices if device.uuid in held)
            )

    def _requested(self) -> None:
        """Called by a signal handler: nothing but a note is safe there."""
        self._requests += 1
        self._wake.set()

    def _handle_requests(self) -> None:
        while self._handled < self._requests and self._can_be_asked():
            self._handled += 1
            with suppress(LabError):  # it is about to end
                self._handle_request()

    def _can_be_asked(self) -> bool:
        """A moment after its start the supervisor does not listen yet."""
        return self._has_started or self._waits

    def _handle_request(self) -> None:
        """The first Ctrl-C interrupts, as in a shell. The second one, or any while the run waits, ends it at once."""
        control = self._plan.control_endpoint
        if self._handled > 1 or self._waits:
            send_command(control, "end", why=text("it was interrupted"), now=True)
        elif self._stop.signum == signal.SIGINT:
            self._reporter.interrupting()
            send_command(control, "signal", signum=int(signal.SIGINT))
        else:
            send_command(control, "end", why=text("the process that started it was ended"), now=False)


def _raise_refusal(prepared: PreparedScript, plan: Plan) -> None:
    """Raise the reason if the script never began. Its folder is removed."""
    state: dict[str, Any] = read_state(plan.home) or {}
    reason: str = state.get("reason") or text("its supervisor ended")
    error: LabError | CardsTaken
    if state.get("state") == "refused":
        error = CardsTaken(reason, hint=text("`ownlab runtimes` shows who holds which card."))
    elif state.get("launches") == 0:
        error = LabError(text("The runtime {label} did not start: {reason}", label=plan.label, reason=reason))
    else:
        return
    operations.remove_folders(plan)
    remove_unstarted(prepared.folder)
    raise error

"""One run of a script from start to end, or into the background, on whatever engine.

One in the background has no process here. One in the foreground ends with the process that started it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ownlab.errors import CardsTaken, DeadlineError, LabError
from ownlab.lab.engines.interface import Engine, Job, JobStatus, Task
from ownlab.lab.runs.reporter import Stop
from ownlab.lab.scripts.folder import LogFollower, log_file, remove_unstarted, write_reference
from ownlab.lab.scripts.outcome import describe_run
from ownlab.lab.scripts.preparation import PreparedScript
from ownlab.lab.scripts.records import ScriptReport
from ownlab.text import text

__all__ = ["ScriptReporter", "run_script", "start_in_background", "task_of"]

# Seconds.
_POLL = 0.05
_START = 60.0


class ScriptReporter:
    """Receives the progress of a run. This base class ignores it."""

    def waiting(self, prepared: PreparedScript, status: JobStatus) -> None:
        """No card is free; the reason says who uses them and how many are waiting."""

    def started(self, prepared: PreparedScript, status: JobStatus) -> None:
        """The ranks are starting, on the cards and nodes of this status."""

    def output(self, printed: str) -> None:
        """Rank 0 has printed something."""

    def interrupting(self) -> None:
        """The ranks were asked to end, and may still save."""


def run_script(prepared: PreparedScript, reporter: ScriptReporter, stop: Stop) -> ScriptReport:
    """Run a script to its end. CardsTaken or LabError if it cannot begin."""
    with _submitted(prepared, detached=False) as job:
        run = _Run(prepared, job, reporter, stop)
        run.follow()
    return describe_run(prepared.folder, prepared.start, prepared.engine)


def start_in_background(prepared: PreparedScript) -> ScriptReport:
    """Start a script that goes on without us. Return once it runs, waits for a card, or has ended already."""
    engine, job = prepared.engine, _submit(prepared, detached=True)
    deadline = time.monotonic() + _START
    try:
        while (status := _status(engine, job)).state == "starting":
            _check_deadline(deadline)
            time.sleep(_POLL)
    except BaseException:  # Ctrl-C too
        engine.cancel(job, "now", text("it did not start"))
        raise
    if status.has_ended:
        engine.cancel(job, "now", text("its run is over"))
        _raise_refusal(prepared, status)
    return describe_run(prepared.folder, prepared.start, engine)


def task_of(prepared: PreparedScript, *, detached: bool) -> Task:
    """A prepared run, as engines take it."""
    start = prepared.start
    return Task(
        runtime=start.runtime,
        name=prepared.name,
        script=start.script,
        ranks=start.ranks // start.nodes,
        offer=prepared.offer,
        folder=prepared.folder,
        cwd=start.cwd,
        env=prepared.env,
        detached=detached,
        wait=prepared.request.wait,
    )


def _check_deadline(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise DeadlineError(text("The script did not start in {seconds:g} s.", seconds=_START))


def _status(engine: Engine, job: Job) -> JobStatus:
    return engine.status([job])[0]


@contextmanager
def _submitted(prepared: PreparedScript, *, detached: bool) -> Iterator[Job]:
    job = _submit(prepared, detached=detached)
    try:
        yield job
    finally:
        prepared.engine.cancel(job, "now", text("its run is over"))


def _submit(prepared: PreparedScript, *, detached: bool) -> Job:
    start = prepared.start
    try:
        job = prepared.engine.submit(task_of(prepared, detached=detached))
    except BaseException:
        remove_unstarted(prepared.folder)
        raise
    try:
        if job.reference:
            write_reference(prepared.folder, start, job.reference)
    except BaseException:
        prepared.engine.cancel(job, "now", text("it did not start"))
        raise
    return job


class _Run:
    """A run in the foreground."""

    def __init__(self, prepared: PreparedScript, job: Job, reporter: ScriptReporter, stop: Stop) -> None:
        self._prepared, self._job = prepared, job
        self._reporter, self._stop = reporter, stop
        self._log = LogFollower(log_file(prepared.folder, 0))
        self._state = "starting"
        self._has_started = False
        self._reason = ""
        self._requests = 0  # to stop, so far
        self._handled = 0
        self._wake = threading.Event()

    def follow(self) -> None:
        """Show what rank 0 prints until everything has ended."""
        self._stop.on_request(self._requested)
        while not (status := _status(self._prepared.engine, self._job)).has_ended:
            self._show_status(status)
            self._handle_requests()
            if not self._show_output():
                self._wake.wait(_POLL)
                self._wake.clear()
        while self._show_output():
            pass
        self._stop.on_request(lambda: None)
        _raise_refusal(self._prepared, status)

    def _show_output(self) -> bool:
        printed = self._log.read()
        if printed:
            self._reporter.output(printed)
        return bool(printed)

    def _show_status(self, status: JobStatus) -> None:
        if status.state == "waiting" and status.reason != self._reason:
            self._reason = status.reason
            self._reporter.waiting(self._prepared, status)
        elif status.state == "running" and not self._has_started:
            self._has_started = True
            self._reporter.started(self._prepared, status)
        self._state = status.state

    def _requested(self) -> None:
        """Called by a signal handler: nothing but a note is safe there."""
        self._requests += 1
        self._wake.set()

    def _handle_requests(self) -> None:
        while self._handled < self._requests and self._state != "starting":
            self._handled += 1
            with suppress(LabError):  # it is about to end
                self._handle_request()

    def _handle_request(self) -> None:
        """The first Ctrl-C interrupts, as in a shell. The second one, or any while the run waits, ends it at once."""
        engine = self._prepared.engine
        if self._handled > 1 or self._state == "waiting":
            engine.cancel(self._job, "now", text("it was interrupted"))
        elif self._stop.signum == signal.SIGINT:
            self._reporter.interrupting()
            engine.cancel(self._job, "interrupt", text("it was interrupted"))
        else:
            engine.cancel(self._job, "end", text("the process that started it was ended"))


def _raise_refusal(prepared: PreparedScript, status: JobStatus) -> None:
    """Raise the reason if the script never began. Its folder is removed."""
    error: LabError | CardsTaken
    if status.state == "refused":
        error = CardsTaken(status.reason, hint=text("`ownlab runtimes` shows who holds which card."))
    elif status.state == "unstarted":
        label = prepared.start.label
        error = LabError(text("The runtime {label} did not start: {reason}", label=label, reason=status.reason))
    else:
        return
    remove_unstarted(prepared.folder)
    raise error

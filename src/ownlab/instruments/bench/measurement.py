"""One measurement: starts the guest, reads its events, and builds the report, complete or not."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import IO

import msgspec
from msgspec.structs import replace

import ownlab
from ownlab.errors import DeadlineError, InterpreterError, OwnlabError
from ownlab.guest_client import last_line
from ownlab.instruments.bench.assessment import assess_results
from ownlab.instruments.bench.machine_summary import machine_notes, summarise
from ownlab.instruments.bench.records import (
    BenchReport,
    Done,
    Event,
    MachineSummary,
    Plan,
    Request,
    Result,
    Skip,
    Skipped,
)
from ownlab.json_encoding import decode_guest_json, encode_json
from ownlab.machine.interpreter import GUEST_ENVIRONMENT
from ownlab.machine.records import Machine
from ownlab.processes.runner import describe_exit
from ownlab.text import text

__all__ = ["INTERRUPTED", "GuestDied", "Progress", "build_report", "collect_events", "run_guest"]

INTERRUPTED = text("it was interrupted")


class Progress:
    """The events of the guest so far."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.results: list[Result] = []
        self.skipped: list[Skip] = []
        self.trouble = ""
        self.notes: list[str] = []
        self.begun = time.monotonic()
        self.when = datetime.now(timezone.utc).isoformat(timespec="seconds")

    def add(self, event: Event) -> None:
        """Add an event."""
        if isinstance(event, Plan):
            self.plan = event
        elif isinstance(event, Result):
            self.results.append(event)
        elif isinstance(event, Skip):
            self.skipped.append(event)


def collect_events(events: Iterable[Event], progress: Progress, on_event: Callable[[Event], None]) -> None:
    """Collect all events. If the guest dies or hangs, or at Ctrl-C, which is raised, `progress` keeps what came before."""
    try:
        for event in events:
            progress.add(event)
            on_event(event)
    except (GuestDied, DeadlineError) as exc:
        progress.trouble = exc.message
    except (KeyboardInterrupt, SystemExit):
        progress.trouble = INTERRUPTED
        raise


def build_report(progress: Progress, request: Request, machine: Machine) -> BenchReport:
    """Build the report from the events so far."""
    plan = progress.plan or Plan(())
    groups = {test.name: test.group for test in plan.tests}
    return BenchReport(
        when=progress.when,
        ownlab=ownlab.__version__,
        profile=request.profile,
        seconds=round(time.monotonic() - progress.begun, 1),
        machine=_summarise(machine, plan),
        complete=not progress.trouble,
        trouble=progress.trouble,
        notes=(*progress.notes, *(plan.notes or machine_notes(machine))),
        results=assess_results([_without_notes(plan.notes, result) for result in progress.results], machine),
        skipped=tuple(
            Skipped(skip.name, skip.group or groups.get(skip.name, ""), skip.reason, skip.message)
            for skip in progress.skipped
        ),
    )


def _summarise(machine: Machine, plan: Plan) -> MachineSummary:
    """The versions that the guest reports take precedence."""
    summary = summarise(machine)
    if plan.torch is None:
        return replace(summary, numpy=plan.numpy)
    return replace(summary, torch=plan.torch, cuda=plan.cuda, numpy=plan.numpy)


def _without_notes(notes: tuple[str, ...], result: Result) -> Result:
    """Remove the notes on the whole run, which the report has once."""
    return replace(result, notes=tuple(note for note in result.notes if note not in notes))


_LAUNCH = Path(__file__).resolve().parents[3] / "ownlab_guest" / "launch.py"
# A test takes seconds. A guest that is silent for longer than this hangs in a driver or on a dead disk.
_SILENT_SECONDS = 180.0
# Beyond the budget: frameworks take time to start, and the running test is finished.
_LATE_SECONDS = 240.0
# For a clean exit; a guest that is stuck in the driver is killed after that.
_GRACE_SECONDS = 5.0
_STDERR_KEPT = 4000


class GuestDied(OwnlabError):
    """The guest ended early. Its events until then are valid."""


def run_guest(
    request: Request, python: str, *, silence: float = _SILENT_SECONDS, late: float = _LATE_SECONDS
) -> Generator[Event, None, None]:
    """Run the guest in `python` and yield its events. Raises GuestDied if it ends early, DeadlineError if it hangs."""
    deadline = time.monotonic() + request.budget_seconds + late
    # Unnamed files: nothing remains, even if this process is killed.
    with tempfile.TemporaryFile() as question, tempfile.TemporaryFile() as errors:
        question.write(encode_json(request))
        question.seek(0)
        child = _start([python, str(_LAUNCH), "bench.run", "-"], question, errors, request.budget_seconds + late)
        try:
            answered = done = False
            for line in _lines(child, deadline, silence):
                event = _decode(line)
                done = done or isinstance(event, Done)
                if event is not None:
                    answered = True
                    yield event
            if not done:
                child.wait()
                ending = _describe_end(child, errors.fileno())
                raise (
                    GuestDied(ending)
                    if answered
                    else InterpreterError(text("{python}: {ending}.", python=python, ending=ending))
                )
        finally:
            _end(child)


def _start(command: list[str], question: IO[bytes], errors: IO[bytes], seconds: float) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=question,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **GUEST_ENVIRONMENT, "OWNLAB_GUEST_SECONDS": f"{seconds:g}"},
            start_new_session=True,  # Ctrl-C must not reach the guest; its own children end with it
        )
    except OSError as exc:
        raise InterpreterError(
            text("Cannot run the Python {path}: {reason}.", path=command[0], reason=exc.strerror)
        ) from exc


def _lines(child: subprocess.Popen[bytes], deadline: float, silence: float) -> Iterator[bytes]:
    assert child.stdout is not None
    buffer, last = bytearray(), time.monotonic()
    with selectors.DefaultSelector() as waiting:
        waiting.register(child.stdout, selectors.EVENT_READ)
        while True:
            until = min(deadline, last + silence)
            if not waiting.select(max(0.0, until - time.monotonic())):
                message = (
                    text("the benchmark process sent nothing for {seconds:g} s and was stopped", seconds=silence)
                    if until < deadline
                    else text("the benchmark process exceeded its budget by far and was stopped")
                )
                raise DeadlineError(message, hint=text("A driver or a disk may hang. See: ownlab doctor"))
            part = os.read(child.stdout.fileno(), 1 << 16)
            if not part:
                break
            buffer += part
            last = time.monotonic()
            *whole, rest = bytes(buffer).split(b"\n")
            buffer = bytearray(rest)
            yield from whole
    yield bytes(buffer)  # the last line may have no end


def _decode(line: bytes) -> Event | None:
    """Return None for a line that is not an event: output of a library, or a truncated line."""
    try:
        event: Event = decode_guest_json(line, Event)
    except msgspec.DecodeError:
        return None
    return event


def _describe_end(child: subprocess.Popen[bytes], errors: int) -> str:
    size = os.fstat(errors).st_size
    output = os.pread(errors, _STDERR_KEPT, max(0, size - _STDERR_KEPT)).decode(errors="replace")
    ending, message = describe_exit(child.returncode), last_line(output)
    if message:
        return text("the benchmark process {ending} early: {message}", ending=ending, message=message)
    return text("the benchmark process {ending} early", ending=ending)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Terminate, then kill. A process that is stuck in the kernel is left behind."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is None:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_SECONDS)
    if child.stdout is not None:
        child.stdout.close()
    if child.returncode is None:
        child.returncode = -signal.SIGKILL  # avoids a warning of Python

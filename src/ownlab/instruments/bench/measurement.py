"""One run: events of the guest gathered into a report, whole or as far as it came."""

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
from ownlab.instruments.bench.assessment import judge_all
from ownlab.instruments.bench.machine_summary import notes_on, summarise
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
from ownlab.json_encoding import encode_json
from ownlab.machine.interpreter import GUEST_ENVIRONMENT
from ownlab.machine.records import Machine
from ownlab.processes.runner import describe_exit

__all__ = ["BUDGETS", "INTERRUPTED", "CutOff", "Gathered", "ask_events", "gather", "report_of"]

# Seconds; the guest starts no test that would not end in them. Starting torch and reading the machine come on top.
BUDGETS = {"quick": 18.0, "default": 150.0, "full": 900.0}
INTERRUPTED = "it was interrupted"


class Gathered:
    """What the guest has said so far."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.results: list[Result] = []
        self.skipped: list[Skip] = []
        self.trouble = ""
        self.notes: list[str] = []
        self.begun = time.monotonic()
        self.when = datetime.now(timezone.utc).isoformat(timespec="seconds")

    def take(self, event: Event) -> None:
        """Keep what is to be kept of an event."""
        if isinstance(event, Plan):
            self.plan = event
        elif isinstance(event, Result):
            self.results.append(event)
        elif isinstance(event, Skip):
            self.skipped.append(event)


def gather(events: Iterable[Event], gathered: Gathered, heard: Callable[[Event], None]) -> None:
    """Take in events to their end. A guest that dies or hangs leaves what it said; Ctrl-C leaves it too, and is passed on."""
    try:
        for event in events:
            gathered.take(event)
            heard(event)
    except (CutOff, DeadlineError) as exc:
        gathered.trouble = exc.message
    except (KeyboardInterrupt, SystemExit):
        gathered.trouble = INTERRUPTED
        raise


def report_of(gathered: Gathered, request: Request, machine: Machine) -> BenchReport:
    """The report of what was gathered."""
    plan = gathered.plan or Plan(())
    groups = {test.name: test.group for test in plan.tests}
    return BenchReport(
        when=gathered.when,
        ownlab=ownlab.__version__,
        profile=request.profile,
        seconds=round(time.monotonic() - gathered.begun, 1),
        machine=_where(machine, plan),
        complete=not gathered.trouble,
        trouble=gathered.trouble,
        notes=(*gathered.notes, *_notes(machine, plan)),
        results=judge_all([_without(plan.note, result) for result in gathered.results], machine),
        skipped=tuple(
            Skipped(skip.name, skip.group or groups.get(skip.name, ""), skip.reason, skip.message)
            for skip in gathered.skipped
        ),
    )


def _where(machine: Machine, plan: Plan) -> MachineSummary:
    """The guest has the last word on what it measured with."""
    seen = summarise(machine)
    if plan.torch is None:
        return replace(seen, numpy=plan.numpy)
    return replace(seen, torch=plan.torch, cuda=plan.cuda, numpy=plan.numpy)


def _without(note: str, result: Result) -> Result:
    """What holds for the whole run is said once."""
    said = [part for part in result.note.split("; ") if part and part != note]
    return replace(result, note="; ".join(said))


def _notes(machine: Machine, plan: Plan) -> tuple[str, ...]:
    said = plan.note[:1].upper() + plan.note[1:] + "." if plan.note else ""
    return (said,) if said else notes_on(machine)


_LAUNCH = Path(__file__).resolve().parents[3] / "ownlab_guest" / "launch.py"
# One test takes seconds. A guest that says nothing for so long hangs, in a driver or on a dead disk.
_SILENT_SECONDS = 180.0
# Beyond its budget: frameworks take their time to start, and the test that is under way is finished.
_LATE_SECONDS = 240.0
# So that it can remove the file of the disk's test; one that is stuck in the driver is killed then.
_GRACE_SECONDS = 5.0
_STDERR_KEPT = 4000
_EVENTS = msgspec.json.Decoder(Event)


class CutOff(OwnlabError):
    """The guest ended before it was done: what it said until then holds."""


def ask_events(
    request: Request, python: str, *, silence: float = _SILENT_SECONDS, late: float = _LATE_SECONDS
) -> Generator[Event, None, None]:
    """What the guest says in `python`, as it says it. Raises CutOff or DeadlineError where it ends too early or not at all."""
    deadline = time.monotonic() + request.budget_seconds + late
    # Neither file has a name: nothing stays of them, even where we are killed.
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as errors:
        asked.write(encode_json(request))
        asked.seek(0)
        child = _start([python, str(_LAUNCH), "bench.run", "-"], asked, errors, request.budget_seconds + late)
        try:
            heard = done = False
            for line in _lines(child, deadline, silence):
                event = _decode(line)
                done = done or isinstance(event, Done)
                if event is not None:
                    heard = True
                    yield event
            if not done:
                child.wait()
                how = _how_it_ended(child, errors.fileno())
                raise CutOff(how) if heard else InterpreterError(f"{python}: {how}")
        finally:
            _end(child)


def _start(command: list[str], asked: IO[bytes], errors: IO[bytes], seconds: float) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=asked,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **GUEST_ENVIRONMENT, "OWNLAB_GUEST_SECONDS": f"{seconds:g}"},
            start_new_session=True,  # Ctrl-C in a terminal is meant for us, and the guest's own children end with it
        )
    except OSError as exc:
        raise InterpreterError(f"{command[0]} is not a Python that can be run: {exc.strerror}") from exc


def _lines(child: subprocess.Popen[bytes], deadline: float, silence: float) -> Iterator[bytes]:
    assert child.stdout is not None
    said, heard = bytearray(), time.monotonic()
    with selectors.DefaultSelector() as waiting:
        waiting.register(child.stdout, selectors.EVENT_READ)
        while True:
            until = min(deadline, heard + silence)
            if not waiting.select(max(0.0, until - time.monotonic())):
                why = f"said nothing for {silence:g} s" if until < deadline else "took far longer than its budget"
                raise DeadlineError(
                    f"the guest {why}: it was ended", hint="Is a driver or a disk hanging? ownlab doctor"
                )
            part = os.read(child.stdout.fileno(), 1 << 16)
            if not part:
                break
            said += part
            heard = time.monotonic()
            *whole, rest = bytes(said).split(b"\n")
            said = bytearray(rest)
            yield from whole
    yield bytes(said)  # the last line may have no end


def _decode(line: bytes) -> Event | None:
    """None for what is no event: a library that writes to stdout, or a line that was cut."""
    try:
        event: Event = _EVENTS.decode(line)
    except msgspec.DecodeError:
        return None
    return event


def _how_it_ended(child: subprocess.Popen[bytes], errors: int) -> str:
    size = os.fstat(errors).st_size
    said = os.pread(errors, _STDERR_KEPT, max(0, size - _STDERR_KEPT)).decode(errors="replace")
    words = last_line(said)
    return f"the guest {describe_exit(child.returncode)} before it was done" + (f": {words}" if words else "")


def _end(child: subprocess.Popen[bytes]) -> None:
    """First asked, then made to; one that is stuck in the kernel is left behind."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is None:
            with contextlib.suppress(OSError):  # it ended by itself meanwhile
                os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_SECONDS)
    if child.stdout is not None:
        child.stdout.close()
    if child.returncode is None:
        child.returncode = -signal.SIGKILL  # so that Python does not warn of it

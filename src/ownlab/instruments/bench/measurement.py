"""One run: events of the guest gathered into a report, whole or as far as it came."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone

from msgspec.structs import replace

import ownlab
from ownlab.errors import DeadlineError
from ownlab.instruments.bench.guest_client import CutOff
from ownlab.instruments.bench.judge import judge_all
from ownlab.instruments.bench.records import BenchReport, Event, MachineSummary, Plan, Request, Result, Skip, Skipped
from ownlab.instruments.bench.summary import notes_on, summarise
from ownlab.machine.records import Machine

__all__ = ["BUDGETS", "INTERRUPTED", "Gathered", "gather", "report_of"]

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

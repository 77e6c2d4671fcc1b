"""Invented evidence: runs whose every figure is known, for rules that need a GPU, several ranks, or a machine in trouble."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ownlab.instruments.why.explanation import explain
from ownlab.instruments.why.records import (
    EVIDENCE_FORMAT,
    Call,
    Counters,
    Evidence,
    Explanation,
    Fetch,
    Loader,
    Place,
    Process,
    Sample,
    Snippet,
    Worker,
)

PHASES = (
    *("forward", "update", "between", "validation", "data", "workers", "backward"),
    *("optimizer", "save", "log", "sync", "copy", "gc", "cache"),
)
FILE = "/home/ada/train.py"
MS = 1_000_000
SECOND = 1_000_000_000


def place(line: int = 30, function: str = "train") -> Place:
    return Place(FILE, line, function)


def process(count: int = 40, *, backwards: int = 1, cpu_ms: float = 10.0, **given: Any) -> Process:
    """A process whose steps all take these phases in milliseconds (keywords such as data_ms); other keywords are its fields."""
    times = {name: given.pop(f"{name}_ms", 0.0) for name in PHASES}
    duration = round(sum(times.values()) * MS)
    row = (round(cpu_ms * MS), backwards, 1, *(round(times[name] * MS) for name in PHASES))
    steps = tuple((SECOND + number * duration, duration, *row) for number in range(count))
    fields: dict[str, Any] = {
        "format": EVIDENCE_FORMAT,
        "pid": 100,
        "argv": (FILE,),
        "python": "3.11.7",
        "torch": "2.13.0",
        "rank": None,
        "world": None,
        "ended": "measured",
        "began_ns": SECOND,
        "now_ns": SECOND + count * duration,
        "device": "cpu",
        "cores": 16,
        "cpu_quota": None,
        "torch_threads": 1,
        "phases": PHASES,
        "steps": steps,
        "unfinished": (0,) * len(PHASES),
        "unfinished_phase": "between",
        "spans": (),
        "calls": (Call("backward", "backward", place(), "", count, 0, 0, count),),
        "samples": (),
        "loaders": (),
        "optimizers": (),
        "data_parallel": None,
        "ddp": None,
        "counters": (Counters(at_ns=SECOND), Counters(at_ns=SECOND + count * duration)),
    }
    calls = (*fields["calls"], *given.pop("calls", ()))
    return Process(**(fields | given | {"calls": calls}))


def call(phase: str, what: str, milliseconds: float, count: int = 40, **given: Any) -> Call:
    fields: dict[str, Any] = {"where": place(33), "detail": "", "first_step": 0, "last_step": count}
    return Call(phase=phase, what=what, count=count, ns=round(milliseconds * count * MS), **(fields | given))


def sample(phase: str, milliseconds: float, *stack: Place, **given: Any) -> Sample:
    fields: dict[str, Any] = {"library": "", "in_model": False, "call": "", "count": 20}
    return Sample(phase=phase, stack=stack, ns=round(milliseconds * MS), **(fields | given))


def loader(**given: Any) -> Loader:
    fields: dict[str, Any] = {
        "dataset": "Images",
        "dataset_where": Place(FILE, 8, "Images.__getitem__"),
        "iterable": False,
        "batch_size": 64,
        "num_workers": 0,
        "pin_memory": False,
        "prefetch_factor": None,
        "persistent_workers": False,
        "start_method": None,
        "where": place(21),
        "batches": 40,
        "trained": 40,
        "wait_ns": 0,
        "epochs": ((1 * MS, 1 * MS),),
        "pids": (),
        "fetches": (),
    }
    return Loader(**(fields | given))


def fetch(begin_ms: float, *, cpu: float = 0.0, blocked: float = 0.0, queue: float = 0.0, **given: Any) -> Fetch:
    """A fetch by its parts in milliseconds."""
    wall = cpu + blocked + queue
    fields: dict[str, Any] = {"process_cpu": cpu, "collate": 0.0, "read": 0, "disk": 0, "samples": 64, "batch_bytes": 0}
    fields |= given
    times = {name: round(fields.pop(name) * MS) for name in ("process_cpu", "collate")}
    begin = SECOND + round(begin_ms * MS)
    return Fetch(begin=begin, wall=round(wall * MS), cpu=round(cpu * MS), queue=round(queue * MS), **times, **fields)


def workers(count: int, every_ms: float, fetches: int = 20, **parts: Any) -> tuple[Worker, ...]:
    """Workers that fetch at regular times."""
    return tuple(
        Worker(number, 200 + number, 1, tuple(fetch(index * every_ms, **parts) for index in range(fetches)))
        for number in range(count)
    )


SNIPPETS = (
    Snippet(FILE, 21, "    loader = DataLoader(images, batch_size=64)\n"),
    Snippet(FILE, 33, "        torch.cuda.empty_cache()\n"),
    Snippet(FILE, 40, "    model = DDP(model, find_unused_parameters=True)\n"),
)


def evidence(*processes: Process, workers: tuple[Worker, ...] = ()) -> Evidence:
    return Evidence(EVIDENCE_FORMAT, "1", ("python", "train.py"), 0, processes, workers, SNIPPETS, pythons=1)


def explained(*processes: Process, workers: tuple[Worker, ...] = ()) -> Explanation:
    return explain(evidence(*processes, workers=workers))


def codes(explanation: Explanation) -> list[str]:
    return [finding.code for finding in explanation.findings]


def with_counters(process: Process, **last: int) -> Process:
    """The same process with other counters at the end of the measurement."""
    first, end = process.counters
    return replace(process, counters=(first, replace(end, **last)))

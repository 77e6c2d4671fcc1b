"""Reads what the guest has written, adds the statements of the user's code, and keeps all of it in one file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ownlab import __version__
from ownlab.atomic_files import write_file
from ownlab.errors import OwnlabError, RecordError
from ownlab.input_files import read_bytes
from ownlab.instruments.why.code_change import read_snippet
from ownlab.instruments.why.gpu.kernel_window import read_window
from ownlab.instruments.why.gpu.records import CardReading
from ownlab.instruments.why.records import EVIDENCE_FORMAT, Evidence, Fetch, Place, Process, Sample, Snippet, Worker
from ownlab.json_encoding import decode_json, encode_json
from ownlab.text import text

__all__ = ["collect", "load_evidence", "save_evidence", "without_arguments"]

# Places whose statements are kept: those that findings may name.
_MOST_SNIPPETS = 200


class _Line(msgspec.Struct):
    """A line of a worker's file: its description, a fetch, or its samples up to now."""

    worker: int | None = None
    pid: int | None = None
    threads: int = 1
    fetch: Fetch | None = None
    samples: tuple[Sample, ...] | None = None


def collect(folder: Path, command: Sequence[str], exit_code: int | None, cards: Iterable[CardReading] = ()) -> Evidence:
    """Read the folder of a run. What is damaged is left out, and said."""
    problems: list[str] = []
    found = [process for path in sorted(folder.glob("process-*.json")) if (process := _process(path, problems))]
    processes = [_with_window(process, folder, problems) for process in found]
    workers = [worker for path in sorted(folder.glob("worker-*.jsonl")) if (worker := _worker(path))]
    return Evidence(
        format=EVIDENCE_FORMAT,
        ownlab=__version__,
        command=without_arguments(command),
        exit_code=exit_code,
        processes=tuple(processes),
        workers=tuple(workers),
        snippets=tuple(_snippets(processes, workers)),
        pythons=len(list(folder.glob("python-*"))),
        problems=tuple(problems),
        cards=tuple(cards),
    )


def _with_window(process: Process, folder: Path, problems: list[str]) -> Process:
    """Add what the profiler's trace says; the trace itself is thrown away."""
    gpu = process.gpu
    if gpu is None or not gpu.trace or "/" in gpu.trace or gpu.window_steps < 1:
        return process
    try:
        window = read_window(str(folder / gpu.trace), gpu.window_steps)
    except (OwnlabError, OSError, ValueError) as exc:
        problems.append(text("The trace of the profiler cannot be read: {reason}", reason=exc))
        return process
    return replace(process, gpu=replace(gpu, window=window))


def without_arguments(command: Sequence[str]) -> tuple[str, ...]:
    """The program and the script: other arguments may be secrets, and evidence is passed on."""
    for before, argument in pairwise(command):
        if before == "-m" or argument.endswith((".py", ".sh")):
            return command[0], argument
    return (command[0],)


def _process(path: Path, problems: list[str]) -> Process | None:
    try:
        return decode_json(path.read_bytes(), Process)
    except (OSError, msgspec.DecodeError) as exc:
        problems.append(text("The evidence of a process cannot be read: {reason}", reason=exc))
        return None


def _worker(path: Path) -> Worker | None:
    """Read a worker's lines; the last one may be cut, since workers are killed."""
    lines: list[_Line] = []
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(msgspec.DecodeError):
            lines.append(decode_json(line, _Line))
    if not lines or lines[0].worker is None or lines[0].pid is None:
        return None
    samples = next((line.samples for line in reversed(lines) if line.samples is not None), ())
    fetches = tuple(line.fetch for line in lines if line.fetch is not None)
    return Worker(lines[0].worker, lines[0].pid, lines[0].threads, fetches, samples)


def _snippets(processes: Iterable[Process], workers: Iterable[Worker]) -> Iterator[Snippet]:
    seen: set[tuple[str, int]] = set()
    for place in _places(processes, workers):
        if len(seen) >= _MOST_SNIPPETS:
            return
        if (place.file, place.line) not in seen:
            seen.add((place.file, place.line))
            snippet = read_snippet(place)
            if snippet is not None:
                yield snippet


def _places(processes: Iterable[Process], workers: Iterable[Worker]) -> Iterator[Place]:
    for process in processes:
        named = [loader.where for loader in process.loaders]
        named += [optimizer.where for optimizer in process.optimizers]
        named += [call.where for call in sorted(process.calls, key=lambda call: -call.ns)[:40]]
        named += [sample.where for sample in process.samples[:40]]
        named += [parallel.where for parallel in (process.ddp, process.data_parallel) if parallel is not None]
        if process.gpu is not None:
            named += [line.where for line in process.gpu.syncs]
        if process.trial is not None:
            named += [*process.trial.optimizers, process.trial.threads_where]
            named += [process.trial.model.where] if process.trial.model is not None else []
        yield from (place for place in named if place is not None)
    for worker in workers:
        yield from (sample.where for sample in worker.samples[:5] if sample.where is not None)


def save_evidence(evidence: Evidence, path: Path) -> None:
    """Write the evidence as one JSON document."""
    write_file(path, encode_json(evidence) + b"\n")


def load_evidence(path: str) -> Evidence:
    """Read a file of `--save`. RecordError if it is none, or one of a newer ownlab."""
    try:
        evidence = decode_json(read_bytes(path), Evidence)
    except msgspec.DecodeError as exc:
        message = text("{path} was not written by `ownlab why --save`: {reason}.", path=path, reason=exc)
        raise RecordError(message) from exc
    if evidence.format > EVIDENCE_FORMAT:
        raise RecordError(text("{path} was saved by a newer ownlab ({version}).", path=path, version=evidence.ownlab))
    return evidence

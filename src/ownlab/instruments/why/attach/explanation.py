"""Explains a process from samples of its stacks, and from what the kernel counts of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ownlab.errors import InputError
from ownlab.instruments.why.attach.process_facts import Reading, below, between, read_process
from ownlab.instruments.why.attach.records import Observed
from ownlab.instruments.why.attach.refusals import check_process
from ownlab.instruments.why.attach.stacks import Stack, is_user_code, sample_stacks
from ownlab.instruments.why.formatting import NAMES, format_place, format_share
from ownlab.instruments.why.records import Explanation, Finding, Place
from ownlab.instruments.why.rule import LOWEST_SHARE, Cause
from ownlab.instruments.why.rules.data_loading import FewWorkers, NoWorkers, WorkersRestarted
from ownlab.instruments.why.rules.interruptions import FrequentCheckpoints, SlowLogging
from ownlab.instruments.why.rules.machine_load import BusyMachine, Swapping
from ownlab.instruments.why.rules.python_work import WorkBetweenSteps
from ownlab.instruments.why.rules.slow_samples import SlowPreparing, SlowReading
from ownlab.text import Text, listing, plural, sentences, text
from ownlab.units import format_bytes, format_seconds

__all__ = ["explain_process", "explain_stacks", "part_of"]

# The part of a step that a frame belongs to, by the end of its file and its function; the innermost frame that has one decides.
_MARKS: tuple[tuple[str, str, str], ...] = (
    ("torch/serialization.py", "save", "save"),
    ("safetensors/torch.py", "save_file", "save"),
    ("logging/__init__.py", "", "log"),
    ("torch/utils/tensorboard/writer.py", "", "log"),
    ("wandb/sdk/wandb_run.py", "log", "log"),
    ("torch/utils/data/dataloader.py", "__next__", "data"),
    ("torch/utils/data/dataloader.py", "__iter__", "workers"),
    ("torch/utils/data/dataloader.py", "_get_iterator", "workers"),
    ("torch/autograd/__init__.py", "backward", "backward"),
    ("torch/optim/optimizer.py", "wrapper", "optimizer"),
    ("torch/nn/modules/module.py", "_call_impl", "forward"),
)
_FETCH = "torch/utils/data/_utils/fetch.py"
_WORKER = "torch/utils/data/_utils/worker.py"
# A worker that fetches for more of its time than this is what the training waits for.
_BUSY = 0.7
_HALF = 0.5
_MUCH_QUEUE = 0.2


def explain_process(pid: int, seconds: float) -> Explanation:
    """Observe a process for some seconds, and explain it."""
    check_process(pid)
    first = {each: read_process(each) for each in below(pid)}
    stacks = sample_stacks(pid, seconds)
    last = {each: read_process(each) for each in first}
    ended = last[pid].cpu_seconds is None
    return explain_stacks(pid, stacks, first, last, ended=ended)


class _Seen(NamedTuple):
    """The samples by what they are of."""

    training: list[Stack]
    workers: dict[int, list[Stack]]
    others: int  # processes that train, too


def explain_stacks(
    pid: int, stacks: list[Stack], first: dict[int, Reading], last: dict[int, Reading], *, ended: bool
) -> Explanation:
    """Explain samples."""
    seen = _sorted(pid, stacks)
    count = sum(stack.samples for stack in seen.training)
    if not count:
        raise InputError(text("Process {pid} runs no Python that could be seen.", pid=pid))
    shares: Counter[str] = Counter()
    for stack in seen.training:
        shares[part_of(stack.frames)] += stack.samples
    trainer = seen.training[0].pid
    processes = tuple(
        between(each, "training" if each == trainer else "worker" if each in seen.workers else "other", first[each], last[each])
        for each in first
        if last[each].cpu_seconds is not None
    )  # fmt: skip
    observed = Observed(
        pid=trainer,
        seconds=round(last[pid].at - first[pid].at, 2),
        samples=count,
        ended=ended,
        shares={name: round(number / count, 4) for name, number in shares.most_common()},
        processes=processes,
    )
    findings = list(_findings(seen, observed)) if _has_trained(observed) else []
    # The load of others distorts all other figures, but is no cause in the user's code.
    findings.sort(key=lambda finding: (finding.code == BusyMachine.code, -finding.share))
    return Explanation(
        sentence=_sentence(observed, findings),
        findings=tuple(findings),
        notes=tuple(_notes(observed, seen)),
        command=(),
        exit_code=None,
        device="",
        ranks=1 + seen.others,
        observed=observed,
    )


def part_of(frames: tuple[Place, ...]) -> str:
    """What a stack of the training thread does."""
    if any(frame.file.startswith("<frozen importlib") for frame in frames):
        return "import"
    for frame in reversed(frames):
        function = frame.function.rpartition(".")[2]
        for file, name, part in _MARKS:
            if frame.file.endswith(file) and name in ("", function):
                return part
    return "forward" if "/torch/" in frames[-1].file else "python"


def _has_trained(observed: Observed) -> bool:
    return any(observed.shares.get(part) for part in ("data", "workers", "backward", "optimizer"))


def _sorted(pid: int, stacks: list[Stack]) -> _Seen:
    """Tell the training process from workers and launchers: it has what a step has in its stacks."""
    workers: dict[int, list[Stack]] = {}
    main: dict[int, list[Stack]] = {}
    for stack in stacks:
        if any(frame.file.endswith(_WORKER) for frame in stack.frames):
            workers.setdefault(stack.pid, []).append(stack)
        elif stack.thread == "MainThread":
            main.setdefault(stack.pid, []).append(stack)
    main = {each: found for each, found in main.items() if each not in workers}

    def steps(each: int) -> int:
        return sum(stack.samples for stack in main[each] if part_of(stack.frames) != "python")

    trained = sorted((each for each in main if steps(each)), key=lambda each: (each != pid, -steps(each)))
    chosen = trained[0] if trained else pid
    return _Seen(main.get(chosen, []), workers, max(0, len(trained) - 1))


# --- findings -----------------------------------------------------------------------------------------------------------


def _finding(cause: type[Cause], share: float, headline: str, evidence: Iterable[str], meaning: str, advice: Iterable[str], where: Place | None = None) -> Finding:  # fmt: skip
    """A finding of a cause that runs know, too. From outside there are no steps, so there is no prediction."""
    return Finding(
        code=cause.code,
        title=cause.title,
        headline=headline,
        cost_ms=0.0,
        share=round(share, 4),
        evidence=tuple(evidence),
        meaning=meaning,
        advice=tuple(advice),
        where=where,
    )


def _findings(seen: _Seen, observed: Observed) -> Iterable[Finding]:
    shares = observed.shares
    if shares.get("data", 0.0) >= LOWEST_SHARE:
        yield _data(seen, observed)
    simple: tuple[tuple[str, type[Cause], Text, Text], ...] = (
        ("save", FrequentCheckpoints, text("Saving stops the training."), text("Save less often, or in a thread.")),
        ("log", SlowLogging, text("Logging stops the training."), text("Log every 50 steps.")),
        ("workers", WorkersRestarted, text("Each epoch starts its workers."), text("Set persistent_workers=True.")),
        ("python", WorkBetweenSteps, text("Nothing is trained meanwhile."), text("Move this work into the workers of the DataLoader, or do it less often.")),
    )  # fmt: skip
    for part, cause, meaning, advice in simple:
        share = shares.get(part, 0.0)
        if share >= LOWEST_SHARE:
            where = _place(stack for stack in seen.training if part_of(stack.frames) == part)
            place = format_place(where) if where else text("a library")
            headline = text(
                "{share} of the time is spent on {part}: {place}.",
                share=format_share(share),
                part=NAMES.get(part, part),
                place=place,
            )
            yield _finding(
                cause, share, headline, [text("seen in {place}", place=place)], meaning, [advice], where
            )  # fmt: skip
    yield from _machine(observed)


def _data(seen: _Seen, observed: Observed) -> Finding:
    share = observed.shares["data"]
    waits = [stack for stack in seen.training if part_of(stack.frames) == "data"]
    own = sum(stack.samples for stack in waits if any(frame.file.endswith(_FETCH) for frame in stack.frames))
    figures = {"share": format_share(share)}
    if own * 2 > sum(stack.samples for stack in waits):
        where = _place(waits)
        return _finding(
            NoWorkers,
            share,
            text("{share} of the time the training process loads data itself: {place}.", **figures, place=_named(where)),
            [text("the fetcher of the DataLoader runs in the training process")],
            text("Loading and training take turns in one process."),
            [text("Give the DataLoader workers: DataLoader(…, num_workers=4, persistent_workers=True)")],
            where,
        )  # fmt: skip
    fetching = [stack for found in seen.workers.values() for stack in found if any(frame.file.endswith(_FETCH) for frame in stack.frames)]  # fmt: skip
    total = (
        sum(stack.samples for found in seen.workers.values() for stack in found if stack.thread == "MainThread") or 1
    )
    busy = sum(stack.samples for stack in fetching) / total
    cpu = _mean(each.cpu_share for each in observed.processes if each.role == "worker")
    where = _place(fetching)
    evidence = [
        plural(
            len(seen.workers),
            "one worker, which fetches for {share} of its time",
            "{n} workers, which fetch for {share} of their time",
            share=format_share(busy),
        ),
        *([text("each computes for {share} of its time", share=format_share(cpu))] if cpu is not None else []),
    ]
    blocked = cpu is not None and cpu < _HALF * busy
    meaning = text("The workers do not keep up.")
    if busy < _BUSY:
        cause: type[Cause] = FewWorkers
        meaning = text("The training waits although the workers wait, too: for each other, or for moving the batches.")
        advice = [
            text("The workers wait, too: look at what moves the batches (pin_memory, large batches, shared memory).")
        ]
    elif blocked:
        cause = SlowReading
        meaning = text("The workers wait for a disk, a network or a lock.")
        advice = [
            text("Copy the data to a local disk, or pack small files into large ones; more workers help as well.")
        ]
    else:
        cause = FewWorkers if len(seen.workers) < _cores() else SlowPreparing
        advice = [text("Use more workers, as long as there are cores."), text("Prepare less per sample.")]
    return _finding(
        cause,
        share,
        text("{share} of the time the training waits for its workers, which are in {place}.", **figures, place=_named(where)),
        evidence,
        meaning,
        advice,
        where,
    )  # fmt: skip


def _machine(observed: Observed) -> Iterable[Finding]:
    training = next((each for each in observed.processes if each.role == "training"), None)
    if training is None:
        return
    if training.queue_share is not None and training.queue_share >= _MUCH_QUEUE:
        yield _finding(
            BusyMachine,
            training.queue_share,
            text("{share} of the time the training thread is ready to run and has no core.", share=format_share(training.queue_share)),
            [text("process {pid}, by /proc/{pid}/schedstat", pid=training.pid)],
            text("Other threads or processes use the cores."),
            [text("See which: ownlab top, or top -H")],
        )  # fmt: skip
    swapped = sum(each.swapped_bytes or 0 for each in observed.processes)
    if swapped > 1 << 28 and any(each.read_bytes for each in observed.processes):
        yield _finding(
            Swapping,
            LOWEST_SHARE,
            text("{size} of the memory of these processes is in swap.", size=format_bytes(swapped)),
            [text("by VmSwap of /proc")],
            text("What is needed again has to be read from the disk."),
            [text("Use fewer workers, or load less at once.")],
        )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _place(stacks: Iterable[Stack]) -> Place | None:
    """The line of the user's code in which most of these stacks were, the innermost one."""
    places: Counter[Place] = Counter()
    for stack in stacks:
        where = next((frame for frame in reversed(stack.frames) if is_user_code(frame)), None)
        if where is not None:
            places[where] += stack.samples
    return places.most_common(1)[0][0] if places else None


def _named(place: Place | None) -> str:
    return format_place(place) if place is not None else text("a library")


def _sentence(observed: Observed, findings: list[Finding]) -> Text:
    parts = [
        text("{share} {part}", share=format_share(share), part=NAMES.get(name, name))
        for name, share in list(observed.shares.items())[:4]
        if share >= 0.01
    ]
    first = text(
        "In {seconds} the training thread of process {pid} was seen {count} times: {parts}.",
        seconds=format_seconds(observed.seconds),
        pid=observed.pid,
        count=observed.samples,
        parts=listing(parts),
    )
    if findings or not _has_trained(observed):
        return sentences(first, findings[0].headline if findings else None)
    return sentences(first, text("Nothing was found that takes 5 % of it."))


def _notes(observed: Observed, seen: _Seen) -> list[str]:
    notes: list[str] = []
    if not _has_trained(observed):
        notes.append(
            text("Neither backward nor an optimizer nor a DataLoader was seen: the process did not train meanwhile.")
        )
    if observed.ended:
        notes.append(text("The process has ended meanwhile; what was seen until then is explained."))
    if observed.samples < 50:
        notes.append(
            text("Only {count} samples: the shares are rough. Look longer: --seconds 30", count=observed.samples)
        )
    if seen.others:
        notes.append(
            text("{count} more processes train below it; name one of them to see it instead.", count=seen.others)
        )
    if any(each.read_bytes is None for each in observed.processes):
        notes.append(text("What was read from disks may not be seen: /proc/PID/io is closed to this user."))
    notes.append(
        text(
            "From outside neither steps nor the GPU are seen, nor calls into C such as .item() or copies: they appear as the line that "
            "makes them. `ownlab why python train.py` measures them; `ownlab top` shows the GPU."
        )
    )
    return notes  # fmt: skip

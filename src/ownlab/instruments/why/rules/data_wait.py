"""What the rules about DataLoaders have in common: whether the training waits for data, and what fetching it costs."""

from __future__ import annotations

import math

from ownlab.instruments.why.formatting import format_ms, format_place, format_share
from ownlab.instruments.why.records import Loader
from ownlab.instruments.why.rule import LOWEST_SHARE
from ownlab.instruments.why.step_model import FetchMean, StepModel
from ownlab.text import text
from ownlab.units import format_bytes

__all__ = ["BUSY", "best_workers", "data_headline", "fetch_evidence", "made_in", "reads_mostly", "waits_for_data"]

# Workers that mostly wait for a disk or a network need no core of their own.
_READERS_PER_CORE = 4
_MOST_WORKERS = 32
# A number of workers is as good as a higher one if the step is longer by no more than this.
_AS_GOOD = 1.03
# Workers that fetch for less of the time are not why the training waits.
BUSY = 0.6
# Where this share of a fetch (without waiting for a core) is blocked, reading is the cause.
_MOSTLY = 0.5


def waits_for_data(model: StepModel) -> bool:
    """Whether waiting for batches is worth a finding, and fetching is why."""
    waits = model.fetch is not None and model.data_wait_ms >= LOWEST_SHARE * model.step_ms
    return waits and model.workers_busy >= BUSY


def best_workers(model: StepModel) -> int:
    """The smallest number of workers beyond which a step gets no shorter."""
    fetch = model.fetch
    assert fetch is not None
    most = max(1, math.floor(model.cores))
    if reads_mostly(fetch):
        most = min(_MOST_WORKERS, most * _READERS_PER_CORE)
    steps = {count: sum(model.with_workers(count)) for count in range(1, most + 1)}
    return next(count for count, step in steps.items() if step <= min(steps.values()) * _AS_GOOD)


def reads_mostly(fetch: FetchMean) -> bool:
    """Whether fetching is reading rather than computing, whatever the machine makes both wait."""
    return fetch.blocked >= _MOSTLY * (fetch.blocked + fetch.cpu)


def data_headline(model: StepModel, loader: Loader) -> str:
    """What a step waits for, and who makes it."""
    fetch = model.fetch
    assert fetch is not None
    figures = {"wait": format_ms(model.data_wait_ms), "what": described(loader), "cores": f"{model.cores:g}"}
    if not loader.num_workers:
        if reads_mostly(fetch):
            return text("{wait} wait for data: {what} reads it in the training process itself.", **figures)
        return text(
            "{wait} wait for data: {what} prepares it in the training process, on one of {cores} cores.", **figures
        )
    figures["workers"] = str(loader.num_workers)
    if reads_mostly(fetch):
        return text("{wait} wait for data: {what} reads it, in {workers} worker(s).", **figures)
    return text("{wait} wait for data: {what} prepares it, in {workers} worker(s) on {cores} cores.", **figures)


def described(loader: Loader) -> str:
    """The function that makes a sample."""
    return format_place(loader.dataset_where) if loader.dataset_where is not None else loader.dataset


def fetch_evidence(model: StepModel) -> list[str]:
    """What fetching the data of a step has cost, by kind, and the lines where it was seen."""
    fetch = model.fetch
    assert fetch is not None
    lines: list[str] = [
        text(
            "fetching the data of a step takes {wall}: {cpu} computing, {blocked} blocked (reading), {queue} waiting for a core",
            wall=format_ms(fetch.wall),
            cpu=format_ms(fetch.cpu),
            blocked=format_ms(fetch.blocked),
            queue=format_ms(fetch.queue),
        )
    ]
    if fetch.read >= 1024:
        lines.append(
            text(
                "{read} read for each step, {disk} of it from a disk; {samples:.0f} samples",
                read=format_bytes(fetch.read),
                disk=format_bytes(fetch.disk),
                samples=fetch.samples,
            )
        )
    for place, share in list(model.data_samples().items())[:2]:
        if share >= 0.1:
            lines.append(text("{share} of it in {place}", share=format_share(share), place=format_place(place)))
    return lines


def made_in(loader: Loader) -> str:
    """Where a loader was made."""
    return format_place(loader.where) if loader.where is not None else text("a library, or code before the measurement")

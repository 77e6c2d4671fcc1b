"""Rules about samples that are slow: to read, to prepare, to put together, or to move from a worker."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_place, format_share
from ownlab.instruments.why.records import Finding
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.rules.data_wait import (
    BUSY,
    best_workers,
    data_headline,
    fetch_evidence,
    reads_mostly,
    waits_for_data,
)
from ownlab.text import text
from ownlab.units import format_bytes

__all__ = ["CollateInMainProcess", "SlowPreparing", "SlowReading", "SlowTransfer"]


_MEASURE = text("Measure what limits the data there, and what would help: ownlab data bench FOLDER")
# Where other processes use this share of the cores, a slow transfer is not to be told from their load.
_OTHERS = 0.25


class SlowReading(Rule):
    """Samples are slow to read: the workers are blocked most of the time.

    **Why it matters.** A worker that waits for a disk, a network file system or a remote service uses no core, but delivers nothing.
    Many small files are slow on hard disks and network file systems, where each one costs a seek or a round trip.

    **What to do.** Copy the data to a local disk, or pack the small files into few large ones that are read in sequence; keep what
    is read more than once in memory. More workers read more at the same time, as long as the storage keeps up. `ownlab data bench FOLDER`
    measures what limits the reading there, and what a local copy or packing (`ownlab data pack`) would give.

    **Sources.** The blocked time inside of the workers (wall − CPU − run queue), and the bytes of `/proc/self/io`.
    """

    code = "slow-reading"
    title = text("Reading the samples is slow")

    def check(self, case: Case) -> Iterable[Finding]:
        """Attribute the waiting to the blocked part of fetching."""
        model, loader, fetch = case.model, case.model.loader, case.model.fetch
        if loader is None or fetch is None or not waits_for_data(model) or not reads_mostly(fetch):
            return
        cost = model.data_wait_ms * fetch.blocked / fetch.wall
        rest = model.step_ms - model.data_wait_ms
        workers = max(1, len(model.workers))
        best = max(rest, (fetch.cpu + fetch.queue) / workers) if model.workers else model.step_ms - fetch.blocked
        yield self.finding(
            case,
            cost_ms=cost,
            headline=data_headline(model, loader),
            evidence=fetch_evidence(model),
            meaning=text(
                "{share} of the time of fetching, the process is blocked: it waits for a disk, a network or a lock.",
                share=format_share(fetch.blocked / fetch.wall),
            ),
            advice=[
                text("Copy the data to a local disk, or pack small files into large ones."),
                text("If the data fits into memory, read it once."),
                _MEASURE,
            ],
            where=loader.dataset_where,
            after=model.band(best),
        )


class SlowPreparing(Rule):
    """Samples are slow to prepare, and the workers that the cores allow cannot hide it.

    **Why it matters.** Decoding, resizing and augmenting need CPU time. If all cores together prepare fewer batches than the
    training consumes, the training waits, however many workers there are.

    **What to do.** Make a sample cheaper at the line that the finding names: store the data decoded or smaller, use a faster
    decoder, vectorise Python loops, or move the work to the GPU, a batch at a time. Or use a machine with more cores for each GPU.
    For images, `ownlab data bench FOLDER` measures the decoder, and `ownlab data pack --resize` stores them smaller.

    **Sources.** The CPU time inside of the workers, and the samples of their stacks.
    """

    code = "slow-preparing"
    title = text("Preparing the samples needs more CPU than there is")
    follows = ("no-workers", "few-workers")

    def check(self, case: Case) -> Iterable[Finding]:
        """Say what is left when all cores prepare data."""
        model, loader, fetch = case.model, case.model.loader, case.model.fetch
        if loader is None or fetch is None or not waits_for_data(model) or reads_mostly(fetch):
            return
        rest = model.step_ms - model.data_wait_ms
        after = model.with_workers(best_workers(model))
        current = loader.num_workers >= best_workers(model) and bool(model.workers)
        cost = model.data_wait_ms if current else sum(after) / 2 - rest
        if cost < LOWEST_SHARE * model.step_ms:
            return
        hot = next(iter(model.data_samples()), loader.dataset_where)
        half = max(rest, (fetch.wall - fetch.cpu / 2) / max(1, len(model.workers), best_workers(model)))
        yield self.finding(
            case,
            cost_ms=cost,
            headline=data_headline(model, loader),
            evidence=fetch_evidence(model),
            meaning=text(
                "A step needs {cpu} of CPU time for its data, and there are {cores} cores for it and for the training.",
                cpu=format_ms(fetch.cpu),
                cores=f"{model.cores:g}",
            ),
            advice=[
                text("Make a sample cheaper to prepare: {place}.", place=format_place(hot) if hot else loader.dataset)
            ],
            where=hot,
            after=(model.band(rest)[0], min(model.band(half)[1], model.step_ms)),
        )


class SlowTransfer(Rule):
    """Batches are ready in the workers, and take long to reach the training process.

    **Why it matters.** Tensors go from a worker to the training process through shared memory, everything else is pickled: lists of
    strings, dictionaries of Python objects, NumPy arrays in lists. Unpickling is done by the training process, between two steps.

    **What to do.** Return tensors: collate in the worker into few large ones, in the smallest type that holds the data (uint8 for images).
    Leave out what the training does not use.

    **Sources.** The training waits for batches, while the workers fetch for less than 60 % of the time.
    """

    code = "slow-transfer"
    title = text("Moving batches from the workers is slow")

    def check(self, case: Case) -> Iterable[Finding]:
        """Compare the waiting with how busy the workers are."""
        model, loader, fetch = case.model, case.model.loader, case.model.fetch
        if loader is None or fetch is None or not model.workers or model.workers_busy >= BUSY:
            return
        if model.data_wait_ms < LOWEST_SHARE * model.step_ms or model.restart_ms >= LOWEST_SHARE * model.step_ms:
            return
        if model.other_cores >= _OTHERS * model.cores:
            return  # on a busy machine the processes on both ends of the queue wait for a core
        where = next(iter(model.data_samples()), None)
        yield self.finding(
            case,
            cost_ms=model.data_wait_ms,
            headline=text(
                "{wait} wait for data that the workers have ready: they fetch for {share} of the time only.",
                wait=format_ms(model.data_wait_ms),
                share=format_share(model.workers_busy),
            ),
            evidence=[
                text("{size} of tensors in the batches of a step", size=format_bytes(fetch.batch_bytes)),
                *fetch_evidence(model),
            ],
            meaning=text("The training process receives and unpickles each batch before it can use it."),
            advice=[text("Return few large tensors instead of many Python objects.")],
            where=where,
            after=(model.band(model.step_ms - model.data_wait_ms)[0], model.step_ms),
        )


class CollateInMainProcess(Rule):
    """Batches are put together in the training process.

    **Why it matters.** Without workers `collate_fn` runs between two steps. Padding in Python or stacking large samples takes long,
    and nothing is trained meanwhile.

    **What to do.** Give the DataLoader workers: `collate_fn` then runs in them. Otherwise allocate the batch once and copy the samples
    into it.

    **Sources.** The time of `collate_fn` in each fetch.
    """

    code = "collate-in-main"
    title = text("Batches are put together in the training process")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at the time of collate_fn without workers."""
        model, loader, fetch = case.model, case.model.loader, case.model.fetch
        if loader is None or fetch is None or loader.num_workers or fetch.collate < LOWEST_SHARE * model.step_ms:
            return
        yield self.finding(
            case,
            cost_ms=fetch.collate,
            headline=text(
                "{cost} of each step put a batch together in the training process.", cost=format_ms(fetch.collate)
            ),
            evidence=[text("collate_fn takes {share} of fetching", share=format_share(fetch.collate / fetch.wall))],
            meaning=text("collate_fn runs between two steps, because the DataLoader has no workers."),
            advice=[text("Set num_workers=1 or more, so that collate_fn runs beside the training.")],
            where=loader.where,
            after=model.without(fetch.collate),
        )

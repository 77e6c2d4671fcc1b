"""Rules about the workers of a DataLoader: none, too few, too many, started again at each epoch."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_share
from ownlab.instruments.why.records import Change, Finding, Loader
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.rules.data_wait import (
    best_workers,
    data_headline,
    fetch_evidence,
    made_in,
    reads_mostly,
    waits_for_data,
)
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text

__all__ = ["FewWorkers", "ManyWorkers", "NoWorkers", "WorkersRestarted"]


class NoWorkers(Rule):
    """The training process loads its data itself: `num_workers=0`.

    **Why it matters.** While a batch is read and prepared, nothing is trained, and while a step is computed, nothing is loaded. The
    two times add up, and only one core prepares data.

    **What to do.** Give the DataLoader workers. The finding says how many: enough that together they prepare a batch in the time of
    a step, and no more than there are cores, unless they mostly wait for a disk. With cheap samples workers do not help: moving a
    batch between processes costs about as much as it saves, and then there is no finding.

    **Sources.** The time of `DataLoaderIter.__next__`, and of the fetcher below it, of each step; documentation of
    `torch.utils.data.DataLoader`.
    """

    code = "no-workers"
    title = text("The DataLoader has no workers")

    def check(self, case: Case) -> Iterable[Finding]:
        """Predict the step with the best number of workers."""
        model, loader = case.model, case.model.loader
        if loader is None or loader.num_workers or not waits_for_data(model):
            return
        workers = best_workers(model)
        after = model.with_workers(workers)
        gain = model.step_ms - sum(after) / 2
        if gain < LOWEST_SHARE * model.step_ms:
            return
        arguments = {"num_workers": str(workers), "persistent_workers": "True"}
        change = case.code.with_arguments(loader.where, "DataLoader", arguments)
        yield self.finding(
            case,
            cost_ms=gain,
            headline=data_headline(model, loader),
            evidence=[text("num_workers=0 in {where}", where=made_in(loader)), *fetch_evidence(model)],
            meaning=text("Loading and training take turns in one process instead of running at the same time."),
            advice=_advice(workers, change),
            where=loader.where,
            change=change,
            after=after,
        )


def _advice(workers: int, change: Change | None) -> list[str]:
    """Say where to set the number; a DataLoader that a trainer makes has no line of the user's."""
    if change is not None:
        return [text("Set num_workers={workers} in the DataLoader.", workers=workers)]
    return [
        text("Set num_workers={workers} where the DataLoader is made.", workers=workers),
        text("With the Trainer of transformers: TrainingArguments(dataloader_num_workers={workers})", workers=workers),
    ]


class FewWorkers(Rule):
    """The workers of a DataLoader cannot keep up with the training, and there are cores for more.

    **Why it matters.** Each worker prepares one batch after the other. If a batch takes a worker longer than (number of workers) steps,
    the training waits.

    **What to do.** Raise `num_workers` as the finding says. Beyond that number the step is limited by something else.

    **Sources.** Per batch, inside of the workers: wall time, CPU time of the thread, and time in the run queue
    (`/proc/thread-self/schedstat`); what is left is time blocked.
    """

    code = "few-workers"
    title = text("The DataLoader has too few workers")

    def check(self, case: Case) -> Iterable[Finding]:
        """Predict the step with the best number of workers."""
        model, loader = case.model, case.model.loader
        if loader is None or not loader.num_workers or not model.workers or not waits_for_data(model):
            return
        workers = best_workers(model)
        if workers <= loader.num_workers:
            return
        after = model.with_workers(workers)
        gain = model.step_ms - sum(after) / 2
        if gain < LOWEST_SHARE * model.step_ms:
            return
        change = case.code.with_arguments(loader.where, "DataLoader", {"num_workers": str(workers)})
        yield self.finding(
            case,
            cost_ms=gain,
            headline=data_headline(model, loader),
            evidence=[
                text("num_workers={count} in {where}", count=loader.num_workers, where=made_in(loader)),
                *fetch_evidence(model),
            ],
            meaning=text("The workers are busy all the time, and the training waits for them."),
            advice=_advice(workers, change),
            where=loader.where,
            change=change,
            after=after,
        )


class ManyWorkers(Rule):
    """There are more workers than cores, and they wait for a core most of the time.

    **Why it matters.** Workers that compute take turns on the cores, with each other and with the training. More of them prepare no
    more data; they use memory and take time from the training process.

    **What to do.** Set `num_workers` to the number of cores that the script may use, or less.

    **Sources.** The run queue of each worker (`/proc/thread-self/schedstat`, field 2) against its CPU time.
    """

    code = "many-workers"
    title = text("The DataLoader has more workers than there are cores")

    def check(self, case: Case) -> Iterable[Finding]:
        """Compare the workers with the cores, and their waiting with their work."""
        model, loader, fetch = case.model, case.model.loader, case.model.fetch
        if loader is None or fetch is None or not model.workers or not waits_for_data(model) or reads_mostly(fetch):
            return
        if loader.num_workers <= model.cores or fetch.queue < fetch.cpu:
            return
        workers = max(1, math.floor(model.cores))
        yield self.finding(
            case,
            cost_ms=model.data_wait_ms * fetch.queue / fetch.wall * _switching_share(loader, model),
            headline=text(
                "{workers} workers share {cores} cores, and wait for a core {share} of their time.",
                workers=loader.num_workers,
                cores=f"{model.cores:g}",
                share=format_share(fetch.queue / fetch.wall),
            ),
            evidence=[
                text("num_workers={count} in {where}", count=loader.num_workers, where=made_in(loader)),
                *fetch_evidence(model),
            ],
            meaning=text("More workers than cores prepare no more data."),
            advice=[text("Set num_workers={workers} in the DataLoader.", workers=workers)],
            where=loader.where,
            change=case.code.with_arguments(loader.where, "DataLoader", {"num_workers": str(workers)}),
        )


def _switching_share(loader: Loader, model: StepModel) -> float:
    """The part of the waiting that is due to the surplus of workers."""
    return 1 - model.cores / loader.num_workers


class WorkersRestarted(Rule):
    """The workers of a DataLoader are started again at each epoch.

    **Why it matters.** Without `persistent_workers` all workers end with an epoch. Those of the next one are started, import what
    they need (if they are spawned), copy the dataset, and prepare the first batch while the training waits. With short epochs this
    is a large part of the time.

    **What to do.** Set `persistent_workers=True`. The dataset then stays in the workers: what changes in the main process between
    epochs (`dataset.set_epoch`) no longer reaches them.

    **Sources.** The time of `DataLoader.__iter__`, and of the first batch of each epoch compared with the others.
    """

    code = "workers-restarted"
    title = text("The workers are started again at each epoch")

    def check(self, case: Case) -> Iterable[Finding]:
        """Sum what the second and later epochs took to begin."""
        model, loader = case.model, case.model.loader
        if loader is None or model.restart_ms < LOWEST_SHARE * model.step_ms:
            return
        later = loader.epochs[1:]
        each = sum(start + first for start, first in later) / len(later) / 1e6
        yield self.finding(
            case,
            cost_ms=model.restart_ms,
            headline=text(
                "{cost} of each step go to starting the workers again: {each} at each of {epochs} epochs.",
                cost=format_ms(model.restart_ms),
                each=format_ms(each),
                epochs=len(loader.epochs),
            ),
            evidence=[
                text("persistent_workers=False in {where}", where=made_in(loader)),
                text("an epoch has {count:.0f} batches", count=loader.batches / len(loader.epochs)),
            ],
            meaning=text(
                "All workers end with an epoch, and the training waits until those of the next one have data."
            ),
            advice=[text("Set persistent_workers=True in the DataLoader.")],
            where=loader.where,
            change=case.code.with_arguments(loader.where, "DataLoader", {"persistent_workers": "True"}),
            after=model.band(model.without_host(model.restart_ms)),
        )

"""Rules about several devices: DataParallel, DistributedDataParallel, and ranks that wait for each other."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from ownlab.instruments.why.formatting import NAMES, format_ms, format_place
from ownlab.instruments.why.records import Finding, Place
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text

__all__ = ["AccumulationWithoutNoSync", "FindUnusedParameters", "ReplicatedModel", "Straggler"]

_PARTS = ("data", "workers", "forward", "python", "optimizer", "save", "log", "validation", "gc", "sync", "copy")


class ReplicatedModel(Rule):
    """The model runs in DataParallel.

    **Why it matters.** `torch.nn.DataParallel` copies the model to all GPUs at each step, runs them from threads of one Python process
    that share its lock, and gathers all outputs on the first GPU, which is then the slowest.

    **What to do.** Use `DistributedDataParallel` with one process for each GPU: `torchrun --nproc-per-node=N train.py`.

    **Sources.** The constructor of `torch.nn.DataParallel`, whose documentation advises against it. What it costs is not
    measured. Not yet measured on a GPU.
    """

    code = "data-parallel"
    title = text("The model runs in DataParallel")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look for the wrapper with more than one device."""
        parallel = case.model.process.data_parallel
        if parallel is None or parallel.devices < 2:
            return
        where = format_place(parallel.where) if parallel.where else text("a library")
        yield self.finding(
            case,
            cost_ms=0.0,
            headline=text("The model is copied to {count} GPUs at each step.", count=parallel.devices),
            evidence=[text("DataParallel in {where}", where=where)],
            meaning=text("What it costs was not measured."),
            advice=[
                text(
                    "Use DistributedDataParallel with one process for each GPU: torchrun --nproc-per-node={count}",
                    count=parallel.devices,
                )
            ],
            where=parallel.where,
        )


class FindUnusedParameters(Rule):
    """DDP looks for unused parameters at each step, and there are none.

    **Why it matters.** With `find_unused_parameters=True` DDP walks the whole graph after each forward pass, and waits with the
    reduction of gradients until it knows which will come.

    **What to do.** Remove the argument. If parameters are unused only sometimes, keep it; if always the same ones, set
    `static_graph=True`.

    **Sources.** The argument of the constructor, and the size of unused parameters that DDP itself has found.
    """

    code = "find-unused-parameters"
    title = text("DDP looks for unused parameters, and there are none")

    def check(self, case: Case) -> Iterable[Finding]:
        """Compare the argument with what DDP has found."""
        ddp = case.model.process.ddp
        if ddp is None or not ddp.find_unused_parameters or ddp.static_graph:
            return
        if ddp.logged.get("unused_parameter_size") != 0:
            return
        where = format_place(ddp.where) if ddp.where else text("a library")
        yield self.finding(
            case,
            cost_ms=0.0,
            headline=text("DDP looks for unused parameters at each step, and finds none."),
            evidence=[
                text("find_unused_parameters=True in {where}", where=where),
                text("DDP has found 0 bytes of unused parameters"),
            ],
            meaning=text("What it costs was not measured."),
            advice=[text("Remove find_unused_parameters=True.")],
            where=ddp.where,
            change=case.code.with_arguments(ddp.where, "DistributedDataParallel", {"find_unused_parameters": "False"})
            or case.code.with_arguments(ddp.where, "DDP", {"find_unused_parameters": "False"}),
        )


class AccumulationWithoutNoSync(Rule):
    """Gradients are accumulated over several batches, and DDP reduces them after each one.

    **Why it matters.** All ranks exchange all gradients at each backward pass, although only the last one before the optimizer
    needs it.

    **What to do.** Run all but the last backward pass, with its forward pass, within `model.no_sync()`.

    **Sources.** Backward passes for each step of the optimizer, calls of `no_sync`, and the time of communication that DDP measures.
    """

    code = "accumulation-without-no-sync"
    title = text("Gradients are reduced at each accumulated batch")

    def check(self, case: Case) -> Iterable[Finding]:
        """Count backward passes per step."""
        model, ddp = case.model, case.model.process.ddp
        if ddp is None or ddp.no_sync or model.backwards < 1.5:
            return
        surplus = model.backwards - 1
        communication = float(ddp.logged.get("avg_backward_comm_time") or 0) / 1e6
        overlap = float(ddp.logged.get("avg_backward_compute_comm_overlap_time") or 0) / 1e6
        cost = min(surplus * max(0.0, communication - overlap), model.phase_ms("backward"))
        where = format_place(ddp.where) if ddp.where else text("a library")
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "DDP reduces gradients {count:.0f} times for each step; once is enough.", count=model.backwards
            ),
            evidence=[
                text("DistributedDataParallel in {where}, no_sync() never used", where=where),
                text(
                    "one reduction takes {time}, {hidden} of it beside the computation",
                    time=format_ms(communication),
                    hidden=format_ms(overlap),
                ),
            ],
            meaning=text("All ranks exchange all gradients after each batch."),
            advice=[text("Run all but the last batch of a step within `with model.no_sync():`.")],
            where=ddp.where,
            after=model.without(cost) if cost else None,
        )


class Straggler(Rule):
    """One rank is slower than the others, and all wait for it.

    **Why it matters.** The reduction of gradients ends when the last rank has arrived: the slowest one sets the pace.

    **What to do.** Look at what the slow rank does longer: loading data (its disk, its share of the cores), logging and saving on
    rank 0 only, longer sequences in its part of the data, a throttled card.

    **Sources.** The time of each rank outside of its backward passes, in which it would wait for the others.
    """

    code = "straggler"
    title = text("One rank is slower than the others")

    def check(self, case: Case) -> Iterable[Finding]:
        """Compare what each rank does outside of backward."""
        ranks = [model for model in case.ranks if model.count]
        if len(ranks) < 2:
            return
        own = [model.step_ms - model.phase_ms("backward") for model in ranks]
        slowest = max(range(len(ranks)), key=own.__getitem__)
        others = statistics.median(time for number, time in enumerate(own) if number != slowest)
        cost = own[slowest] - others
        model = ranks[slowest]
        if cost < LOWEST_SHARE * model.step_ms:
            return
        part, more = _longest_difference(model, [each for each in ranks if each is not model])
        rank = model.process.rank if model.process.rank is not None else slowest
        figures = {"rank": rank, "cost": format_ms(cost), "part": NAMES[part], "more": format_ms(more)}
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "All ranks wait {cost} for rank {rank} in each step: it takes {more} longer for {part}.", **figures
            ),
            evidence=[
                text(
                    "rank {rank}: {own} outside of backward",
                    rank=each.process.rank if each.process.rank is not None else number,
                    own=format_ms(own[number]),
                )
                for number, each in enumerate(ranks[:8])
            ],
            meaning=text("The slowest rank sets the pace of all."),
            advice=[text("Look what rank {rank} does longer: {part}.", part=NAMES[part], rank=rank)],
            where=_slow_place(model, part),
            after=case.model.band(max(1e-6, model.step_ms - cost)),
        )


def _longest_difference(slow: StepModel, others: list[StepModel]) -> tuple[str, float]:
    differences = {
        part: slow.parts_ms.get(part, 0.0) - statistics.median(model.parts_ms.get(part, 0.0) for model in others)
        for part in _PARTS
    }
    part = max(differences, key=differences.__getitem__)
    return part, differences[part]


def _slow_place(model: StepModel, part: str) -> Place | None:
    if part == "python" and model.work:
        return model.work[0].where
    if part == "data" and model.loader is not None:
        return model.loader.dataset_where
    calls = model.calls(part)
    return calls[0].where if calls else None

"""Rules about what stops the training between steps: saving, logging, validation, garbage collection, freeing the cache."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_place, format_share
from ownlab.instruments.why.records import Call, Finding, Sample
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text

__all__ = ["CacheEmptied", "FrequentCheckpoints", "GarbageCollection", "MuchValidation", "SlowLogging"]

# An interruption is worth no more than this share of the time.
_ACCEPTABLE = 0.01
_MUCH_VALIDATION = 0.15
# How many of the steps a call must follow, to be one of "each step".
_EACH = 0.5


def _each_step(call: Call, model: StepModel) -> bool:
    return call.count >= _EACH * len(model.process.steps)


def _calls_evidence(calls: Iterable[Call], model: StepModel) -> list[str]:
    lines: list[str] = []
    for call in list(calls)[:3]:
        figures = {
            "what": call.what,
            "where": format_place(call.where) if call.where else text("a library"),
            "count": call.count,
            "steps": len(model.process.steps),
            "each": format_ms(call.ns / call.count / 1e6),
        }
        lines.append(text("{what} in {where}: {count} calls in {steps} steps, {each} each", **figures))
    return lines


def _round_number(least: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, …"""
    power = 10 ** math.floor(math.log10(max(1.0, least)))
    return int(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least))


class FrequentCheckpoints(Rule):
    """Checkpoints are saved so often that saving takes a noticeable part of the time.

    **Why it matters.** The training waits while a checkpoint is serialised and written. Each one of a large model takes seconds, and
    on network storage more.

    **What to do.** Save by time instead of by steps: so seldom that saving is about 1 % of the run, and often enough that what
    would be lost is affordable. Save to a local disk and copy from there; `torch.distributed.checkpoint.async_save` writes beside the
    training.

    **Sources.** The time of `torch.save` and of `safetensors.torch.save_file`, by the line that calls it.
    """

    code = "frequent-checkpoints"
    title = text("Checkpoints are saved too often")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at the time of saving."""
        model = case.model
        cost, calls = model.phase_ms("save"), model.calls("save")
        if not calls or cost < LOWEST_SHARE * model.step_ms:
            return
        call = calls[0]
        every = len(model.process.steps) / call.count
        seldom = _round_number(every * cost / (_ACCEPTABLE * (model.step_ms - cost)))
        where = format_place(call.where) if call.where else text("a library")
        figures = {
            "cost": format_ms(cost),
            "where": where,
            "every": f"{every:.3g}",
            "each": format_ms(call.ns / call.count / 1e6),
        }
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{cost} of each step save checkpoints: {where} saves every {every} steps, {each} each.", **figures
            ),
            evidence=_calls_evidence(calls, model),
            meaning=text("The training waits while a checkpoint is written."),
            advice=[text("Save every {count} steps: then saving takes 1 % of the time.", count=seldom)],
            where=call.where,
            change=case.code.replaced(call.where, f"if step % {seldom} == 0:\n    {{line}}"),
            after=model.without(cost * (1 - every / seldom)),
        )


class SlowLogging(Rule):
    """Logging or printing takes a noticeable part of each step.

    **Why it matters.** Printing to a slow terminal or file, histograms and images for TensorBoard, and sending to a tracker happen
    in the training process, which waits for them. Printing a tensor also waits until the GPU has computed it.

    **What to do.** Log every so many steps; collect values as tensors and convert them when they are logged.

    **Sources.** The time of `print`, `logging`, `SummaryWriter.add_*` and `wandb.log`, by the line that calls it.
    """

    code = "slow-logging"
    title = text("Logging takes a noticeable part of each step")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at the time of logging."""
        model = case.model
        cost, calls = model.phase_ms("log"), model.calls("log")
        if not calls or cost < LOWEST_SHARE * model.step_ms:
            return
        call = calls[0]
        where = format_place(call.where) if call.where else text("a library")
        figures = {"cost": format_ms(cost), "what": call.what, "where": where}
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text("{cost} of each step log: {what} in {where}.", **figures),
            evidence=_calls_evidence(calls, model),
            meaning=text("The training waits while it logs."),
            advice=[text("Log every 50 steps or so.")],
            where=call.where,
            change=case.code.replaced(call.where, "if step % 50 == 0:\n    {line}"),
            after=model.without(cost * 0.98),
        )


class MuchValidation(Rule):
    """Validation takes a large part of the run.

    **Why it matters.** While the model is evaluated it learns nothing. Validation on all data after every few steps can take longer
    than the training.

    **What to do.** Validate less often, or on a fixed part of the data; use a larger batch, which needs no memory for gradients.

    **Sources.** The time from `model.eval()`, or from the first batch that is fetched without gradients, to the next step of
    training.
    """

    code = "much-validation"
    title = text("Validation takes a large part of the time")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at the time of validation."""
        model = case.model
        cost = model.phase_ms("validation")
        if cost < _MUCH_VALIDATION * model.step_ms:
            return
        samples = [sample for sample in model.process.samples if sample.phase == "validation"]
        hottest: Sample | None = max(samples, key=lambda sample: sample.ns, default=None)
        where = model.place_in_loop(hottest) if hottest is not None else None
        share = cost / model.step_ms
        headline = text("{share} of the time is validation.", share=format_share(share))
        if where is not None:
            place = format_place(where)
            headline = text("{share} of the time is validation: {place}.", share=format_share(share), place=place)
        yield self.finding(
            case,
            cost_ms=cost,
            headline=headline,
            evidence=[text("{cost} of validation for each step of training", cost=format_ms(cost))],
            meaning=text("While the model is evaluated it learns nothing."),
            advice=[
                text(
                    "Validate {times:.0f} times less often: then it takes 5 % of the time.",
                    times=math.ceil(share / 0.05),
                )
            ],
            where=where,
            # From none at all to the twentieth of the time that is advised.
            after=(model.band(model.step_ms - cost)[0], model.band(model.step_ms - cost * (1 - 0.05 / share))[1]),
        )


class GarbageCollection(Rule):
    """Python collects garbage at each step, or takes long to do so.

    **Why it matters.** `gc.collect()` visits every object of the process: tens of milliseconds after the import of a deep-learning
    library. Tensors are freed when the last reference goes, without it. Automatic collections do the same if a loop creates many
    objects.

    **What to do.** Remove `gc.collect()` from the loop. Against automatic collections call `gc.freeze()` before the loop, so that what
    exists by then is not visited again.

    **Sources.** The time of `gc.collect` by its line, and `gc.callbacks`.
    """

    code = "garbage-collection"
    title = text("Collecting garbage takes a noticeable part of each step")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at the time of collections, asked for or automatic."""
        model = case.model
        cost, calls = model.phase_ms("gc"), model.calls("gc")
        if not calls or cost < LOWEST_SHARE * model.step_ms:
            return
        call = calls[0]
        explicit = call.what == "gc.collect"
        where = format_place(call.where) if call.where else text("a library")
        advice = text("Remove gc.collect() from the loop.") if explicit else text("Call gc.freeze() before the loop.")
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text("{cost} of each step collect garbage, in {where}.", cost=format_ms(cost), where=where),
            evidence=_calls_evidence(calls, model),
            meaning=text("A collection visits every object of the process; tensors are freed without it."),
            advice=[advice],
            where=call.where,
            change=case.code.without_line(call.where) if explicit else None,
            after=model.without(cost),
        )


class CacheEmptied(Rule):
    """`torch.cuda.empty_cache()` is called at each step.

    **Why it matters.** It waits until the GPU is idle, and gives memory back to the driver that the next step has to allocate
    again, each time with a call that stops the GPU. It makes no more memory available to PyTorch itself.

    **What to do.** Remove the call from the loop. Against fragmentation set `PYTORCH_ALLOC_CONF=expandable_segments:True`.

    **Sources.** Calls of `torch.cuda.empty_cache` by their line, and the calls of cudaMalloc that follow, in the profiler's window.
    """

    code = "cache-emptied"
    title = text("The cache of the GPU's memory is emptied at each step")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look for calls at most steps; without a GPU they do nothing."""
        model = case.model
        calls = [call for call in model.calls("cache") if _each_step(call, model)]
        if not calls or model.process.device == "cpu":
            return
        call, emptying = calls[0], model.phase_ms("cache")
        allocating = _allocating_ms(model)
        cost = emptying + allocating
        if model.gpu is not None:
            cost = model.step_ms - model.without_host(cost)
            if cost < LOWEST_SHARE * model.step_ms:
                return
        where = format_place(call.where) if call.where else text("a library")
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{cost} of each step empty the cache of the GPU's memory, in {where}.",
                cost=format_ms(emptying),
                where=where,
            ),
            evidence=[
                *_calls_evidence(calls, model),
                *(
                    [text("{time} of each step allocate memory again (sampled)", time=format_ms(allocating))]
                    if allocating
                    else []
                ),
            ],
            meaning=text("The memory must be allocated again in the next step, by calls that stop the GPU."),
            advice=[text("Remove torch.cuda.empty_cache() from the loop.")],
            where=call.where,
            change=case.code.without_line(call.where),
            after=model.without(emptying + allocating),
        )


def _allocating_ms(model: StepModel) -> float:
    """How long a step asks the driver for memory, as sampled."""
    gpu = model.gpu
    if gpu is None or gpu.window is None:
        return 0.0
    calls = (each for each in gpu.window.runtime if "Malloc" in each.name or "MemMap" in each.name)
    return gpu.per_step(sum(each.us for each in calls))

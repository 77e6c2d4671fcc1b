"""Rules about kernels that are too small, or too many, for the host to send them fast enough."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_share
from ownlab.instruments.why.gpu.gpu_lane import GpuLane
from ownlab.instruments.why.gpu.records import KernelWindow
from ownlab.instruments.why.gpu.rooflines import CardRates, is_product
from ownlab.instruments.why.records import Finding, Optimizer
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.rules.periodic_work import periodic_ms
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text
from ownlab.units import format_bytes

__all__ = ["LaunchBound", "SmallBatch", "SmallMicroBatches", "UnfusedOptimizer"]

# Optimizers of torch that have an implementation in one kernel, with the bytes that a step moves for each parameter:
# what it reads and writes of parameter, gradient and state, in float32.
_WITH_FOREACH = frozenset(("Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"))
_FUSED = {"Adam": 28, "AdamW": 28, "SGD": 20, "Adagrad": 20}
# A fused step is a few launches and some Python.
_FUSED_HOST_MS = 0.35
# A step of more kernels does many small things one after the other: a larger batch would not make them fewer.
_MANY_KERNELS = 1500
# Kernels of less time are mostly their own beginning and end.
_SHORT_US = 10.0
# What a kernel needs to begin and to end, whatever it computes: of several small ones that become one, all but one save it.
_KERNEL_MS = 0.002
_FEWEST_PASSES = 4
# A kernel for each of so many tensors: an optimizer that works on all tensors at once launches fewer.
_ONE_BY_ONE = 3.0
# One of torch's _foreach_ functions takes so many tensors in a kernel, and costs the host so much for each of its tensors.
_TENSORS_OF_ONE, _FOREACH_MS = 50, 0.0003
# Bytes that an elementwise kernel moves for each byte of a tensor: two are read, one is written.
_MOVED = 3
# A card is too large for a batch if the model and all it needs fill less of its memory.
_SMALL_MEMORY = 0.4


def idle_between_kernels(model: StepModel) -> float:
    """Idle time of the GPU while the host runs operators, as long as it would be if the host never waited for the GPU."""
    gpu = model.gpu
    if gpu is None or gpu.window is None:
        return 0.0
    return max(0.0, min(gpu.idle_by("launch"), _overlapped(model) - gpu.busy_ms))


def _overlapped(model: StepModel) -> float:
    """The host's own time for the model: without waits, and without what is no part of it."""
    gpu = model.gpu
    others = ("data", "workers", "save", "log", "gc", "cache")
    allocating = gpu.idle_by("allocation") if gpu is not None else 0.0
    waits = model.wait_ms + periodic_ms(model)
    return model.step_ms - waits - sum(model.phase_ms(name) for name in others) - allocating


def _removable(model: StepModel) -> float:
    """All idle time between kernels, with that of Python within the model: a CUDA graph, or a larger batch, needs neither."""
    gpu = model.gpu
    if gpu is None or gpu.idle_inside_ms is None:
        return 0.0
    others = gpu.idle_by("allocation") + gpu.idle_by("optimizer") + sum(work.ms for work in model.work)
    least = idle_between_kernels(model)
    removable = max(least, min(gpu.idle_inside_ms - others, _overlapped(model) - gpu.busy_ms))
    return removable + model.collecting_ms


def _merged_ms(window: KernelWindow) -> float:
    """What a step saves if the short kernels between two products become one, as a compiler makes of elementwise operators."""
    named = [each for each in window.operations if each.op]
    short = [each for each in named if not is_product(each) and each.us < _SHORT_US * each.count]
    count, products = sum(each.count for each in short), sum(each.count for each in named if is_product(each))
    if count <= products + 1:
        return 0.0
    return sum(each.us for each in short) / 1e3 / window.steps * (1 - (products + 1) / count)


def _kernels_evidence(gpu: GpuLane, window: KernelWindow) -> list[str]:
    mean = window.busy_us / max(1, window.kernels)
    return [
        text(
            "{count:.0f} kernels a step, {mean:.3g} µs each in the mean; {share} of them take under 10 µs (sampled in {steps} steps)",
            count=window.kernels / window.steps,
            mean=mean,
            share=format_share(window.short_kernels / max(1, window.kernels)),
            steps=window.steps,
        ),
        text(
            "the GPU works {busy} of a step, and is idle {idle} between the kernels of it",
            busy=format_ms(gpu.busy_ms),
            idle=format_ms(gpu.idle_inside_ms or 0.0),
        ),
    ]


def _is_launch_bound(model: StepModel, lost: float) -> bool:
    gpu = model.gpu
    if gpu is None or gpu.window is None or lost < 2 * LOWEST_SHARE * model.step_ms:
        return False
    # Kernels that take the GPU long leave the host time to send the next ones.
    return gpu.window.busy_us / max(1, gpu.window.kernels) < 40


def unfilled_share(window: KernelWindow) -> float:
    """The share of the kernels' time in which they have fewer blocks than the card has processors."""
    total = sum(each.us for each in window.operations)
    return sum(each.unfilled_us for each in window.operations) / total if total else 0.0


class LaunchBound(Rule):
    """The host cannot launch kernels as fast as the GPU computes them.

    **Why it matters.** Each operator costs the host 5 to 20 µs. If its kernel takes the GPU less, the GPU waits for the host in
    between: many small layers, loops in Python over small tensors, losses of many terms.

    **What to do.** `model = torch.compile(model)` makes few kernels of many; with `mode="reduce-overhead"` a CUDA graph sends all of them
    at once. Write loops over small tensors as one operator on a larger tensor. A larger batch gives each kernel more to do.

    **Sources.** The GPU's own clock at the boundaries of forward, backward and optimizer, less the kernels that torch's profiler saw
    there in a window of a few steps. The band reaches from all of that idle time to the part in which an operator ran.
    """

    code = "launch-bound"
    title = text("The host cannot launch kernels fast enough")
    general = True

    def check(self, case: Case) -> Iterable[Finding]:
        """Look for idle time between short kernels."""
        model = case.model
        lost = idle_between_kernels(model)
        gpu = model.gpu
        if gpu is None or gpu.window is None or not _is_launch_bound(model, lost):
            return
        worst = model.step_ms - _removable(model)
        best = max(0.0, worst - _merged_ms(gpu.window))
        advice = [
            text('Try model = torch.compile(model), or torch.compile(model, mode="reduce-overhead").'),
            text("Use a larger batch if it fits: the same launches then compute more."),
        ]
        if model.process.gpu is not None and model.process.gpu.compilation.used:
            advice[0] = text('The model is compiled already: mode="reduce-overhead" sends its kernels as a CUDA graph.')
        yield self.finding(
            case,
            cost_ms=model.step_ms - (best + worst) / 2,
            headline=text(
                "The GPU waits {lost} of each step for the host to launch {count:.0f} kernels of {mean:.3g} µs.",
                lost=format_ms(lost),
                count=gpu.window.kernels / gpu.window.steps,
                mean=gpu.window.busy_us / max(1, gpu.window.kernels),
            ),
            evidence=_kernels_evidence(gpu, gpu.window),
            meaning=text("An operator costs the host more time than its kernel takes the GPU."),
            advice=advice,
            where=next((call.where for call in model.calls("backward") if call.where is not None), None),
            after=(best, worst),
        )


class SmallBatch(Rule):
    """The batch is too small for the card.

    **Why it matters.** A kernel with fewer blocks than the card has multiprocessors leaves some of them idle, and takes no less time for
    that. Launching it costs the host the same as for a large batch.

    **What to do.** Use a larger batch, as far as the memory goes and the training allows; raise the learning rate with it. `ownlab fit`
    says which batch fits before it is tried.

    **Sources.** Memory allocated at most, against that of the card; idle time between kernels; kernels with fewer blocks than there are
    multiprocessors, in the profiler's window. The prediction is the time of a batch of today's size within a larger one.
    """

    code = "small-batch"
    title = text("The batch is too small for the card")
    general = True

    def check(self, case: Case) -> Iterable[Finding]:
        """Look for an empty card: in memory, and in its processors."""
        model, gpu = case.model, case.model.gpu
        evidence = model.process.gpu
        if gpu is None or gpu.window is None or evidence is None:
            return
        lost = idle_between_kernels(model)
        memory = evidence.memory[1]
        used = memory.peak_allocated / max(1, memory.total)
        unfilled = unfilled_share(gpu.window)
        if not _is_launch_bound(model, lost) or used > _SMALL_MEMORY or unfilled < 0.3:
            return
        if gpu.window.kernels / gpu.window.steps > _MANY_KERNELS:
            return
        worst = model.step_ms - _removable(model)
        best = worst - 0.9 * unfilled * gpu.busy_ms
        yield self.finding(
            case,
            cost_ms=model.step_ms - (best + worst) / 2,
            headline=text(
                "The batch fills {memory} of the card's memory, and {share} of the kernels' time leaves processors idle.",
                memory=format_share(used),
                share=format_share(unfilled),
            ),
            evidence=[
                text(
                    "{allocated} of {total} were allocated at most",
                    allocated=format_bytes(memory.peak_allocated),
                    total=format_bytes(memory.total),
                ),
                *_kernels_evidence(gpu, gpu.window),
            ],
            meaning=text("A larger batch takes hardly longer: the prediction is for as many samples as now."),
            advice=[
                text("Try a batch {times:.0f} times as large; ownlab fit says which one fits.", times=_times(used)),
            ],
            where=model.loader.where if model.loader is not None else None,
            after=(best, worst),
        )


class SmallMicroBatches(Rule):
    """Gradients are accumulated over many small batches, although a large one would fit.

    **Why it matters.** Accumulation replaces memory by time: each of its passes launches all kernels of the model again, on a part of the data. On a
    card with memory to spare it saves nothing, and the card waits for the launches of small kernels.

    **What to do.** Make the batch of each pass as many times larger as the memory allows, and accumulate over as many times fewer: the gradients stay
    the same (except for batch normalisation, which sees larger batches). `ownlab fit` says which batch fits before it is tried.

    **Sources.** Backward passes in a step of the optimizer, idle time between kernels, memory allocated at most. The band reaches from passes that take no
    longer with more data to kernels of which only the beginning and end, and the processors that were idle, are saved.
    """

    code = "small-micro-batches"
    title = text("Gradients are accumulated over batches that are too small")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look for many passes in a step, with launches that the GPU waits for, on an empty card."""
        model, gpu, evidence = case.model, case.model.gpu, case.model.process.gpu
        passes = model.backwards
        if gpu is None or gpu.window is None or evidence is None or passes < _FEWEST_PASSES:
            return
        memory = evidence.memory[1]
        used = memory.peak_allocated / max(1, memory.total)
        times = min(_times(used), 2 ** math.floor(math.log2(passes)))
        if times < 2 or not _is_launch_bound(model, idle_between_kernels(model)):
            return
        saved = 1 - 1 / times
        host = sum(model.phase_ms(name) for name in ("forward", "update", "between", "backward"))
        host_after = model.step_ms - model.wait_ms - host * saved
        launches = gpu.window.kernels / gpu.window.steps
        unneeded = max(unfilled_share(gpu.window) * gpu.busy_ms, launches * _KERNEL_MS)
        best = max(host_after, gpu.busy_ms / times)
        worst = max(host_after, gpu.busy_ms - unneeded * saved)
        cost = model.step_ms - (best + worst) / 2
        if cost < LOWEST_SHARE * model.step_ms:
            return
        backward = next((call.where for call in model.calls("backward") if call.where is not None), None)
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "A step has {passes:.0f} backward passes of {count:.0f} kernels each, and the GPU is idle {lost} of it between them.",
                passes=passes,
                count=launches / passes,
                lost=format_ms(idle_between_kernels(model)),
            ),
            evidence=[
                text(
                    "{allocated} of {total} were allocated at most",
                    allocated=format_bytes(memory.peak_allocated),
                    total=format_bytes(memory.total),
                ),
                *_kernels_evidence(gpu, gpu.window),
            ],
            meaning=text("Each pass launches all kernels of the model again, on a part of the data."),
            advice=[
                text(
                    "Make the batch of a pass {times:.0f} times as large, and accumulate over {passes:.0f} of them; ownlab fit says which one fits.",
                    times=times,
                    passes=max(1, round(passes / times)),
                )
            ],
            where=backward,
            after=(best, worst),
        )


def _times(used: float) -> float:
    """By how much the batch can grow in any case: parameters and optimizer are part of what is used."""
    times = 1
    while times < 64 and used * times * 2 < 0.8:
        times *= 2
    return times


class UnfusedOptimizer(Rule):
    """The optimizer launches many kernels where one would do.

    **Why it matters.** With `foreach=False` an optimizer launches a dozen kernels for each tensor of the model. The default (`foreach`)
    works on all tensors at once, but reads and writes them in each of a dozen passes. `fused=True` does all in one pass. An optimizer of one's
    own that loops over its parameters launches some kernels for each of them.

    **What to do.** Set `fused=True` in the optimizer (Adam, AdamW, SGD, Adagrad), on parameters of a GPU; `foreach=True` in others of torch. In one of your
    own, put tensors, gradients and states into lists, and use `torch._foreach_mul_`, `torch._foreach_add_` and the like on these.

    **Sources.** The arguments of the optimizer, its time on the host and on the GPU's own clock. A fused step takes as long as the
    card needs to read and write parameters, gradients and states once; one that works on lists, as its kernels for all tensors together.
    """

    code = "unfused-optimizer"
    title = text("The optimizer is not fused")

    def check(self, case: Case) -> Iterable[Finding]:
        """Compare the optimizer's time with that of a fused one."""
        model, gpu = case.model, case.model.gpu
        optimizer = next((each for each in model.process.optimizers if each.device == "cuda"), None)
        if gpu is None or optimizer is None or optimizer.fused:
            return
        if optimizer.name not in _FUSED:
            yield from self._one_by_one(case, gpu, optimizer)
            return
        now = gpu.spans_ms.get("optimizer", 0.0)
        least = max(_fused_ms(case, optimizer), _FUSED_HOST_MS)
        after = max(gpu.busy_ms - gpu.parts_ms.get("optimizer", 0.0) + least, model.step_ms - max(0.0, now - least))
        cost = model.step_ms - after
        if cost < LOWEST_SHARE * model.step_ms:
            return
        advice = text("Set fused=True in {name}.", name=optimizer.name)
        how = text("foreach=False") if optimizer.foreach is False else text("foreach")
        kernels = sum(each.count for each in gpu.window.operations if each.phase == "optimizer") if gpu.window else 0
        evidence = [
            text("{name} ({how}) of {count} tensors, {size}", name=optimizer.name, how=how, count=optimizer.tensors, size=format_bytes(optimizer.bytes)),
            text("its step takes {host} on the host and {now} on the GPU", host=format_ms(model.phase_ms("optimizer")), now=format_ms(now)),
        ]  # fmt: skip
        if kernels and gpu.window is not None:
            evidence.append(text("{count:.0f} kernels in each step of it", count=kernels / gpu.window.steps))
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "The optimizer takes {now} of each step; fused it would need {least}.",
                now=format_ms(now),
                least=format_ms(least),
            ),
            evidence=evidence,
            meaning=text("Each kernel of it costs a launch, and reads and writes its tensors again."),
            advice=[advice],
            where=optimizer.where,
            change=case.code.with_arguments(optimizer.where, optimizer.name, {"fused": "True"}),
            after=model.band(after),
        )

    def _one_by_one(self, case: Case, gpu: GpuLane, optimizer: Optimizer) -> Iterable[Finding]:
        """An optimizer without a fused implementation, that takes its tensors one by one."""
        model, window = case.model, gpu.window
        if window is None or not optimizer.tensors:
            return
        kernels = sum(each.count for each in window.operations if each.phase == "optimizer") / window.steps
        each_tensor = kernels / optimizer.tensors
        if each_tensor < _ONE_BY_ONE:
            return
        now = gpu.spans_ms.get("optimizer", 0.0)
        bandwidth = CardRates(gpu.evidence).bandwidth
        moving = optimizer.bytes * _MOVED * each_tensor / bandwidth * 1e3 if bandwidth else 0.0
        launching = each_tensor * (optimizer.tensors / _TENSORS_OF_ONE * _KERNEL_MS + optimizer.tensors * _FOREACH_MS)
        least = max(moving, launching, _FUSED_HOST_MS)
        after = max(gpu.busy_ms - gpu.parts_ms.get("optimizer", 0.0) + moving, model.step_ms - max(0.0, now - least))
        cost = model.step_ms - after
        if cost < LOWEST_SHARE * model.step_ms:
            return
        samples = [each for each in model.process.samples if each.phase == "optimizer" and each.where is not None]
        hottest = max(samples, key=lambda each: each.ns, default=None)
        of_torch = optimizer.name in _WITH_FOREACH
        advice = (
            text("Set foreach=True in {name}.", name=optimizer.name)
            if of_torch
            else text(
                "Put tensors, gradients and states into lists, and use torch._foreach_mul_, torch._foreach_add_ … on them."
            )
        )
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{name} takes {now} of each step: it updates {count} tensors one by one, with {kernels:.3g} kernels each.",
                name=optimizer.name,
                now=format_ms(now),
                count=optimizer.tensors,
                kernels=each_tensor,
            ),
            evidence=[
                text("its step takes {host} on the host and {now} on the GPU", host=format_ms(model.phase_ms("optimizer")), now=format_ms(now)),
                text("{count:.0f} kernels in each step of it", count=kernels),
            ],
            meaning=text("Each kernel of it costs a launch, and reads and writes its tensors again."),
            advice=[advice],
            where=optimizer.where if of_torch or hottest is None else hottest.where,
            change=case.code.with_arguments(optimizer.where, optimizer.name, {"foreach": "True"}) if of_torch else None,
            after=model.band(after),
        )  # fmt: skip


def _fused_ms(case: Case, optimizer: Optimizer) -> float:
    evidence = case.model.process.gpu
    bandwidth = CardRates(evidence).bandwidth if evidence is not None else None
    if bandwidth is None:
        return 0.0
    return optimizer.bytes / 4 * _FUSED[optimizer.name] / bandwidth * 1e3

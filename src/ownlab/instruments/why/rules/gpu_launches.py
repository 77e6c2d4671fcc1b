"""Rules about kernels that are too small, or too many, for the host to send them fast enough."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_share
from ownlab.instruments.why.gpu.gpu_lane import GpuLane
from ownlab.instruments.why.gpu.records import KernelWindow
from ownlab.instruments.why.gpu.rooflines import CardRates, is_product
from ownlab.instruments.why.records import Finding, Optimizer
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text
from ownlab.units import format_bytes

__all__ = ["LaunchBound", "SmallBatch", "UnfusedOptimizer"]

# Optimizers of torch that have an implementation in one kernel, with the bytes that a step moves for each parameter:
# what it reads and writes of parameter, gradient and state, in float32.
_FUSED = {"Adam": 28, "AdamW": 28, "SGD": 20, "Adagrad": 20}
# A fused step is a few launches and some Python.
_FUSED_HOST_MS = 0.35
# A step of more kernels does many small things one after the other: a larger batch would not make them fewer.
_MANY_KERNELS = 1500
# Kernels of less time are mostly their own beginning and end.
_SHORT_US = 10.0
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
    return model.step_ms - model.wait_ms - sum(model.phase_ms(name) for name in others) - allocating


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


def _times(used: float) -> float:
    """By how much the batch can grow in any case: parameters and optimizer are part of what is used."""
    times = 1
    while times < 64 and used * times * 2 < 0.8:
        times *= 2
    return times


class UnfusedOptimizer(Rule):
    """The optimizer launches many kernels where one would do.

    **Why it matters.** With `foreach=False` an optimizer launches a dozen kernels for each tensor of the model. The default (`foreach`)
    works on all tensors at once, but reads and writes them in each of a dozen passes. `fused=True` does all in one pass.

    **What to do.** Set `fused=True` in the optimizer (Adam, AdamW, SGD, Adagrad), on parameters of a GPU.

    **Sources.** The arguments of the optimizer, its time on the host and on the GPU's own clock. A fused step takes as long as the
    card needs to read and write parameters, gradients and states once. Not yet tried on a GPU.
    """

    code = "unfused-optimizer"
    title = text("The optimizer is not fused")

    def check(self, case: Case) -> Iterable[Finding]:
        """Compare the optimizer's time with that of a fused one."""
        model, gpu = case.model, case.model.gpu
        optimizer = next((each for each in model.process.optimizers if each.device == "cuda"), None)
        if gpu is None or optimizer is None or optimizer.fused or optimizer.name not in _FUSED:
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


def _fused_ms(case: Case, optimizer: Optimizer) -> float:
    evidence = case.model.process.gpu
    bandwidth = CardRates(evidence).bandwidth if evidence is not None else None
    if bandwidth is None:
        return 0.0
    return optimizer.bytes / 4 * _FUSED[optimizer.name] / bandwidth * 1e3

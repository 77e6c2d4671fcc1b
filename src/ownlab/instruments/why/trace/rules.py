"""Rules about a trace of torch.profiler. Their docstrings are their pages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_share
from ownlab.instruments.why.records import Finding
from ownlab.instruments.why.rule import LOWEST_SHARE, Cause
from ownlab.instruments.why.trace.timeline import Timeline
from ownlab.text import text
from ownlab.units import format_bytes

__all__ = ["TRACE_RULES", "TraceRule"]

# Launches per step and idle share from which launching is called the limit.
_MANY_SHORT = 0.5


class TraceRule(Cause):
    """Checks a trace for one cause. It keeps no state."""

    @abstractmethod
    def check(self, line: Timeline) -> Iterable[Finding]:
        """Yield one finding per separate cause; usually none or one."""

    def finding(
        self,
        line: Timeline,
        *,
        cost_ms: float,
        headline: str,
        evidence: Iterable[str],
        meaning: str,
        advice: Iterable[str],
        after: tuple[float, float] | None = None,
    ) -> Finding:
        """Return a finding of this rule, with the step that is predicted without it."""
        after = after or line.after(cost_ms)
        return Finding(
            code=self.code,
            title=self.title,
            headline=headline,
            cost_ms=round(cost_ms, 3),
            share=round(cost_ms / line.step_ms, 4),
            evidence=tuple(evidence),
            meaning=meaning,
            advice=tuple(advice),
            step_ms_after=(round(after[0], 3), round(after[1], 3)),
        )


def _cost(line: Timeline, part: str) -> float:
    """What a part of the host's step costs: the GPU's idle time meanwhile; all of it if there is no GPU in the trace."""
    return line.idle_ms.get(part, 0.0) if line.gpu is not None else line.parts_ms.get(part, 0.0)


def _copies(line: Timeline, word: str) -> list[tuple[str, int, float, int]]:
    """Kinds of copies with a word in their name: name, count, milliseconds per step, bytes per step."""
    steps = line.steps_in_trace
    return [
        (name, int(count), microseconds / 1e3 / steps, int(size / steps))
        for name, (count, microseconds, size) in line.trace.copies.of.items()
        if word in name
    ]


class TraceDataWait(TraceRule):
    """The training waits for the DataLoader.

    **Why it matters.** While the host waits for a batch it sends no work, and the GPU is idle as soon as it has done what was sent before.

    **What to do.** With `_SingleProcessDataLoaderIter` the training process loads the data itself: give the DataLoader workers. With
    `_MultiProcessingDataLoaderIter` the workers are too few or too slow; a trace does not look into them: `ownlab why python train.py` does,
    and says whether they read, prepare or wait for a core.

    **Sources.** The events `enumerate(DataLoader)#….__next__` of torch.profiler, and when the GPU works.
    """

    code = "trace-data-wait"
    title = text("The training waits for the DataLoader")

    def check(self, line: Timeline) -> Iterable[Finding]:
        """Compare the time within the DataLoader's iterators with the step."""
        waits, cost = line.parts_ms.get("data", 0.0), _cost(line, "data")
        if cost < LOWEST_SHARE * line.step_ms:
            return
        own = any("SingleProcess" in name for name in line.trace.loaders)
        if own:
            headline = text(
                "{time} of a step load data in the training process: num_workers is 0.", time=format_ms(waits)
            )
            advice = [
                text(
                    "Give the DataLoader workers: DataLoader(…, num_workers=4, pin_memory=True, persistent_workers=True)"
                )
            ]
        else:
            headline = text("{time} of a step wait for the workers of the DataLoader.", time=format_ms(waits))
            advice = [text("Use more workers, or prepare less per sample.")]
        yield self.finding(
            line,
            cost_ms=cost,
            headline=headline,
            evidence=[
                text("{name} takes {time} of a step", name=name or text("the DataLoader"), time=format_ms(waits))
                for name in sorted(line.trace.loaders)
            ],
            meaning=text("Nothing is trained meanwhile."),
            advice=[*advice, text("See what the data waits for (reading, preparing, cores): ownlab why python train.py")],
        )  # fmt: skip


class TraceSynchronisation(TraceRule):
    """The host waits for the GPU, and has then sent no work ahead.

    **Why it matters.** `.item()`, `.cpu()`, `print(tensor)`, `if tensor:` and `torch.cuda.synchronize()` wait until the GPU has done everything.
    After that it has nothing to do until the host has sent more.

    **What to do.** Keep losses and metrics as tensors, and convert them every 50 steps. Trace with `with_stack=True` to see the lines.

    **Sources.** cudaStreamSynchronize, cudaDeviceSynchronize, cudaEventSynchronize and cudaMemcpy of the CUDA runtime, and the time from their
    end until the GPU works again.
    """

    code = "trace-synchronisation"
    title = text("The host waits for the GPU at each step")

    def check(self, line: Timeline) -> Iterable[Finding]:
        """Add up how long the GPU is idle after each wait."""
        cost, steps = line.idle_after_sync_ms, line.steps_in_trace
        if cost < LOWEST_SHARE * line.step_ms or len(line.trace.syncs) < 0.5 * steps:
            return
        items = (
            line.trace.operators.of.get("aten::item", [0])[0] + line.trace.operators.of.get("aten::is_nonzero", [0])[0]
        )
        yield self.finding(
            line,
            cost_ms=cost,
            headline=text(
                "After waits of the host the GPU is idle for {cost} of a step: no work was sent ahead.", cost=format_ms(cost)
            ),
            evidence=[
                text("{count:.3g} waits a step, {time} of it", count=len(line.trace.syncs) / steps, time=format_ms(line.parts_ms.get("sync", 0.0))),
                *([text("{count:.3g} calls of .item() or bool(tensor) a step", count=items / steps)] if items else []),
            ],
            meaning=text("While the host waits it sends no work; then the GPU waits for the host."),
            advice=[
                text("Keep values as tensors (.detach()), and convert them every 50 steps."),
                text("See the lines: trace with with_stack=True, or ownlab why python train.py"),
            ],
        )  # fmt: skip


class TracePageableCopies(TraceRule):
    """Batches are copied to the GPU from pageable memory.

    **Why it matters.** Such a copy goes through a buffer of the driver, at about half the speed, and the host waits for it. From pinned
    memory, with `non_blocking=True`, it runs beside the computation.

    **What to do.** Set `pin_memory=True` in the DataLoader, and copy with `.to(device, non_blocking=True)`.

    **Sources.** Events "Memcpy HtoD (Pageable -> Device)" of the GPU.
    """

    code = "trace-pageable-copies"
    title = text("Copies to the GPU come from pageable memory")

    def check(self, line: Timeline) -> Iterable[Finding]:
        """Add up the copies from pageable memory."""
        copies = _copies(line, "HtoD (Pageable")
        cost = sum(each[2] for each in copies)
        if cost < LOWEST_SHARE * line.step_ms:
            return
        yield self.finding(
            line,
            cost_ms=cost,
            headline=text("{cost} of a step copy pageable memory to the GPU, and the host waits.", cost=format_ms(cost)),
            evidence=[
                text("{name}: {size} a step, {rate}/s", name=name, size=format_bytes(size), rate=format_bytes(size / ms * 1e3 if ms else 0))
                for name, _, ms, size in copies
            ],
            meaning=text("The copy could run beside the computation."),
            advice=[text("Set pin_memory=True in the DataLoader, and copy with .to(device, non_blocking=True).")],
        )  # fmt: skip


class TraceAllocations(TraceRule):
    """GPU memory is allocated and freed at each step.

    **Why it matters.** PyTorch keeps GPU memory and gives it out again, which costs nothing. `cudaMalloc` takes long, and `cudaFree` waits
    for the GPU. They come at each step if the cache is emptied (`torch.cuda.empty_cache()`), or if the card is so full that the
    allocator has to give memory back, or if sizes differ from step to step.

    **What to do.** Remove `empty_cache()`. With a full card use a smaller batch or checkpointing; with sizes that differ set
    `PYTORCH_ALLOC_CONF=expandable_segments:True` (`PYTORCH_CUDA_ALLOC_CONF` before 2.10).

    **Sources.** cudaMalloc, cudaFree and cudaHostAlloc of the CUDA runtime in the trace.
    """

    code = "trace-allocations"
    title = text("GPU memory is allocated and freed at each step")

    def check(self, line: Timeline) -> Iterable[Finding]:
        """Add up calls that allocate."""
        cost, steps = line.parts_ms.get("cache", 0.0), line.steps_in_trace
        if cost < LOWEST_SHARE * line.step_ms:
            return
        calls = {
            name: value for name, value in line.trace.runtime.of.items() if "Malloc" in name or "Free" in name or "Alloc" in name
        }  # fmt: skip
        yield self.finding(
            line,
            cost_ms=cost,
            headline=text("{cost} of a step allocate and free GPU memory.", cost=format_ms(cost)),
            evidence=[
                text("{name}: {count:.3g} a step, {time} each", name=name, count=count / steps, time=format_ms(us / count / 1e3))
                for name, (count, us, _) in sorted(calls.items(), key=lambda item: -item[1][1])[:3]
            ],
            meaning=text("The allocator of PyTorch would give out the same memory again, without the driver."),
            advice=[
                text("Remove torch.cuda.empty_cache() from the loop."),
                text("If the card is nearly full, use a smaller batch; if sizes differ, PYTORCH_ALLOC_CONF=expandable_segments:True."),
            ],
        )  # fmt: skip


class TraceLaunchBound(TraceRule):
    """The host cannot launch kernels as fast as the GPU computes them.

    **Why it matters.** Each operator costs the host 5 to 20 µs. If its kernel takes the GPU less, the GPU waits for the host in between: small
    batches, many small layers, an unfused optimizer.

    **What to do.** Use a larger batch (`ownlab fit` says which fits), `torch.compile` (with `mode="reduce-overhead"` for CUDA graphs), and
    `fused=True` in the optimizer.

    **Sources.** Idle time of the GPU while the host runs operators, without that after a wait; kernels shorter than 10 µs.
    """

    code = "trace-launch-bound"
    title = text("The host cannot launch kernels fast enough")

    def check(self, line: Timeline) -> Iterable[Finding]:
        """Look for idle time between kernels while operators run."""
        idle = sum(line.idle_ms.get(name, 0.0) for name in ("forward", "backward", "optimizer", "copy"))
        cost = idle - min(idle, line.idle_after_sync_ms)
        kernels = sum(value[0] for value in line.trace.kernels.of.values())
        if cost < LOWEST_SHARE * line.step_ms or not kernels:
            return
        short = line.trace.short_kernels / kernels
        if short < _MANY_SHORT:
            return
        advice = [text("Use a larger batch: ownlab fit says which fits."), text("Try model = torch.compile(model).")]
        if line.idle_ms.get("optimizer", 0.0) > 0.2 * cost:
            advice.append(text("Use fused=True in the optimizer."))
        yield self.finding(
            line,
            cost_ms=cost,
            headline=text(
                "The GPU waits {cost} of a step for the host to launch kernels, {share} of which take under 10 µs.",
                cost=format_ms(cost),
                share=format_share(short),
            ),
            evidence=[text("{count:.0f} kernels a step", count=kernels / line.steps_in_trace)],
            meaning=text("An operator costs the host more time than its kernel takes the GPU."),
            advice=advice,
        )


class TraceHostWork(TraceRule):
    """Python works between operators while the GPU is idle.

    **Why it matters.** What the trace has no event for is Python: metrics, logging, saving, augmentation in the loop. The GPU finishes what was
    sent, and waits.

    **What to do.** `ownlab why python train.py` names the lines, or trace with `with_stack=True`. Move the work into workers, do it every 50
    steps, or in a thread.

    **Sources.** Times of a step without any operator or call of CUDA, while the GPU is idle. Without a GPU in the trace: all such times.
    """

    code = "trace-host-work"
    title = text("Python works while nothing is computed")

    def check(self, line: Timeline) -> Iterable[Finding]:
        """Look for times without any event of torch."""
        cost = _cost(line, "python")
        if line.steps_by == "trace" or cost < LOWEST_SHARE * line.step_ms:
            return
        yield self.finding(
            line,
            cost_ms=cost,
            headline=text("{cost} of a step are Python without any operator of torch.", cost=format_ms(cost)),
            evidence=[
                text("no event of the host in {time} of a step", time=format_ms(line.parts_ms.get("python", 0.0)))
            ],
            meaning=text("Metrics, logging, saving or preparing run in the training loop."),
            advice=[text("See the lines: ownlab why python train.py")],
        )


class TraceCollectives(TraceRule):
    """The GPU waits for other GPUs.

    **Why it matters.** Gradients are reduced while the backward pass goes on. What is left when there is nothing more to compute is lost time: the
    network is too slow for the model, or another rank is late.

    **What to do.** `ownlab why --nccl LOG` says which way NCCL takes. Trace all ranks: the one with the shortest collectives is the one
    that the others wait for. Accumulate gradients with `no_sync()`, or reduce in bf16.

    **Sources.** Kernels of NCCL during which no other kernel runs.
    """

    code = "trace-collectives"
    title = text("The GPU waits for other GPUs")

    def check(self, line: Timeline) -> Iterable[Finding]:
        """Look for collectives during which nothing is computed."""
        cost = line.collectives_alone_ms
        if cost < LOWEST_SHARE * line.step_ms:
            return
        yield self.finding(
            line,
            cost_ms=cost,
            headline=text("In {cost} of a step the GPU runs collectives and nothing else.", cost=format_ms(cost)),
            evidence=[text("{share} of the step", share=format_share(cost / line.step_ms))],
            meaning=text("The network is slower than the model, or another rank is late."),
            advice=[
                text("See which way NCCL takes: NCCL_DEBUG=INFO, then ownlab why --nccl LOG"),
                text("Compare the traces of all ranks: the others wait for the one with the shortest collectives."),
            ],
            # All of it never goes away: some of the reduction can only begin when the last gradient is there.
            after=(line.step_ms - cost, line.step_ms),
        )


class TraceLayout(TraceRule):
    """Tensors are converted between NCHW and NHWC at each step.

    **Why it matters.** The convolutions of Tensor Cores work on channels last (NHWC). For a model in NCHW cuDNN converts the input and the output of
    each of them.

    **What to do.** `model = model.to(memory_format=torch.channels_last)`, and the same for each batch of images.

    **Sources.** Kernels of cuDNN with nchwToNhwc or nhwcToNchw in their name. Known from documentation; not measured here.
    """

    code = "trace-layout"
    title = text("Tensors are converted between NCHW and NHWC")

    def check(self, line: Timeline) -> Iterable[Finding]:
        """Add up the kernels that convert."""
        cost = line.trace.layout_us / 1e3 / line.steps_in_trace
        if cost < LOWEST_SHARE * line.step_ms:
            return
        yield self.finding(
            line,
            cost_ms=cost,
            headline=text("The GPU converts tensors between NCHW and NHWC in {cost} of a step.", cost=format_ms(cost)),
            evidence=[name for name in line.trace.kernels.of if "nchwToNhwc" in name or "nhwcToNchw" in name][:2],
            meaning=text("The model is in NCHW, and its convolutions work in NHWC."),
            advice=[
                text("Use channels last: model.to(memory_format=torch.channels_last), and the same for each batch.")
            ],
            after=(line.step_ms - cost, line.step_ms),
        )


TRACE_RULES: tuple[type[TraceRule], ...] = (
    TraceDataWait,
    TraceSynchronisation,
    TracePageableCopies,
    TraceAllocations,
    TraceLaunchBound,
    TraceHostWork,
    TraceCollectives,
    TraceLayout,
)

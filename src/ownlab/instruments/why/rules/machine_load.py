"""Rules about the machine: too many threads, other processes, a limit on CPU time, swapping."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.why.formatting import format_ms, format_share
from ownlab.instruments.why.records import Finding
from ownlab.instruments.why.rule import LOWEST_SHARE, Case, Rule
from ownlab.instruments.why.step_model import StepModel
from ownlab.text import text
from ownlab.units import format_bytes

__all__ = ["BusyMachine", "CpuLimit", "OversubscribedThreads", "Swapping"]

_PAGE = 4096
# Other processes use at least this share of the cores before they are blamed.
_OTHERS = 0.25
# Threads of a worker beside the one that fetches: its CPU time is this many times that of the thread.
_THREADED = 1.5


def queue_ms(model: StepModel) -> float:
    """How long a step waits for a core: the training thread itself, and the training for workers that wait."""
    own = model.queue_share * (model.step_ms - model.data_wait_ms)
    fetch = model.fetch
    in_data = model.data_wait_ms * fetch.queue / fetch.wall if fetch is not None and fetch.wall else 0.0
    return own + in_data


class OversubscribedThreads(Rule):
    """The script runs more computing threads than there are cores.

    **Why it matters.** Libraries such as OpenMP, MKL or OpenCV start a thread for each core, in every process. With several workers
    or ranks there are many times more threads than cores; they take turns, and wait for each other.

    **What to do.** Set the number of threads of each process so that all together fit: `OMP_NUM_THREADS`, `torch.set_num_threads`,
    `cv2.setNumThreads(0)` in the workers.

    **Sources.** Threads of PyTorch, ranks and workers against the cores; the CPU time of worker processes against that of their
    fetching threads; the run queue.
    """

    code = "oversubscribed-threads"
    title = text("More threads compute than there are cores")

    def check(self, case: Case) -> Iterable[Finding]:
        """Count threads, and look whether they wait for cores."""
        model, fetch = case.model, case.model.fetch
        ranks = max(1, len(case.ranks))
        threads = model.process.torch_threads * ranks
        factor = fetch.process_cpu / fetch.cpu if fetch is not None and fetch.cpu else 1.0
        in_workers = len(model.workers) * (factor if factor >= _THREADED else 1.0) if model.workers else 0.0
        cost = queue_ms(model)
        own = threads > model.cores or (factor >= _THREADED and threads + in_workers > model.cores * 1.5)
        if not own or cost < LOWEST_SHARE * model.step_ms or model.other_cores > _OTHERS * model.cores:
            return
        best = max(1, int(model.cores // ranks))
        evidence = [
            text(
                "{ranks} process(es) that train, with {threads} threads each, on {cores} cores",
                ranks=ranks,
                threads=model.process.torch_threads,
                cores=f"{model.cores:g}",
            )
        ]
        if model.workers and factor >= _THREADED:
            evidence.append(text("each worker computes with {count:.1f} threads in the mean", count=factor))
        evidence.append(text("threads wait for a core {wait} of each step", wait=format_ms(cost)))
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text(
                "{cost} of each step wait for a core: the script has more threads than cores.", cost=format_ms(cost)
            ),
            evidence=evidence,
            meaning=text("Threads take turns on the cores, and wait for each other."),
            advice=[text("Start it with OMP_NUM_THREADS={count}.", count=best)],
            after=(model.band(model.step_ms - cost)[0], model.step_ms),
        )


class BusyMachine(Rule):
    """Other processes use the cores.

    **Why it matters.** The training and its workers wait for a core while others compute. What is measured on a busy machine
    changes from minute to minute.

    **What to do.** Look who it is (`ownlab top`, `top`), and measure again when the machine is free, or reserve cores.

    **Sources.** The busy time of all cores (`/proc/stat`) without that of this script; the run queue of its threads.
    """

    code = "busy-machine"
    title = text("Other processes use the cores")

    def check(self, case: Case) -> Iterable[Finding]:
        """Compare the busy time of the machine with the script's own."""
        model = case.model
        cost = queue_ms(model)
        if model.other_cores < _OTHERS * model.cores or cost < LOWEST_SHARE * model.step_ms or len(case.ranks) > 1:
            return
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text("{cost} of each step wait for a core that other processes use.", cost=format_ms(cost)),
            evidence=[
                text(
                    "other processes use {others:.1f} of {cores} cores in the mean",
                    others=model.other_cores,
                    cores=f"{model.cores:g}",
                )
            ],
            meaning=text(
                "The figures of this run also show the load of others. This stands last, whatever it costs, because it is no "
                "cause in the code."
            ),
            advice=[text("Measure again when the machine is free.")],
            after=(model.band(model.step_ms - cost)[0], model.step_ms),
        )


class CpuLimit(Rule):
    """The control group has used up its CPU time, and is stopped.

    **Why it matters.** A container with a limit of two CPUs shows all cores of the machine. Libraries start a thread for each, the
    limit is used up in a part of each period, and then everything stands still until the next one.

    **What to do.** Raise the limit (`docker run --cpus`, `resources.limits.cpu`), or set threads and workers to it.

    **Sources.** `throttled_usec` of the control group (`cpu.stat`), and its limit (`cpu.max`).
    """

    code = "cpu-limit"
    title = text("The container's limit of CPU time stops the script")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look how long the group was stopped."""
        model = case.model
        first, last = model.process.counters
        share = min(1.0, (last.throttled_us - first.throttled_us) / 1e6 / model.seconds)
        if share < LOWEST_SHARE or model.process.cpu_quota is None:
            return
        cost = share * model.step_ms
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text("The limit of CPU time stops the script for {share} of the time.", share=format_share(share)),
            evidence=[
                text(
                    "the control group may use {quota:g} of {cores} cores",
                    quota=model.process.cpu_quota,
                    cores=model.process.cores,
                )
            ],
            meaning=text("When the limit is used up, all threads stand still until the next period."),
            advice=[
                text(
                    "Raise the limit, or start with OMP_NUM_THREADS={count}.",
                    count=max(1, int(model.process.cpu_quota)),
                )
            ],
            after=(model.band(model.step_ms - cost)[0], model.step_ms),
        )


class Swapping(Rule):
    """The machine is short of memory: it swaps, or stops to reclaim memory.

    **Why it matters.** Each access to memory that was swapped out waits for a disk, a thousand times longer than for memory.

    **What to do.** Use fewer workers or a smaller `prefetch_factor`; do not keep Python lists of millions of objects in the dataset, which
    each worker copies when it counts references; end other programs.

    **Sources.** Pages swapped in and out (`/proc/vmstat`), and the time in which tasks waited for memory
    (`/proc/pressure/memory`), both of the whole machine.
    """

    code = "swapping"
    title = text("The machine is short of memory")

    def check(self, case: Case) -> Iterable[Finding]:
        """Look at the time that was lost to memory."""
        model = case.model
        first, last = model.process.counters
        stalled = min(1.0, (last.memory_stall_us - first.memory_stall_us) / 1e6 / model.seconds)
        swapped = (last.swap_in - first.swap_in + last.swap_out - first.swap_out) * _PAGE
        if stalled < LOWEST_SHARE:
            return
        cost = stalled * model.step_ms
        yield self.finding(
            case,
            cost_ms=cost,
            headline=text("Tasks wait for memory {share} of the time.", share=format_share(stalled)),
            evidence=[text("{size} swapped during the measurement", size=format_bytes(swapped))],
            meaning=text("The machine has less memory than its programs use."),
            advice=[text("Use fewer workers, a smaller prefetch_factor, or end other programs.")],
            after=(model.band(model.step_ms - cost)[0], model.step_ms),
        )

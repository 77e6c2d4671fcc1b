"""A mean step of a training run: what its time was spent on, and how long it would take if something changed.

The training process works in sequence: the parts of a step add up to its duration. Workers of a DataLoader produce batches beside
it, and a step cannot be shorter than the time in which all workers together produce one. A prediction removes a part from the
sequence and asks which of the two limits the step then.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from ownlab.instruments.why.gpu.gpu_lane import GpuLane, timed_steps
from ownlab.instruments.why.records import Call, Evidence, Fetch, Loader, Place, Process, Sample, Worker

__all__ = ["BASES", "FetchMean", "StepModel", "Waits", "Work", "main_process", "steady_range"]

# What is neither measured by itself nor a call of torch: the model, and Python.
BASES = ("forward", "update", "between")
_TRAINING = ("forward", "backward", "optimizer", "graph")
# What the training process needs to receive a batch that a worker has ready. It hardly depends on the size: the tensors stay in shared
# memory (60 kB in 0.13 ms; on a machine with an H200 29 MB in 0.09 ms, 151 MB in 0.1 to 1.5 ms).
_RECEIVING_MS = 0.13
# What a worker needs to write a batch into shared memory, in bytes per second (14, 29 and 151 MB at 1.2 to 1.4 GB/s on that machine).
_SHARING_RATE = 1.3e9
# Two threads of one core do as much as this share of two cores.
_SURE_OF_CORES = 0.67
# /proc/stat counts hundredths of a second on every architecture that matters (USER_HZ).
_TICKS = 100
# A step that waits for data for this share of it is limited by the workers; a difference of this factor is worth saying.
_WAITING, _NOTICEABLE = 0.2, 1.2
# What the host needs to launch a kernel through an operator of PyTorch.
_LAUNCH_MS = 0.008
# So many steps on the GPU's clock say how long one takes.
_ENOUGH_MARKED = 8
# A GPU that is idle for less of a step sets its length.
_HARDLY_IDLE = 0.08
# The relative width of a band at least, and at most for the noise of the steps.
_NARROWEST, _WIDEST = 0.04, 0.20


class Work(NamedTuple):
    """Time of a step that the samples attribute to one function of the user's code."""

    where: Place
    library: str
    call: str
    phase: str
    ms: float


class Waits(NamedTuple):
    """Waits of the host for the GPU: milliseconds of a mean step, and how many there are in all steps."""

    ms: float
    times: float


NO_WAITS = Waits(0.0, 0.0)
# Phases that run within functions of the user's, and are told apart from them.
_WITHIN = ("gc", "log", "cache", "sync", "copy")


def _in_any(place: Place | None, functions: set[tuple[str, str]]) -> bool:
    return place is not None and (place.file, place.function) in functions


class FetchMean(NamedTuple):
    """The mean cost of fetching what one step uses, in milliseconds (all workers together)."""

    wall: float
    cpu: float
    queue: float
    blocked: float
    collate: float
    process_cpu: float
    read: float  # bytes
    disk: float
    samples: float
    batch_bytes: float


def main_process(evidence: Evidence) -> Process | None:
    """The process that trains: of several ranks the first; the one with the most steps."""
    trained = [process for process in evidence.processes if process.steps]
    candidates = trained or [process for process in evidence.processes if process.loaders or process.samples]
    return min(candidates, key=lambda process: (process.rank or 0, -len(process.steps)), default=None)


def steady_range(steps: Sequence[tuple[int, ...]]) -> int:
    """How many steps to skip at the beginning: caches fill, workers start, kernels are chosen."""
    return min(5, max(1, len(steps) // 5)) if len(steps) > 1 else 0


class StepModel:
    """The mean of the steady steps of one process, and of the workers that feed it."""

    def __init__(self, process: Process, workers: Iterable[Worker]) -> None:
        self.process = process
        first = steady_range(process.steps)
        # A window of the profiler makes its steps, and the one after it, longer.
        excluded = frozenset(process.gpu.excluded) if process.gpu is not None else frozenset()
        kept = tuple(step for number, step in enumerate(process.steps) if number >= first and number not in excluded)
        # Where enough steps were timed by the GPU, the mean is that of those: of bursts both clocks see the same ones.
        timed = timed_steps(process.gpu, first) if process.gpu is not None else {}
        self._gpu_times_ms = timed if len(timed) >= _ENOUGH_MARKED else {}
        kept = tuple(process.steps[number] for number in self._gpu_times_ms if number < len(process.steps)) or kept
        self.steps = kept or process.steps[first:]
        self.count = len(self.steps)
        self._workers = tuple(workers)
        self._begin = self.steps[0][0] if self.steps else 0
        self._end = self.steps[-1][0] + self.steps[-1][1] if self.steps else 0

    # --- the step -----------------------------------------------------------------------------------------------------

    @cached_property
    def durations_ms(self) -> tuple[float, ...]:
        """Of each step, on the GPU's clock where enough steps were marked: the host may run ahead of it for a while."""
        return tuple(self._gpu_times_ms.values()) or tuple(step[1] / 1e6 for step in self.steps)

    @cached_property
    def step_ms(self) -> float:
        """The mean duration."""
        return statistics.fmean(self.durations_ms)

    @cached_property
    def quartiles_ms(self) -> tuple[float, float]:
        """The middle half of the steps."""
        durations = self.durations_ms
        if len(durations) < 4:
            return min(durations), max(durations)
        first, _, third = statistics.quantiles(durations, n=4)
        return first, third

    def phase_ms(self, name: str) -> float:
        """The mean time of a phase per step."""
        if name not in self.process.phases:  # evidence of an older ownlab
            return 0.0
        column = 5 + self.process.phases.index(name)
        return sum(step[column] for step in self.steps) / 1e6 / self.count

    @cached_property
    def cpu_ms(self) -> float:
        """CPU time of the training process per step, all threads."""
        return sum(step[2] for step in self.steps) / 1e6 / self.count

    @cached_property
    def batches(self) -> float:
        """Batches per step, of all loaders."""
        return sum(step[4] for step in self.steps) / self.count

    @cached_property
    def backwards(self) -> float:
        """Backward passes per step."""
        return sum(step[3] for step in self.steps) / self.count

    @cached_property
    def parts_ms(self) -> dict[str, float]:
        """The step by what it was spent on; the base phases are divided by what the samples saw in them."""
        parts = {name: self.phase_ms(name) for name in self.process.phases if name not in BASES}
        python = sum(work.ms for work in self.work)
        bases = sum(self.phase_ms(name) for name in BASES)
        parts["forward"] = max(0.0, bases - python)
        parts["python"] = python
        return {name: ms for name, ms in parts.items() if ms > 0}

    @cached_property
    def training_ms(self) -> float:
        """Forward, backward and optimizer."""
        return sum(self.parts_ms.get(name, 0.0) for name in _TRAINING)

    @cached_property
    def model_ms(self) -> float:
        """What a step spends on the model, on the host or on the GPU, whichever is longer."""
        return max(self.training_ms, self.gpu.busy_ms if self.gpu is not None else 0.0)

    # --- the GPU --------------------------------------------------------------------------------------------------------

    @cached_property
    def gpu(self) -> GpuLane | None:
        """The GPU of this process; None without one, or if too little of it was measured."""
        lane = self._lane
        return lane if lane is not None and lane.known else None

    @cached_property
    def _lane(self) -> GpuLane | None:
        process = self.process
        if process.gpu is None or not self.steps:
            return None
        host = {name: self.phase_ms(name) for name in process.phases}
        return GpuLane(process.gpu, process.phases, host, lambda: self.step_ms, steady_range(process.steps))

    @cached_property
    def wait_ms(self) -> float:
        """How long the host waits for the GPU in a step, where that can be told apart from sending work."""
        return min(self.waits_ms("sync") + self.waits_ms("copy"), self.step_ms)

    def waits_ms(self, kind: str) -> float:
        """How long it waits for values of the GPU ("sync"), or for copies to it ("copy"), by the hooks or by the profiler's window."""
        gpu = self.gpu
        sampled = 0.0 if gpu is None or gpu.window is None else gpu.per_step(gpu.window.waits_us.get(kind, 0.0))
        return max(self.phase_ms(kind), sampled)

    def _waits_in_most_steps(self, without: float) -> bool:
        """Whether the host waits for the GPU at least once in most steps, without so many waits: then what it does afterwards delays the GPU."""
        calls = (call for call in (*self.calls("sync"), *self.calls("copy")) if "not blocking" not in call.detail)
        count = float(sum(call.count for call in calls if call.last_step))  # not those before the first step
        if self.process.gpu is not None and self.process.gpu.sync_steps:
            seen = sum(line.count for line in self.process.gpu.syncs)
            count = max(count, seen * len(self.process.steps) / self.process.gpu.sync_steps)
        return count - without >= 0.5 * len(self.process.steps)

    def within(self, work: Iterable[Work]) -> tuple[float, Waits]:
        """What goes away with functions of the user's, in a step: collections of garbage and output within them, and waits for the GPU."""
        functions = {(each.where.file, each.where.function) for each in work} - {self._loop}
        times = {name: self.phase_ms(name) * self._share_within(name, functions) for name in _WITHIN}
        waited = [call for name in ("sync", "copy") for call in self.calls(name) if _in_any(call.where, functions)]
        lines = [line for line in self.process.gpu.syncs if _in_any(line.where, functions)] if self.process.gpu else []
        seen = sum(line.count for line in lines) * len(self.process.steps) / max(1, self._sync_steps)
        waits = Waits(times.pop("sync") + times.pop("copy"), max(seen, sum(call.count for call in waited)))
        return sum(times.values()), waits

    @cached_property
    def collecting_ms(self) -> float:
        """Automatic collections of garbage within the model: the objects of its operators set them off."""
        calls = [call for call in self.calls("gc") if call.last_step]
        everything = sum(call.ns for call in calls)
        work = {(each.where.file, each.where.function) for each in self.work} - {self._loop}
        own = sum(
            call.ns for call in calls if call.what == "automatic" and call.where and not _in_any(call.where, work)
        )
        return self.phase_ms("gc") * own / everything if everything else 0.0

    @property
    def _sync_steps(self) -> int:
        return self.process.gpu.sync_steps if self.process.gpu is not None else 0

    def _share_within(self, phase: str, functions: set[tuple[str, str]]) -> float:
        """The share of a phase in which one of these functions was running: by the calls; by the samples where calls do not say it."""
        calls = [call for call in self.calls(phase) if call.last_step]
        named = sum(call.ns for call in calls if _in_any(call.where, functions))
        by_calls = named / max(1, sum(call.ns for call in calls))
        samples = [sample for sample in self.process.samples if sample.phase == phase]
        inside = sum(sample.ns for sample in samples if any(_in_any(place, functions) for place in sample.stack))
        return max(by_calls, inside / max(1, sum(sample.ns for sample in samples)))

    # --- what the samples say -----------------------------------------------------------------------------------------

    @cached_property
    def work(self) -> tuple[Work, ...]:
        """Work in the training process that is neither the model nor any call that was measured; the longest first."""
        sums: dict[tuple[str, str, str, str], dict[Sample, float]] = {}
        for phase in BASES:
            samples = [sample for sample in self.process.samples if sample.phase == phase]
            seen = sum(sample.ns for sample in samples)
            scale = self.phase_ms(phase) / seen if seen else 0.0
            for sample in samples:
                where = self.place_in_loop(sample)
                if where is not None and self._is_work(sample):
                    key = (where.file, where.function, sample.library, phase)
                    lines = sums.setdefault(key, {})
                    lines[sample] = lines.get(sample, 0.0) + sample.ns * scale
        found = []
        for (_, _, library, phase), lines in sums.items():
            hottest = max(lines, key=lambda sample: lines[sample])
            where = self.place_in_loop(hottest)
            assert where is not None
            found.append(Work(where, library, hottest.call, phase, sum(lines.values())))
        return tuple(sorted(found, key=lambda work: -work.ms))

    def _is_work(self, sample: Sample) -> bool:
        if sample.in_model:
            return False
        if sample.library != "torch":
            return True
        # Without a DataLoader the forward pass is in the phase "between", with the loss outside of the model.
        return sample.phase != "forward" and self.batches > 0 and sample.call not in ("zero_grad", "clip_grad_norm_")

    @cached_property
    def _loop(self) -> tuple[str, str] | None:
        """The function of the training loop: the one that calls backward."""
        where = next((call.where for call in self.calls("backward") if call.where is not None), None)
        return None if where is None else (where.file, where.function)

    def place_in_loop(self, sample: Sample) -> Place | None:
        """The function that the training loop called, at the line where it was; the line of the loop if it called none."""
        names = [(place.file, place.function) for place in sample.stack]
        if self._loop not in names:
            return sample.where
        number = names.index(self._loop)
        inner = [place for place in sample.stack[:number] if not place.function.endswith(">")]
        return inner[-1] if inner else sample.stack[number]

    def data_samples(self) -> dict[Place, float]:
        """Where fetching was seen, by line, with its share of the samples; in the workers, or here without any."""
        samples = [sample for worker in self.workers for sample in worker.samples] or list(self.process.samples)
        lines: dict[Place, float] = {}
        for sample in samples:
            if sample.phase == "data" and sample.stack:
                place = self._place_in_dataset(sample)
                lines[place] = lines.get(place, 0.0) + sample.ns
        total = sum(lines.values()) or 1.0
        return {place: ns / total for place, ns in sorted(lines.items(), key=lambda item: -item[1])}

    def _place_in_dataset(self, sample: Sample) -> Place:
        """The line of the dataset's own function, whatever it calls; otherwise the innermost line."""
        loader = self.loader
        if loader is not None and loader.dataset_where is not None:
            name = loader.dataset_where.function.rpartition(".")[2]
            for place in sample.stack:
                if place.file == loader.dataset_where.file and place.function.rpartition(".")[2] == name:
                    return place
        return sample.stack[0]

    # --- data ---------------------------------------------------------------------------------------------------------

    @cached_property
    def loader(self) -> Loader | None:
        """The DataLoader of the training data."""
        trained = [loader for loader in self.process.loaders if loader.trained]
        return max(trained, key=lambda loader: loader.wait_ns, default=None)

    @cached_property
    def workers(self) -> tuple[Worker, ...]:
        """The workers of that loader."""
        pids = self.loader.pids if self.loader is not None else ()
        return tuple(worker for worker in self._workers if worker.pid in pids and worker.fetches)

    @cached_property
    def fetches(self) -> tuple[Fetch, ...]:
        """Fetches of training data during the steady steps."""
        if self.loader is None:
            return ()
        found = [fetch for worker in self.workers for fetch in worker.fetches] or list(self.loader.fetches)
        # Workers run ahead of the training: those of a short run may all have ended before the steady steps.
        steady = tuple(fetch for fetch in found if self._begin <= fetch.begin <= self._end)
        return steady if len(steady) >= 3 else tuple(found[1:] or found)

    @cached_property
    def fetch(self) -> FetchMean | None:
        """The mean cost of the batches of one step."""
        fetches = self.fetches
        if not fetches or self.loader is None:
            return None
        times = self.training_batches / len(fetches)
        milli = times / 1e6
        return FetchMean(
            wall=sum(fetch.wall for fetch in fetches) * milli,
            cpu=sum(fetch.cpu for fetch in fetches) * milli,
            queue=sum(fetch.queue for fetch in fetches) * milli,
            blocked=sum(fetch.blocked for fetch in fetches) * milli,
            collate=sum(fetch.collate for fetch in fetches) * milli,
            process_cpu=sum(fetch.process_cpu for fetch in fetches) * milli,
            read=sum(fetch.read for fetch in fetches) * times,
            disk=sum(fetch.disk for fetch in fetches) * times,
            samples=sum(fetch.samples for fetch in fetches) * times,
            batch_bytes=sum(fetch.batch_bytes for fetch in fetches) * times,
        )

    @cached_property
    def training_batches(self) -> float:
        """Batches of training data per step: gradient accumulation uses several."""
        loader = self.loader
        return max(1.0, round(loader.trained / max(1, len(self.process.steps)))) if loader is not None else 1.0

    @cached_property
    def data_wait_ms(self) -> float:
        """How long a step waits for its batches, without what starting workers again has cost."""
        return max(0.0, self.phase_ms("data") - self._restarts[1])

    @property
    def restart_ms(self) -> float:
        """What starting the workers again at each epoch has cost a step."""
        return sum(self._restarts)

    @cached_property
    def _restarts(self) -> tuple[float, float]:
        """Per step: starting the workers, and waiting for the first batch of an epoch longer than for others."""
        loader = self.loader
        if loader is None or not loader.num_workers or loader.persistent_workers or len(loader.epochs) < 2:
            return 0.0, 0.0
        starting, waiting = (5 + self.process.phases.index(name) for name in ("workers", "data"))
        waits = [step[waiting] for step in self.steps if not step[starting]]
        usual = statistics.fmean(waits) if waits else 0.0
        begun = [step for step in self.steps if step[starting]]
        first = sum(max(0.0, step[waiting] - usual) for step in begun)
        return sum(step[starting] for step in begun) / 1e6 / self.count, first / 1e6 / self.count

    @cached_property
    def workers_busy(self) -> float:
        """The share of the time in which a worker fetches: those that wait themselves are not why the training waits."""
        if self.fetch is None or not self.workers:
            return 1.0
        return self.fetch.wall / len(self.workers) / self.step_ms

    @cached_property
    def long_run_ms(self) -> float | None:
        """How long a step takes once the batches that were prepared ahead are used up, if the measured ones are noticeably shorter."""
        if self.fetch is None or not self.workers or self.data_wait_ms < _WAITING * self.step_ms:
            return None
        produced = self.fetch.wall / len(self.workers)
        return produced if produced > _NOTICEABLE * self.step_ms else None

    @property
    def cores(self) -> float:
        """The cores that the script may use."""
        process = self.process
        return min(process.cores, process.cpu_quota) if process.cpu_quota else float(process.cores)

    # --- the machine ---------------------------------------------------------------------------------------------------

    @cached_property
    def seconds(self) -> float:
        """The time between the two readings of the counters."""
        first, last = self.process.counters
        return max(1e-9, (last.at_ns - first.at_ns) / 1e9)

    @cached_property
    def queue_share(self) -> float:
        """The share of the time in which the training thread was ready to run and had no core."""
        first, last = self.process.counters
        return max(0.0, (last.queue_ns - first.queue_ns) / 1e9 / self.seconds)

    @cached_property
    def other_cores(self) -> float:
        """The cores that processes outside of this script used, in the mean."""
        first, last = self.process.counters
        busy = (last.machine_busy_ticks - first.machine_busy_ticks) / _TICKS
        own = (last.cpu_ns - first.cpu_ns) / 1e9
        within = [
            fetch for worker in self._workers for fetch in worker.fetches if first.at_ns <= fetch.begin <= last.at_ns
        ]
        return max(0.0, (busy - own - sum(fetch.process_cpu for fetch in within) / 1e9) / self.seconds)

    # --- predictions --------------------------------------------------------------------------------------------------

    def without(self, ms: float, waits: Waits = NO_WAITS) -> tuple[float, float]:
        """The band of the step if `ms` of the training process's own work went away, and with it these waits for the GPU."""
        return self.band(max(self.without_host(ms, waits), self._production_ms))

    @cached_property
    def _production_ms(self) -> float:
        """The time in which the workers make the data of a step, if that is what limits it: what the training did beside is waiting then."""
        if self.fetch is None or not self.workers or self.data_wait_ms <= 0.02 * self.step_ms:
            return 0.0
        return min(self.step_ms, self.fetch.wall / len(self.workers))

    def without_host(self, ms: float, waits: Waits = NO_WAITS) -> float:
        """The step if the host did `ms` less: it can then be as short as the GPU's own work, and no shorter.

        Work that the host sends ahead hides what it does meanwhile. Where it waits for the GPU in each step nothing is sent
        ahead, and the step becomes shorter by what the GPU was idle meanwhile; unless what waited is what goes away.
        """
        gpu = self.gpu
        if gpu is None:
            return max(0.0, self.step_ms - ms - waits.ms)
        least = max(self.step_ms - max(self.wait_ms, waits.ms) - ms, gpu.busy_ms)
        if self._waits_in_most_steps(waits.times):
            least = max(least, self.step_ms - min(ms + waits.ms, gpu.idle_ms))
        return min(self.step_ms, least)

    def with_less_gpu(self, ms: float) -> float:
        """The step if the GPU worked `ms` less: the host needs its own time nevertheless."""
        gpu = self.gpu
        if gpu is None:
            return self.step_ms
        host = self.step_ms - self.wait_ms
        if gpu.idle_ms < _HARDLY_IDLE * self.step_ms and gpu.window is not None:
            # The host sends work ahead until it is stopped, and what it needs for that itself cannot be seen.
            sending = gpu.window.launches / gpu.window.steps * _LAUNCH_MS
            others = sum(
                self.phase_ms(name) for name in self.process.phases if name not in (*BASES, *_TRAINING, "sync", "copy")
            )
            host = min(host, sending + others)
            # A step takes longer than its kernels do one by one in the profiler's window (there are gaps between them, and a card that
            # works without a pause runs at lower clocks): it becomes shorter by the same share.
            ms *= self.step_ms / max(1e-9, gpu.busy_ms)
        return min(self.step_ms, max(host, self.step_ms - ms))

    def with_workers(self, count: int) -> tuple[float, float]:
        """The band of the step with this many workers."""
        fetch = self.fetch
        assert fetch is not None
        rest = self.without_host(self.data_wait_ms)
        own_cpu = self.cpu_ms - (0.0 if self.workers else min(fetch.cpu, self.cpu_ms))
        # What the kernel calls cores may be two threads of one, which together do a third more than one of them.
        certain = self.cores * _SURE_OF_CORES if self.cores > 1 else self.cores
        needed = (own_cpu + fetch.cpu) / max(1.0, certain - self.other_cores)
        sharing = 0.0 if self.workers else fetch.batch_bytes / _SHARING_RATE * 1e3
        best = max(rest, (fetch.wall - fetch.queue + sharing) / count)
        receiving = 0.0 if self.workers else self.training_batches * _RECEIVING_MS
        worst = max(best, needed, (fetch.wall + sharing) / count, rest + receiving)
        return self.band(best)[0], min(self.band(worst)[1], self.step_ms * (1 + _NARROWEST))

    def band(self, ms: float) -> tuple[float, float]:
        """A band around a predicted step, as wide as the steps differ."""
        first, third = self.quartiles_ms
        width = min(_WIDEST, max(_NARROWEST, (third - first) / 4 / max(1e-9, self.step_ms)))
        return ms * (1 - width), ms * (1 + width)

    # --- calls --------------------------------------------------------------------------------------------------------

    def calls(self, phase: str, *names: str) -> tuple[Call, ...]:
        """Calls during the steps, by the time they took."""
        found = [call for call in self.process.calls if call.phase == phase and (not names or call.what in names)]
        return tuple(sorted(found, key=lambda call: -call.ns))

"""What fetching a batch costs, in a worker of a DataLoader or in the main process.

wall = CPU of the thread + waiting for a core (the run queue) + blocked. Blocked is reading, CPU is preparing, and the run queue
means too few cores. Without the run queue a busy machine looks like a slow disk.

A worker appends one line of JSON for each batch to its own file: it may be killed at any time.
"""

import json
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from ownlab_guest.why.stack_sampler import StackSampler
from ownlab_guest.why.system_counters import IoCounter, QueueCounter

__all__ = ["FetchMeter", "WorkerLog", "sampled"]

# Batches whose size in memory is computed: it rarely changes.
_SIZED_BATCHES = 3


class FetchMeter:
    """Measures fetches of one thread. Made in the thread that fetches, because it reads this thread's counters."""

    def __init__(self) -> None:
        self._queue, self._io = QueueCounter(), IoCounter()
        self._collate = 0
        self._batches = self._bytes = 0

    def collate_timed(self, fetcher: Any) -> None:
        """Time the collate function of this fetcher separately."""
        original = fetcher.collate_fn
        if getattr(original, "ownlab_timed", False):
            return

        def collate(data: Any) -> Any:
            begin = time.perf_counter_ns()
            try:
                return original(data)
            finally:
                self._collate += time.perf_counter_ns() - begin

        collate.ownlab_timed = True  # type: ignore[attr-defined]
        fetcher.collate_fn = collate

    def fetch(self, fetch: Callable[..., Any], fetcher: Any, index: Any) -> "tuple[Any, List[int]]":
        """Run a fetch; return its batch, and its costs in the order of the host's record `Fetch`."""
        self._collate = 0
        read, disk = self._io.bytes_read()
        begin, cpu, queue = time.perf_counter_ns(), time.thread_time_ns(), self._queue.nanoseconds()
        process = time.process_time_ns()
        batch = fetch(fetcher, index)
        process = time.process_time_ns() - process
        queue, cpu = self._queue.nanoseconds() - queue, time.thread_time_ns() - cpu
        end = time.perf_counter_ns()
        read_after, disk_after = self._io.bytes_read()
        if self._batches < _SIZED_BATCHES:
            self._batches += 1
            self._bytes = _size_of(batch)
        samples = len(index) if isinstance(index, (list, tuple)) else 1
        return batch, [
            begin, end - begin, cpu, queue, process, read_after - read, disk_after - disk, self._collate, samples, self._bytes,
        ]  # fmt: skip


class WorkerLog:
    """The file of one worker process."""

    def __init__(self, folder: str, worker: int, dataset: Any) -> None:
        self._file = os.open(
            os.path.join(folder, "worker-%d.jsonl" % os.getpid()),
            os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
            0o600,
        )
        self._fetching = False
        self.meter = FetchMeter()
        torch = sys.modules.get("torch")
        threads = torch.get_num_threads() if torch is not None else 1
        self._write({"worker": worker, "pid": os.getpid(), "threads": threads})
        self._sampler = StackSampler(threading.get_ident(), self._phase, self._write_samples)
        self._sampler.start()

    def _phase(self) -> str:
        return "data" if self._fetching else ""

    def fetch(self, fetch: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        """Run a fetch and log its costs."""
        self._fetching = True
        try:
            batch, costs = self.meter.fetch(fetch, fetcher, index)
        finally:
            self._fetching = False
        self._write({"fetch": costs})
        return batch

    def close(self) -> None:
        """Write the last samples; called when multiprocessing ends the worker."""
        self._sampler.stop()
        self._write_samples()

    def _write_samples(self) -> None:
        self._write({"samples": sampled(self._sampler)})

    def _write(self, line: Dict[str, Any]) -> None:
        try:
            os.write(self._file, json.dumps(line, separators=(",", ":")).encode("utf-8", "replace") + b"\n")
        except OSError:  # the disk is full, or the folder is gone
            return


def sampled(sampler: Optional[StackSampler]) -> List[Dict[str, Any]]:
    """The samples as plain JSON, the heaviest first."""
    seen = [] if sampler is None else sorted(sampler.samples.copy().items(), key=lambda item: -item[1][1])
    return [
        {**key._asdict(), "stack": [place._asdict() for place in key.stack], "count": count, "ns": nanoseconds}
        for key, (count, nanoseconds) in seen[:200]
    ]


def _size_of(batch: Any, depth: int = 4) -> int:
    """The bytes of the tensors and arrays in a batch."""
    size = getattr(batch, "nbytes", None)
    if isinstance(size, int):
        return size
    items = batch.values() if hasattr(batch, "values") else batch if isinstance(batch, (list, tuple)) else ()
    return sum(_size_of(item, depth - 1) for item in items) if depth else 0

"""`ownlab.watch`: what the GPUs did while a block of code ran, in a script or a cell.

    with ownlab.watch() as w:
        train()
    w.report()

`Watch` itself is in ownlab_guest.kernel.watch. This module samples in the same process if ownlab is installed in the
environment of the kernel. `python -m ownlab.instruments.top.notebook PID EVERY NAME` does the same for a process whose environment
has no ownlab: it prints a line of JSON when it samples, one for each line of stdin, and one at the end of stdin.
"""

from __future__ import annotations

import getpass
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from msgspec.structs import replace

from ownlab.errors import OwnlabError, UsageError
from ownlab.instruments.top.nvml_child import PENDING
from ownlab.instruments.top.records import Owner, Sample
from ownlab.instruments.top.report import Report, ReportBuilder
from ownlab.instruments.top.source import Source, open_source
from ownlab.json_encoding import encode_shown_json, error_to_builtins, to_typed_builtins
from ownlab_guest.kernel import watch as kernel_watch
from ownlab_guest.kernel.watch import SHORTEST_INTERVAL, Watch, process_name

__all__ = ["Watch", "watch"]

# A driver that takes longer may hang: the block does not wait any longer.
_FIRST_ANSWER_SECONDS = 10.0
_MOST_SAMPLES = 3600


def watch(every: float = 1.0) -> Watch:
    return Watch(LocalSampling(os.getpid(), process_name()), every)


watch.__doc__ = kernel_watch.watch.__doc__


class LocalSampling:
    """Samples in a thread of this process; `Watch` calls `start`, `read` and `stop`."""

    usage_error = UsageError

    def __init__(self, pid: int, name: str) -> None:
        """`pid`: the process whose cards come first; `name`: how samples call it."""
        self._pid = pid
        self._name = name
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque(maxlen=_MOST_SAMPLES)
        self._used_cards: set[str] = set()  # UUIDs of the cards that the process, or one of its children, was on
        self._builder = ReportBuilder()
        self._source: Source | None = None
        self._thread: threading.Thread | None = None

    def start(self, every: float) -> None:
        """Start the thread, once the driver has answered."""
        self._samples.clear()
        self._used_cards, self._builder = set(), ReportBuilder()
        self._stop.clear()
        source = open_source(owners=self._owners)
        deadline = time.monotonic() + _FIRST_ANSWER_SECONDS
        try:
            # This sample covers the time before the block. The next one starts here.
            while source.take().trouble == PENDING and time.monotonic() < deadline:
                pass
        except BaseException:  # the cell was interrupted
            source.close()
            raise
        self._source = source
        self._thread = threading.Thread(target=self._sample, args=(source, every), name="ownlab.watch", daemon=True)
        self._thread.start()

    def stop(self) -> LocalResult:
        """Take the last sample, and return the result."""
        source, thread, self._source, self._thread = self._source, self._thread, None, None
        assert source is not None
        assert thread is not None
        self._stop.set()
        thread.join()
        source.close()
        return self.read()

    def read(self) -> LocalResult:
        """Return the result so far."""
        with self._lock:
            if not self._samples:
                return LocalResult((), None)
            report = self._builder.finish()
            cards = sorted(report.cards, key=lambda card: card.uuid not in self._used_cards)
            return LocalResult(tuple(self._samples), replace(report, cards=tuple(cards)))

    def _owners(self) -> Mapping[int, Owner]:
        """Make the process, with all its children, the owner of its runtime."""
        return {self._pid: Owner(os.environ.get("OWNLAB_RUNTIME") or "watch", self._name, _user_name())}

    def _sample(self, source: Source, every: float) -> None:
        begin = time.monotonic()
        due = begin + every
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            begin = time.monotonic()
            self._add(source.take())
            due = max(due + every, time.monotonic() + SHORTEST_INTERVAL)
        time.sleep(max(0.0, begin + SHORTEST_INTERVAL - time.monotonic()))
        self._add(source.take())  # the rest of the block

    def _add(self, sample: Sample) -> None:
        own = {process.pid for process in sample.processes if process.owner is not None}
        with self._lock:
            self._samples.append(sample)
            self._builder.add(sample)
            for card in sample.cards:
                if any(running.pid in own for running in card.processes or ()):
                    self._used_cards.add(card.uuid)


class LocalResult:
    """The samples of a block, and what is made of them when it is needed."""

    def __init__(self, samples: tuple[Sample, ...], summary: Report | None) -> None:
        self.samples = samples
        self.summary = summary

    def print_report(self) -> None:
        """Print the report."""
        from ownlab.instruments.top.report_terminal import show_report
        from ownlab.render.console import console

        assert self.summary is not None
        show_report(self.summary, console())

    @cached_property
    def mimebundle(self) -> dict[str, Any]:
        """The chart, and a line of text for each card."""
        from ownlab.instruments.top.chart import report_chart
        from ownlab.render.charts import MIME

        assert self.summary is not None
        lines = [f"{card.index}: {card.name}: {card.headline}. {card.advice}" for card in self.summary.cards]
        return {"text/plain": "\n".join(lines) or str(self.summary.trouble), MIME: report_chart(self.summary)}

    def describe(self) -> dict[str, Any]:
        """Return everything for a kernel without ownlab."""
        if self.summary is None:
            return {"samples": [], "summary": None, "mimebundle": {}, "text": ""}
        from ownlab.instruments.top.report_terminal import show_report
        from ownlab.render.console import print_to_text

        summary = self.summary
        return {
            "samples": to_typed_builtins(self.samples),
            "summary": to_typed_builtins(summary),
            "mimebundle": self.mimebundle,
            "text": print_to_text(lambda out: show_report(summary, out)),
        }


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name in this container
        return ""


def _serve(pid: int, every: float, name: str) -> None:
    def send(message: dict[str, Any]) -> None:
        sys.stdout.buffer.write(encode_shown_json(message) + b"\n")
        sys.stdout.buffer.flush()

    sampling = LocalSampling(pid, name)
    try:
        sampling.start(every)
        send({"ready": True})
        for _ in sys.stdin.buffer:
            send(sampling.read().describe())
        send(sampling.stop().describe())
    except OwnlabError as exc:
        send({"error": error_to_builtins(exc)})


if __name__ == "__main__":
    _serve(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3])

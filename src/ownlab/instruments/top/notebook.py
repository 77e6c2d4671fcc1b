"""`ownlab.watch`: what the cards did while a block of code ran, in a script or a cell.

    with ownlab.watch() as w:
        train()
    w.report()

`python -m ownlab.instruments.top.notebook PID EVERY` does the same for a process whose environment has no ownlab: it says "ready"
when it watches, and, when stdin closes, its samples as one line of JSON, and the report after it.
"""

from __future__ import annotations

import getpass
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ownlab.errors import UsageError
from ownlab.instruments.top.nvml_child import PENDING
from ownlab.instruments.top.records import Owner, Sample
from ownlab.instruments.top.report import Gathering, Report
from ownlab.instruments.top.source import Source, open_source
from ownlab.json_encoding import encode_json

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Watch", "watch"]

# GPM compares two moments that lie more than 100 ms apart (nvml.h): nothing shorter can be told.
_SHORTEST = 0.11
# A driver that takes longer to answer may hang: then the block is not kept waiting.
_FIRST_ANSWER = 10.0
_MOST_SAMPLES = 3600


def watch(every: float = 1.0) -> Watch:
    """Watch the cards while a `with` block runs, with a sample every so many seconds: see Watch.report."""
    return Watch(every)


class Watch:
    """The samples of a `with` block, and what they add up to."""

    def __init__(self, every: float = 1.0, *, pid: int | None = None) -> None:
        """`pid`: the process whose cards matter most; this one, unless another asks for it."""
        if every < _SHORTEST:
            raise UsageError(f"every={every:g}: the driver measures over {_SHORTEST:g} s at least")
        self.samples: deque[Sample] = deque(maxlen=_MOST_SAMPLES)  # the last of them; the report is of all
        self._every = every
        self._pid = os.getpid() if pid is None else pid
        self._stop = threading.Event()
        self._guard = threading.Lock()
        self._used: set[str] = set()  # UUIDs of the cards that this process, or one that it started, was on
        self._gathered = Gathering()
        self._source: Source | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        if self._source is not None:
            raise UsageError("this is watching already", hint="Call ownlab.watch() again for a block within the block.")
        self.samples.clear()
        self._used, self._gathered = set(), Gathering()
        self._stop.clear()
        source = open_source(owners=self._owners)
        deadline = time.monotonic() + _FIRST_ANSWER
        try:
            # What it says is of the time before the block; the next begins here.
            while source.take().trouble == PENDING and time.monotonic() < deadline:
                pass
        except BaseException:  # the cell was interrupted
            source.close()
            raise
        self._source = source
        self._thread = threading.Thread(target=self._follow, args=(source,), name="ownlab.watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        source, thread, self._source, self._thread = self._source, self._thread, None, None
        if source is None or thread is None:
            return
        self._stop.set()
        thread.join()
        source.close()

    def report(self) -> None:
        """Print what the cards' time went into: a verdict with advice, means and peaks; cards of this process first."""
        from ownlab.instruments.top.report_terminal import show_report
        from ownlab.render.console import console

        show_report(self.summary(), console())

    def summary(self) -> Report:
        """The same as a record."""
        with self._guard:
            if not self._gathered.samples:
                raise UsageError("nothing has been watched yet", hint="with ownlab.watch() as w: … Then: w.report()")
            found = self._gathered.finish()
            return replace(found, cards=tuple(sorted(found.cards, key=lambda card: card.uuid not in self._used)))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """As the last line of a cell: a drawing, and the text for pages that cannot draw it."""
        if not self._gathered.samples:
            return {"text/plain": repr(self)}
        from ownlab.instruments.top.chart import report_chart
        from ownlab.render.charts import MIME

        found = self.summary()
        lines = [f"{card.index}: {card.name}: {card.headline}. {card.advice}" for card in found.cards]
        return {"text/plain": "\n".join(lines) or found.trouble, MIME: report_chart(found)}

    def _owners(self) -> Mapping[int, Owner]:
        """This process, and with it whatever it starts."""
        name = os.environ.get("JPY_SESSION_NAME") or sys.argv[0] or "this process"
        return {self._pid: Owner(os.environ.get("OWNLAB_RUNTIME") or "watch", name, _person())}

    def _follow(self, source: Source) -> None:
        begun = time.monotonic()
        due = begun + self._every
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            begun = time.monotonic()
            self._add(source.take())
            due = max(due + self._every, time.monotonic() + _SHORTEST)
        time.sleep(max(0.0, begun + _SHORTEST - time.monotonic()))
        self._add(source.take())  # the rest of the block

    def _add(self, sample: Sample) -> None:
        ours = {process.pid for process in sample.processes if process.owner is not None}
        with self._guard:
            self.samples.append(sample)
            self._gathered.add(sample)
            for card in sample.cards:
                if any(running.pid in ours for running in card.processes or ()):
                    self._used.add(card.uuid)


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name in this container
        return ""


def _serve(pid: int, every: float) -> None:

    with Watch(every, pid=pid) as watching:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
    sys.stdout.write(encode_json(list(watching.samples)).decode() + "\n")
    watching.report()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), float(sys.argv[2]))

"""The thread that takes samples, so that a driver that hangs never keeps keys from being heard."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ownlab.errors import OwnlabError
from ownlab.instruments.top.pacing import follow
from ownlab.instruments.top.records import Sample
from ownlab.instruments.top.source import Source

__all__ = ["Feed"]


class Feed:
    """Takes samples, and tells of each, and of the end: None for the end of a recording, or what went wrong."""

    def __init__(
        self, source: Source, *, interval: float, speed: float | None, record: Callable[[Sample], None]
    ) -> None:
        self.source = source
        self.interval = interval
        self.speed = speed  # None: live
        self.record = record
        self._stop = threading.Event()
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._thread: threading.Thread | None = None

    def start(self, tell: Callable[[Sample], None], ended: Callable[[OwnlabError | None], None]) -> None:
        """Begin. Both are called in the feed's own thread."""
        self._thread = threading.Thread(target=self._run, args=(tell, ended), name="ownlab-feed", daemon=True)
        self._thread.start()

    def hold(self, held: bool) -> None:
        """A recording waits while its picture stands still. What is live goes on: it may be recorded."""
        if held and self.speed is not None:
            self._goes_on.clear()
        else:
            self._goes_on.set()

    def stop(self) -> None:
        """End it; a sample that is being taken has its second."""
        self._stop.set()
        self._goes_on.set()
        if self._thread is not None:
            self._thread.join(timeout=2.0)

    def _run(self, tell: Callable[[Sample], None], ended: Callable[[OwnlabError | None], None]) -> None:
        try:
            for sample in follow(self.source, interval=self.interval, speed=self.speed, stop=self._stop):
                self.record(sample)
                tell(sample)
                self._goes_on.wait()
        except OwnlabError as exc:
            ended(exc)
        else:
            if not self._stop.is_set():
                ended(None)

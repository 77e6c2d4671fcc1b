"""Samples in their time: live ones each interval, recorded ones as far apart as they were."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from ownlab.instruments.top.records import Sample
from ownlab.instruments.top.source import Source, StreamEnded

__all__ = ["follow"]

# A first sample has no rates and no saturation: the second comes as soon as it can have them (GPM: after 100 ms).
_SOON = 0.15


def follow(
    source: Source, *, interval: float = 1.0, speed: float | None = None, stop: threading.Event | None = None
) -> Iterator[Sample]:
    """Samples until the source ends or `stop` is set. With a speed the source is a recording, and says its own times."""
    stop = stop or threading.Event()
    due = time.monotonic()
    while not stop.is_set():
        try:
            sample = source.take()
        except StreamEnded:
            return
        if speed is not None and stop.wait((sample.seconds or 0.0) / speed):
            return
        yield sample
        # Times that were missed (the machine slept, the driver hung) are not made up for.
        now = time.monotonic()
        due = max(due + (interval if sample.seconds is not None else min(interval, _SOON)), now)
        if speed is None and stop.wait(due - now):
            return

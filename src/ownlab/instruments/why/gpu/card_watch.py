"""Asks the driver each second what the cards do while a script runs: clocks, throttling, other processes, activity.

NVML is queried by a child process, as for `ownlab top`; the script is not touched.
"""

from __future__ import annotations

import os
import threading
import time
from types import TracebackType

from ownlab.instruments.top.nvml_child import NvmlChild
from ownlab.instruments.top.records import CardSample, Saturation
from ownlab.instruments.why.gpu.records import CardReading

__all__ = ["CardWatch"]

_INTERVAL = 1.0
_MOST_READINGS = 3600
_DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")
_NO_SATURATION = Saturation()


class CardWatch:
    """Watches all cards within a block. Without a driver of NVIDIA nothing is started."""

    def __init__(self) -> None:
        self.readings: list[CardReading] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> CardWatch:
        if any(os.path.exists(path) for path in _DRIVER):
            self._thread = threading.Thread(target=self._watch, name="ownlab-why-cards", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(2.0)

    def _watch(self) -> None:
        child = NvmlChild()
        try:
            while not self._over.wait(_INTERVAL) and len(self.readings) < _MOST_READINGS:
                cards, _ = child.ask()
                now = time.perf_counter_ns()
                self.readings += [card_reading(card, now) for card in cards]
        finally:
            child.close()


def card_reading(card: CardSample, now: int) -> CardReading:
    """What is kept of a sample."""
    activity = card.saturation or _NO_SATURATION
    return CardReading(
        at_ns=now,
        uuid=card.uuid,
        clock=card.clock_sm,
        clock_most=card.clock_sm_max,
        throttle=card.throttle or (),
        power=card.power,
        power_limit=card.power_limit,
        sm=activity.sm,
        tensor=activity.tensor,
        dram=activity.dram,
        processes=tuple((each.pid, each.memory, each.sm) for each in card.processes or ()),
    )

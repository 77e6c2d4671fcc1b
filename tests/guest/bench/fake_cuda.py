"""A torch with a fake card: everything "on cuda:0" is created on the CPU. For the interpreter that has torch."""

from __future__ import annotations

import time
from typing import Any

MADE = ("empty", "ones", "rand", "randint", "randn", "zeros")
CARD = "cuda:0"
TOTAL, FREE = 16 << 30, 8 << 30


class Event:
    """A time of the host's clock."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.moment: float | None = None

    def record(self) -> None:
        self.moment = time.perf_counter()

    def synchronize(self) -> None:
        assert self.moment is not None

    def elapsed_time(self, later: Event) -> float:
        assert self.moment is not None
        assert later.moment is not None
        return 1000 * (later.moment - self.moment)


class Properties:
    L2_cache_size = 1 << 20

    def __init__(self, capability: tuple[int, int]) -> None:
        self.major, self.minor = capability


class Cards:
    """torch.cuda with one card; a lost card raises."""

    Event = Event

    def __init__(self, capability: tuple[int, int]) -> None:
        self.capability = capability
        self.lost = False
        self.fraction: float | None = None

    def device_count(self) -> int:
        return 1

    def is_available(self) -> bool:
        return True

    def set_device(self, number: int) -> None:
        assert number == 0

    def mem_get_info(self, number: int) -> tuple[int, int]:
        return FREE, TOTAL

    def get_device_properties(self, number: int) -> Properties:
        return Properties(self.capability)

    def set_per_process_memory_fraction(self, fraction: float, number: int) -> None:
        self.fraction = fraction

    def synchronize(self) -> None:
        if self.lost:
            raise RuntimeError("CUDA error: unspecified launch failure")

    def empty_cache(self) -> None:
        self.synchronize()


class Torch:
    """Passes on everything except cards."""

    def __init__(self, torch: Any, capability: tuple[int, int]) -> None:
        self._torch = torch
        self.cuda = Cards(capability)

    def device(self, name: str) -> Any:
        """The context in which models are created."""
        assert name == CARD
        return self._torch.device("cpu")

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._torch, name)
        if name not in MADE:
            return value

        def make(*arguments: Any, **named: Any) -> Any:
            named.pop("device", None)
            return value(*arguments, **named)

        return make

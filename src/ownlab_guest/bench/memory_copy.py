"""Bytes that are moved: within a device's memory, and between host and card. Read and written bytes both count."""

from typing import Any, Tuple

from ownlab_guest.bench.device import Place
from ownlab_guest.bench.timing import Outcome

MIB = 1 << 20


def copy_within(place: Place, seconds: float, mib: int) -> Outcome:
    """b = a."""
    source, target = _buffers(place, mib, 2)
    return place.time(lambda number: target.copy_(source), seconds, 2.0 * mib * MIB, note=place.threads)


def triad(place: Place, seconds: float, mib: int) -> Outcome:
    """c = a + 3 b, as STREAM does it."""
    torch = place.torch
    left, right, result = _buffers(place, mib, 3)
    return place.time(lambda number: torch.add(left, right, alpha=3.0, out=result), seconds, 3.0 * mib * MIB)


def between(place: Place, seconds: float, mib: int, pinned: bool, to_card: bool) -> Outcome:
    """One copy after the other, each waited for only where the driver does that itself (pageable memory)."""
    torch = place.torch
    host = torch.randn(MIB // 4).repeat(mib)
    host = host.pin_memory() if pinned else host
    card = torch.empty(mib * MIB // 4, device=place.device)
    source, target = (host, card) if to_card else (card, host)

    def step(number: int) -> Any:
        return target.copy_(source, non_blocking=pinned)

    return place.time(step, seconds, float(mib * MIB), by_host=True)


def _buffers(place: Place, mib: int, count: int) -> Tuple[Any, ...]:
    torch = place.torch
    place.need(count * mib * MIB)
    # Drawing a GiB takes seconds on a CPU, and nothing on the way to memory sees that a MiB comes again.
    return tuple(torch.randn(MIB // 4, device=place.device).repeat(mib) for _ in range(count))

"""Matrix products by torch, on a card or on the CPU. Random data: zeros need less power, and so run at higher clocks."""

from typing import Any, List, Tuple

from ownlab_guest.bench.device import Place
from ownlab_guest.bench.numpy_operations import part_of_batch
from ownlab_guest.bench.timing import HostClock, Outcome, Skipped, percentiles, thinned

# Ours -> torch's. tf32 is fp32 in memory, and rounded by the tensor cores.
TYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
}
# From which compute capability on NVIDIA's cards have it in hardware.
SINCE = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9), "fp16": (5, 3)}


def product(place: Place, seconds: float, dtype: str, size: int) -> Outcome:
    """Square matrices: 2 n³ operations."""
    _check(place, dtype)
    torch = place.torch
    _allow_tf32(torch, dtype == "tf32")
    kind = getattr(torch, TYPES[dtype])
    each = size * size * torch.empty(0, dtype=kind).element_size()
    count = place.sets_of(3 * each) if place.on_card else 1
    place.need(3 * each * count)
    step = _scaled_step if dtype == "fp8" else _plain_step
    return place.time(step(place, kind, size, count), seconds, 2.0 * size**3, note=_NOTES.get(dtype, place.threads))


_NOTES = {"fp8": "E4M3 with one scale each, fast accumulation, result in bf16"}


def batch_product(place: Place, seconds: float, size: int) -> Outcome:
    """torch.rand(n, n, n) @ itself, as people type it to compare machines: 2 n⁴ operations in fp32, without TF32."""
    torch = place.torch
    _allow_tf32(torch, False)

    def made(count: int) -> Tuple[Any, Any]:
        left = torch.rand(count, size, size, device=place.device)
        return left, torch.empty_like(left)

    if not place.on_card:
        return part_of_batch(place, seconds, size, made, lambda left, result: torch.bmm(left, left, out=result))
    left, result = made(size)
    return place.time(lambda number: torch.bmm(left, left, out=result), seconds, 2.0 * size**4)


def _check(place: Place, dtype: str) -> None:
    if not place.on_card:
        return
    if place.torch.version.hip:
        if dtype == "tf32":  # torch takes the switch, and multiplies in fp32
            raise Skipped("unsupported", "torch has no TF32 on AMD's cards")
        return
    since = SINCE.get(dtype, (0, 0))
    if place.capability < since:
        message = "%s needs compute capability %d.%d; this card has %d.%d" % (dtype, *since, *place.capability)
        raise Skipped("unsupported", message)


def _allow_tf32(torch: Any, allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed


def _random(place: Place, kind: Any, *shape: int) -> Any:
    """Normally distributed; types that cannot be drawn directly are rounded."""
    torch = place.torch
    drawn = torch.float32 if torch.empty(0, dtype=kind).element_size() < 2 else kind
    return torch.randn(*shape, device=place.device, dtype=drawn).to(kind)


def _plain_step(place: Place, kind: Any, size: int, count: int) -> Any:
    torch = place.torch
    sets: List[Tuple[Any, Any, Any]] = [
        (
            _random(place, kind, size, size),
            _random(place, kind, size, size),
            torch.empty(size, size, device=place.device, dtype=kind),
        )
        for _ in range(count)
    ]

    def step(number: int) -> None:
        left, right, result = sets[number % count]
        torch.mm(left, right, out=result)

    return step


def _scaled_step(place: Place, kind: Any, size: int, count: int) -> Any:
    torch = place.torch
    one = torch.ones((), device=place.device)
    # The right one lies by columns: the cards have no other kernel for this type.
    sets = [(_random(place, kind, size, size), _random(place, kind, size, size).t()) for _ in range(count)]

    def step(number: int) -> Any:
        left, right = sets[number % count]
        return torch._scaled_mm(
            left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=place.on_card
        )

    return step


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


def back_to_back(place: Place, seconds: float) -> Outcome:
    """The smallest kernel, many times without waiting: Python, torch and the driver together."""
    one = place.torch.zeros(1, device=place.device)
    return place.time(lambda number: one.add_(1.0), seconds, 1.0, by_host=True)


def and_wait(place: Place, seconds: float) -> Outcome:
    """The smallest kernel, and until the host knows that it is done."""
    one = place.torch.zeros(1, device=place.device)
    taken, before, after = place.time_each(lambda number: one.add_(1.0), seconds)
    return Outcome(thinned(taken), 1.0, percentiles(taken), before=before, after=after)


def without_waiting(place: Place, seconds: float, size: int) -> Outcome:
    """Until the call of a large product returns. The product itself is not even begun then: this is no time of it."""
    torch = place.torch
    torch.backends.cuda.matmul.allow_tf32 = False
    place.need(2 * 4 * size**3)
    left = torch.rand(size, size, size, device=place.device)
    result = torch.empty_like(left)

    clock, taken = HostClock(), []
    for _ in range(12):
        place.wait()
        taken.append(clock.batch(lambda number: torch.bmm(left, left, out=result), 0, 1))
    place.wait()
    return Outcome(
        taken[2:], 1.0, note="the call returned; the card had not computed yet: never time a product like this"
    )

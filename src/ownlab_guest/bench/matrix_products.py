"""Matrix products by torch, on a card or on the CPU. Random data: zeros need less power, and so run at higher clocks."""

from typing import Any, List, Tuple

from ownlab_guest.bench.cpu_numpy import part_of_batch
from ownlab_guest.bench.device import Place
from ownlab_guest.bench.timing import Outcome, Skipped

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

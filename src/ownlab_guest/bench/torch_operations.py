"""Tests with torch: matrix products, memory and copies, kernel launches.

Data is random: zeros need less power, which allows higher clocks. Copies count bytes read and bytes written.
"""

from typing import Any, List, Tuple

from ownlab_guest.bench.device import Device
from ownlab_guest.bench.numpy_operations import part_of_batch
from ownlab_guest.bench.timing import HostClock, Outcome, Skipped, percentiles, reduce_values
from ownlab_guest.text import text

# Our name -> the name in torch. tf32 is fp32 in memory, rounded by the tensor cores.
TYPES = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
}
# The compute capability from which on NVIDIA's cards support a type in hardware.
SINCE = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9), "fp16": (5, 3)}


def product(device: Device, seconds: float, dtype: str, size: int) -> Outcome:
    """Multiply square matrices: 2 n³ operations."""
    _check(device, dtype)
    torch = device.torch
    _allow_tf32(torch, dtype == "tf32")
    kind = getattr(torch, TYPES[dtype])
    each = size * size * torch.empty(0, dtype=kind).element_size()
    count = device.buffer_sets(3 * each) if device.on_card else 1
    device.require_memory(3 * each * count)
    step = _scaled_step if dtype == "fp8" else _plain_step
    return device.time(
        step(device, kind, size, count), seconds, 2.0 * size**3, notes=_NOTES.get(dtype, device.thread_notes)
    )


_NOTES = {"fp8": (text("The factors are E4M3 with one scale each, accumulation is fast, and the result is bf16."),)}


def batch_product(device: Device, seconds: float, size: int) -> Outcome:
    """Multiply torch.rand(n, n, n) with itself, a popular comparison: 2 n⁴ operations in fp32, without TF32."""
    torch = device.torch
    _allow_tf32(torch, False)

    def allocate(count: int) -> Tuple[Any, Any]:
        left = torch.rand(count, size, size, device=device.name)
        return left, torch.empty_like(left)

    if not device.on_card:
        return part_of_batch(device, seconds, size, allocate, lambda left, result: torch.bmm(left, left, out=result))
    left, result = allocate(size)
    return device.time(lambda number: torch.bmm(left, left, out=result), seconds, 2.0 * size**4)


def _check(device: Device, dtype: str) -> None:
    if not device.on_card:
        return
    if device.torch.version.hip:
        if dtype == "tf32":  # torch accepts the switch, but multiplies in fp32
            raise Skipped("unsupported", text("torch does not support TF32 on AMD cards"))
        return
    since = SINCE.get(dtype, (0, 0))
    if device.capability < since:
        needed, capability = "%d.%d" % since, "%d.%d" % device.capability
        raise Skipped(
            "unsupported",
            text(
                "{dtype} needs compute capability {needed}; this card has {capability}",
                dtype=dtype,
                needed=needed,
                capability=capability,
            ),
        )


def _allow_tf32(torch: Any, allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed


def _random(device: Device, kind: Any, *shape: int) -> Any:
    """Return normally distributed values; small types are rounded from fp32."""
    torch = device.torch
    drawn = torch.float32 if torch.empty(0, dtype=kind).element_size() < 2 else kind
    return torch.randn(*shape, device=device.name, dtype=drawn).to(kind)


def _plain_step(device: Device, kind: Any, size: int, count: int) -> Any:
    torch = device.torch
    sets: List[Tuple[Any, Any, Any]] = [
        (
            _random(device, kind, size, size),
            _random(device, kind, size, size),
            torch.empty(size, size, device=device.name, dtype=kind),
        )
        for _ in range(count)
    ]

    def step(number: int) -> None:
        left, right, result = sets[number % count]
        torch.mm(left, right, out=result)

    return step


def _scaled_step(device: Device, kind: Any, size: int, count: int) -> Any:
    torch = device.torch
    scalar = torch.ones((), device=device.name)
    # The right matrix is column-major: cards have no other kernel for this type.
    sets = [(_random(device, kind, size, size), _random(device, kind, size, size).t()) for _ in range(count)]

    def step(number: int) -> Any:
        left, right = sets[number % count]
        return torch._scaled_mm(
            left, right, scale_a=scalar, scale_b=scalar, out_dtype=torch.bfloat16, use_fast_accum=device.on_card
        )

    return step


MIB = 1 << 20


def copy_within(device: Device, seconds: float, mib: int) -> Outcome:
    """Copy b = a on the device."""
    source, target = _buffers(device, mib, 2)
    return device.time(lambda number: target.copy_(source), seconds, 2.0 * mib * MIB, notes=device.thread_notes)


def triad(device: Device, seconds: float, mib: int) -> Outcome:
    """Compute c = a + 3 b, as in STREAM."""
    torch = device.torch
    left, right, result = _buffers(device, mib, 3)
    return device.time(lambda number: torch.add(left, right, alpha=3.0, out=result), seconds, 3.0 * mib * MIB)


def between(device: Device, seconds: float, mib: int, pinned: bool, to_card: bool) -> Outcome:
    """Copy between host and card. Only copies of pageable memory wait, because the driver does so itself."""
    torch = device.torch
    host = torch.randn(MIB // 4).repeat(mib)
    host = host.pin_memory() if pinned else host
    card = torch.empty(mib * MIB // 4, device=device.name)
    source, target = (host, card) if to_card else (card, host)

    def step(number: int) -> Any:
        return target.copy_(source, non_blocking=pinned)

    return device.time(step, seconds, float(mib * MIB), by_host=True)


def _buffers(device: Device, mib: int, count: int) -> Tuple[Any, ...]:
    torch = device.torch
    device.require_memory(count * mib * MIB)
    # Generating a GiB takes seconds on a CPU, and repeating a MiB makes no difference for memory.
    return tuple(torch.randn(MIB // 4, device=device.name).repeat(mib) for _ in range(count))


def back_to_back(device: Device, seconds: float) -> Outcome:
    """Launch the smallest kernel many times without waiting: Python, torch and driver together."""
    counter = device.torch.zeros(1, device=device.name)
    return device.time(lambda number: counter.add_(1.0), seconds, 1.0, by_host=True)


def and_wait(device: Device, seconds: float) -> Outcome:
    """Launch the smallest kernel, and wait until the host knows that it has finished."""
    counter = device.torch.zeros(1, device=device.name)
    taken, before, after = device.time_each(lambda number: counter.add_(1.0), seconds)
    return Outcome(reduce_values(taken), 1.0, percentiles(taken), before=before, after=after)


def without_waiting(device: Device, seconds: float, size: int) -> Outcome:
    """Time until the call of a large product returns. The product has not even started then: a wrong way to time it."""
    torch = device.torch
    torch.backends.cuda.matmul.allow_tf32 = False
    device.require_memory(2 * 4 * size**3)
    left = torch.rand(size, size, size, device=device.name)
    result = torch.empty_like(left)

    clock, taken = HostClock(), []
    for _ in range(12):
        device.wait()
        taken.append(clock.batch(lambda number: torch.bmm(left, left, out=result), 0, 1))
    device.wait()
    return Outcome(
        taken[2:],
        1.0,
        notes=(text("This is only the call: the card had not computed yet, so it is not the time of the product."),),
    )

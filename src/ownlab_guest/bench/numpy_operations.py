"""Tests of the CPU with numpy: products with its BLAS, and memory with one thread per core."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, List, Tuple

from ownlab_guest.bench.device import Device, describe_threads
from ownlab_guest.bench.timing import Outcome, time_slow
from ownlab_guest.text import text

TYPES = {"fp64": "float64", "fp32": "float32"}
MIB = 1 << 20
# For a batch that takes seconds: SAMPLE products show how long one takes. The test may take PATIENCE times its time, for
# REPETITIONS repetitions.
SAMPLE, PATIENCE, REPETITIONS = 16, 4, 6


def product(device: Device, seconds: float, dtype: str, size: int) -> Outcome:
    """Multiply square matrices: 2 n³ operations."""
    numpy = device.numpy
    random = numpy.random.RandomState(0)
    left = random.standard_normal((size, size)).astype(TYPES[dtype])
    right = random.standard_normal((size, size)).astype(TYPES[dtype])
    result = numpy.empty_like(left)
    return device.time(
        lambda number: numpy.matmul(left, right, out=result), seconds, 2.0 * size**3, by_host=True, notes=_blas(numpy)
    )


def batch_product(device: Device, seconds: float, size: int) -> Outcome:
    """Multiply rand(n, n, n) with itself: 2 n⁴ operations in fp32."""
    numpy = device.numpy
    random = numpy.random.RandomState(0)

    def allocate(count: int) -> Tuple[Any, Any]:
        left = random.random_sample((count, size, size)).astype("float32")
        return left, numpy.empty_like(left)

    return part_of_batch(device, seconds, size, allocate, lambda left, result: numpy.matmul(left, left, out=result))


def part_of_batch(
    device: Device,
    seconds: float,
    size: int,
    allocate: Callable[[int], Tuple[Any, Any]],
    multiply: Callable[[Any, Any], Any],
) -> Outcome:
    """Multiply all `size` products of the batch, or a half, a quarter … if time is short; the rate is the same."""
    few = min(SAMPLE, size)
    left, result = allocate(few)
    multiply(left, result)
    each = time_slow(lambda number: multiply(left, result), 0.0)[0] / few
    count = size  # halved, so that similar machines compute the same part and can be compared
    while count > few and REPETITIONS * each * count > PATIENCE * seconds:
        count = max(few, count // 2)
    device.require_memory(2 * 4 * count * size * size)
    left, result = allocate(count)
    taken = time_slow(lambda number: multiply(left, result), PATIENCE * seconds, REPETITIONS)
    notes = (
        ()
        if count == size
        else (
            text(
                "Only {count} of {size} products were computed: all of them would take {seconds:.0f} s.",
                count=count,
                size=size,
                seconds=each * size,
            ),
        )
    )
    shape = {"batch": count, "m": size, "n": size, "k": size}
    return Outcome(taken, 2.0 * count * size**3, notes=notes, shape=shape)


def copy_within(device: Device, seconds: float, mib: int) -> Outcome:
    """Copy b = a, each core its own part. Counts bytes read and written, but not the cache lines read before a write."""
    numpy = device.numpy
    device.require_memory(2 * mib * MIB)
    source = numpy.tile(numpy.random.RandomState(0).standard_normal(MIB // 8), mib)
    target = numpy.empty_like(source)
    parts = _parts(source, target, device.cores)
    with ThreadPoolExecutor(device.cores) as threads:

        def step(number: int) -> None:
            list(threads.map(lambda part: numpy.copyto(part[1], part[0]), parts))

        return device.time(step, seconds, 2.0 * mib * MIB, by_host=True, notes=(describe_threads(device.cores),))


def _parts(source: Any, target: Any, count: int) -> List[Tuple[Any, Any]]:
    width = -(-len(source) // count)
    return [(source[at : at + width], target[at : at + width]) for at in range(0, len(source), width)]


def _blas(numpy: Any) -> Tuple[str, ...]:
    """Return the BLAS library: they differ by factors."""
    try:
        blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return (text("It used {library} {version}.", library=blas["name"], version=blas["version"]),)
    except (TypeError, KeyError):  # numpy before 1.25 can only print it
        return ()

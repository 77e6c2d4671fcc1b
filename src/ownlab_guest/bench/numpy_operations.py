"""The CPU by numpy alone, for interpreters without torch: products through its BLAS, memory by as many threads as there are cores."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, List, Tuple

from ownlab_guest.bench.device import Place
from ownlab_guest.bench.timing import Outcome, rarely

TYPES = {"fp64": "float64", "fp32": "float32"}
MIB = 1 << 20
# Of a batch that takes seconds: so many products tell how long one takes; so many times the test's own time is taken, for so
# many repetitions.
SAMPLE, PATIENCE, REPETITIONS = 16, 4, 6


def product(place: Place, seconds: float, dtype: str, size: int) -> Outcome:
    """Square matrices: 2 n³ operations."""
    numpy = place.numpy
    random = numpy.random.RandomState(0)
    left = random.standard_normal((size, size)).astype(TYPES[dtype])
    right = random.standard_normal((size, size)).astype(TYPES[dtype])
    result = numpy.empty_like(left)
    return place.time(
        lambda number: numpy.matmul(left, right, out=result), seconds, 2.0 * size**3, by_host=True, note=_blas(numpy)
    )


def batch_product(place: Place, seconds: float, size: int) -> Outcome:
    """rand(n, n, n) @ itself: 2 n⁴ operations in fp32."""
    numpy = place.numpy
    random = numpy.random.RandomState(0)

    def made(count: int) -> Tuple[Any, Any]:
        left = random.random_sample((count, size, size)).astype("float32")
        return left, numpy.empty_like(left)

    return part_of_batch(place, seconds, size, made, lambda left, result: numpy.matmul(left, left, out=result))


def part_of_batch(
    place: Place,
    seconds: float,
    size: int,
    made: Callable[[int], Tuple[Any, Any]],
    multiply: Callable[[Any, Any], Any],
) -> Outcome:
    """All `size` products of the batch, or a half, a quarter … as there is time for; the rate is the same."""
    few = min(SAMPLE, size)
    left, result = made(few)
    multiply(left, result)
    each = rarely(lambda number: multiply(left, result), 0.0)[0] / few
    count = size  # halved, so that most machines of a kind take the same part, and can be compared
    while count > few and REPETITIONS * each * count > PATIENCE * seconds:
        count = max(few, count // 2)
    place.need(2 * 4 * count * size * size)
    left, result = made(count)
    taken = rarely(lambda number: multiply(left, result), PATIENCE * seconds, REPETITIONS)
    note = "" if count == size else f"{count} of the {size} products: all of them would take {each * size:.0f} s"
    shape = {"batch": count, "m": size, "n": size, "k": size}
    return Outcome(taken, 2.0 * count * size**3, note=note, shape=shape)


def copy_within(place: Place, seconds: float, mib: int) -> Outcome:
    """b = a, each core its own part. Read and written bytes count; that a cache reads a line before it is written does not."""
    numpy = place.numpy
    place.need(2 * mib * MIB)
    source = numpy.tile(numpy.random.RandomState(0).standard_normal(MIB // 8), mib)
    target = numpy.empty_like(source)
    parts = _parts(source, target, place.cores)
    with ThreadPoolExecutor(place.cores) as threads:

        def step(number: int) -> None:
            list(threads.map(lambda part: numpy.copyto(part[1], part[0]), parts))

        return place.time(step, seconds, 2.0 * mib * MIB, by_host=True, note=f"{place.cores} threads")


def _parts(source: Any, target: Any, count: int) -> List[Tuple[Any, Any]]:
    width = -(-len(source) // count)
    return [(source[at : at + width], target[at : at + width]) for at in range(0, len(source), width)]


def _blas(numpy: Any) -> str:
    """Which library multiplies: they differ by factors."""
    try:
        found = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{found['name']} {found['version']}"
    except (TypeError, KeyError):  # numpy before 1.25 only prints it
        return ""

"""The order of the samples in an epoch: a function of the seed and the epoch alone, whatever reads it.

A shard is cut into blocks of about 4 MB, which are read whole. Shards are shuffled, then the blocks of each group of
shards, then the samples of each window of blocks. So a shuffled epoch reads blocks, never single samples.

Processes share the order in contiguous parts. When training continues with another number of processes, what is left of
their parts is shared anew: nothing is read twice, nothing is left out (`shares`).
"""

import bisect
import hashlib
import itertools
import random
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple, TypeVar

from ownlab_guest.data.manifest import Shard

BLOCK_BYTES = 4_000_000  # a little less than four requests (block_reader.py)
WINDOW_BLOCKS = 8
GROUP_SHARDS = 8

T = TypeVar("T")
# A part of the order: its first position, and the one after its last.
Segment = Tuple[int, int]
# An earlier distribution within the epoch: how many processes shared it, and how many samples each of them took.
Split = Tuple[int, int]


class Block(NamedTuple):
    """Samples of a shard that are read together."""

    shard: int
    first: int
    samples: int


class Run(NamedTuple):
    """Samples that are read together, in the order in which they are given out."""

    blocks: "List[Block]"
    samples: "List[int]"  # numbers: those of the first block, then those of the second, …

    @property
    def starts(self) -> "List[int]":
        """The number of the first sample of each block, and how many the blocks have."""
        return list(itertools.accumulate((block.samples for block in self.blocks), initial=0))


def blocks_of(shards: Sequence[Shard]) -> "List[List[Block]]":
    """Cut each shard. Sizes come from the manifest: no index is needed to know the order."""
    cut = []
    for number, shard in enumerate(shards):
        count = max(1, min(shard.samples, -(-shard.bytes // BLOCK_BYTES)))
        bounds = [shard.samples * block // count for block in range(count + 1)]
        cut.append([Block(number, low, high - low) for low, high in zip(bounds, bounds[1:]) if high > low])
    return cut


def shuffled(items: "List[T]", *seeds: int) -> "List[T]":
    """Shuffle in place, the same in every version of Python: getrandbits of the Mersenne Twister is all that is used."""
    digest = hashlib.sha256(repr(seeds).encode()).digest()
    bits = random.Random(int.from_bytes(digest, "little")).getrandbits  # noqa: S311  # not for secrets
    for index in range(len(items) - 1, 0, -1):
        # 53 bits: the bias of the remainder is far below what any data set could show
        other = bits(53) % (index + 1)
        items[index], items[other] = items[other], items[index]
    return items


class EpochOrder:
    """The order of one epoch."""

    def __init__(self, shards: Sequence[Shard], *, shuffle: bool, seed: int, epoch: int) -> None:
        self._seeds, self._shuffle = (seed, epoch), shuffle
        cut = blocks_of(shards)
        if shuffle:
            blocks: List[Block] = []
            order = shuffled(list(range(len(cut))), *self._seeds, -1)
            for start in range(0, len(order), GROUP_SHARDS):
                group = [block for shard in order[start : start + GROUP_SHARDS] for block in cut[shard]]
                blocks += shuffled(group, *self._seeds, -2 - start)
        else:
            blocks = [block for shard in cut for block in shard]
        size = WINDOW_BLOCKS if shuffle else 1
        self._windows = [blocks[start : start + size] for start in range(0, len(blocks), size)]
        self._starts = [0]
        for window in self._windows:
            self._starts.append(self._starts[-1] + sum(block.samples for block in window))
        self.samples = self._starts[-1]

    def runs(self, segments: Sequence[Segment]) -> Iterator[Run]:
        """Yield what to read for ascending parts of the order, each window once."""
        current, slices = -1, []  # type: int, List[Segment]
        for low, high in segments:
            number = bisect.bisect_right(self._starts, low) - 1
            while low < high:
                start, end = self._starts[number], min(self._starts[number + 1], high)
                if number != current and slices:
                    yield self._run(current, slices)
                    slices = []
                current = number
                slices.append((low - start, end - start))
                low, number = end, number + 1
        if slices:
            yield self._run(current, slices)

    def shards(self, segments: Sequence[Segment]) -> "List[int]":
        """Return the shards of some parts of the order, in the order in which they are first needed."""
        found: Dict[int, None] = {}
        for low, high in segments:
            first = bisect.bisect_right(self._starts, low) - 1
            last = bisect.bisect_left(self._starts, high)
            found.update(dict.fromkeys(block.shard for window in self._windows[first:last] for block in window))
        return list(found)

    def _run(self, number: int, slices: "List[Segment]") -> Run:
        blocks = self._windows[number]
        samples = list(range(self._starts[number + 1] - self._starts[number]))
        if self._shuffle:
            shuffled(samples, *self._seeds, number)
        return Run(blocks, [sample for low, high in slices for sample in samples[low:high]])


def cut_segments(segments: Sequence[Segment], parts: int) -> "List[List[Segment]]":
    """Share positions in contiguous parts of equal size; the first ones have one more where it does not come out even."""
    total = sum(high - low for low, high in segments)
    shares: List[List[Segment]] = []
    rest = list(segments)
    for part in range(parts):
        wanted = total // parts + (part < total % parts)
        taken, rest = split_segments(rest, wanted)
        shares.append(taken)
    return shares


def split_segments(segments: Sequence[Segment], count: int) -> "Tuple[List[Segment], List[Segment]]":
    """Split into the first `count` positions and the others."""
    first: List[Segment] = []
    rest: List[Segment] = []
    for low, high in segments:
        middle = min(high, low + count)
        count -= middle - low
        if middle > low:
            first.append((low, middle))
        if high > middle:
            rest.append((middle, high))
    return first, rest


def share(samples: int, splits: Sequence[Split], rank: int, world: int) -> "List[Segment]":
    """Return what one process reads, after earlier distributions of which each process took so many samples."""
    segments: List[Segment] = [(0, samples)] if samples else []
    for earlier, taken in splits:
        segments = [left for part in cut_segments(segments, earlier) for left in split_segments(part, taken)[1]]
    return cut_segments(segments, world)[rank]


def of_worker(segments: Sequence[Segment], batch: int, worker: int, workers: int) -> "List[Segment]":
    """Return every so-manieth batch: torch's DataLoader takes one batch of each worker in turn."""
    if workers == 1:
        return list(segments)
    chosen: List[Segment] = []
    taken = 0  # samples before the current position
    for low, high in segments:
        while low < high:
            turn, inside = divmod(taken, batch)
            end = min(high, low + batch - inside)
            if turn % workers == worker:
                chosen.append((low, end))
            taken += end - low
            low = end
    return chosen

"""A model of torch's caching allocator for CUDA: what is reserved while a stream of tensors comes and goes.

Follows c10/cuda/CUDACachingAllocator.cpp (torch 2.4 to 2.13; read at pytorch's commit 001074d). Sizes are rounded up to 512 bytes; those up to 1 MiB come out
of segments of 2 MiB, those below 10 MiB out of segments of 20 MiB, greater ones get a segment of their own size, rounded up
to 2 MiB. The smallest free block that suffices is taken, and cut where enough is left; free neighbours are joined. Where
the card has no more, what is cached and whole is given back, and it is tried once more. `expandable.py` has the other way.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from ownlab.errors import UsageError
from ownlab.units import MIB

__all__ = ["DEFAULT_SETTINGS", "Allocator", "AllocatorSettings", "Block", "OutOfMemory", "Pool", "parse_settings"]

LEAST_BLOCK = 512
SMALL = 1 * MIB  # the greatest size that counts as small
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
OWN_SEGMENT = 10 * MIB  # from this size on a segment is made for one block
ROUND_LARGE = 2 * MIB
# Segments lie apart: blocks of two of them are never joined.
_GAP = ROUND_LARGE


class AllocatorSettings(NamedTuple):
    """PYTORCH_CUDA_ALLOC_CONF, as far as it decides how much is reserved."""

    max_split_size: int | None = None
    expandable_segments: bool = False
    garbage_collection_threshold: float = 0.0  # works only below a set share of the card, as in torch
    roundup_power2_divisions: int = 0
    max_non_split_rounding: int = LARGE_SEGMENT


DEFAULT_SETTINGS = AllocatorSettings()


class OutOfMemory(Exception):  # an outcome of a replay, not a failure of ours
    """The card has not enough for this one, and nothing that is cached helps."""

    def __init__(self, wanted: int, allocated: int, reserved: int) -> None:
        super().__init__(f"{wanted} bytes are wanted, {allocated} are allocated and {reserved} reserved")
        self.wanted, self.allocated, self.reserved = wanted, allocated, reserved


class Block:
    """A piece of a segment, taken or free."""

    __slots__ = ("address", "after", "before", "free", "free_since", "mapped", "pool", "size")

    def __init__(self, address: int, size: int, pool: Pool) -> None:
        self.address, self.size, self.pool = address, size, pool
        self.before: Block | None = None
        self.after: Block | None = None
        self.free = False
        self.mapped = True  # only expandable segments have parts that are not
        self.free_since = 0

    @property
    def whole(self) -> bool:
        """Whether it is all of its segment."""
        return self.before is None and self.after is None


class Pool:
    """Free blocks of one kind, by size and then by address."""

    def __init__(self, *, small: bool) -> None:
        self.small = small
        self.asked = 0  # how often a block was looked for here: by this free blocks age
        self._keys: list[tuple[int, int]] = []
        self._blocks: dict[tuple[int, int], Block] = {}

    def add(self, block: Block) -> None:
        key = (block.size, block.address)
        insort(self._keys, key)
        self._blocks[key] = block
        block.free = True
        block.free_since = self.asked

    def remove(self, block: Block) -> None:
        key = (block.size, block.address)
        del self._keys[bisect_left(self._keys, key)]
        del self._blocks[key]
        block.free = False

    def at_least(self, size: int) -> Iterator[Block]:
        """Those that have this size, the smallest first."""
        for place in range(bisect_left(self._keys, (size, 0)), len(self._keys)):
            yield self._blocks[self._keys[place]]

    def free_blocks(self) -> list[Block]:
        """All of them, the smallest first."""
        return [self._blocks[key] for key in self._keys]


class Allocator:
    """One card's, as one process sees it. `capacity`: bytes that it may reserve; None: as many as it likes."""

    def __init__(self, capacity: int | None = None, policy: AllocatorSettings = DEFAULT_SETTINGS) -> None:
        self.capacity, self.policy = capacity, policy
        self.allocated = self.reserved = 0
        self.peak_allocated = self.peak_reserved = 0
        self.retries = 0
        self._pools = (Pool(small=True), Pool(small=False))
        self._taken: dict[int, Block] = {}
        self._next = _GAP  # the driver's addresses grow, mostly

    def allocate(self, name: int, size: int) -> None:
        """A tensor's storage appears."""
        if size == 0:
            return
        size = self.rounded(size)
        pool = self._pools[size > SMALL]
        block = self._find(pool, size) or self._obtain(pool, size)
        self._cut(block, size)
        self._taken[name] = block
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def free(self, name: int) -> None:
        """It goes."""
        block = self._taken.pop(name, None)
        if block is None:  # it was empty
            return
        self.allocated -= block.size
        for other in (block.before, block.after):
            if other is not None and other.free:
                block.pool.remove(other)
                self._join(block, other)
        block.pool.add(block)

    def rounded(self, size: int) -> int:
        """As many bytes as it takes."""
        divisions = self.policy.roundup_power2_divisions
        if divisions > 1 and size > LEAST_BLOCK * divisions:
            step = (1 << (size.bit_length() - 1)) // divisions
            return -(-size // step) * step
        return max(LEAST_BLOCK, -(-size // LEAST_BLOCK) * LEAST_BLOCK)

    def empty_cache(self) -> None:
        """torch.cuda.empty_cache()."""
        for pool in self._pools:
            for block in pool.free_blocks():
                if block.whole:
                    self._give_back(block)

    def _find(self, pool: Pool, size: int) -> Block | None:
        pool.asked += 1
        block = self._best(pool, size)
        if block is None or not self._suits(pool, size, block):
            return None
        pool.remove(block)
        return block

    def _best(self, pool: Pool, size: int) -> Block | None:
        """The smallest that suffices."""
        return next(pool.at_least(size), None)

    def _suits(self, pool: Pool, size: int, block: Block) -> bool:
        """Great blocks are kept for great requests where max_split_size_mb says so."""
        most = self.policy.max_split_size
        if most is None or pool.small:
            return True
        if size < most:
            return block.size < most
        return block.size < size + self.policy.max_non_split_rounding

    def _obtain(self, pool: Pool, size: int) -> Block:
        """New memory from the driver, for which cached memory is given back where nothing else helps."""
        self._collect_garbage()
        block = self._grow(pool, size)
        if block is None and self._release_oversized(pool, size):
            block = self._grow(pool, size)
        if block is None:
            self.retries += 1
            self.empty_cache()
            block = self._grow(pool, size)
        if block is None:
            raise OutOfMemory(size, self.allocated, self.reserved)
        return block

    def _grow(self, pool: Pool, size: int) -> Block | None:
        wanted = SMALL_SEGMENT
        if not pool.small:
            wanted = LARGE_SEGMENT if size < OWN_SEGMENT else -(-size // ROUND_LARGE) * ROUND_LARGE
        if not self._reserve(wanted):
            return None
        block = Block(self._next, wanted, pool)
        self._next += wanted + _GAP
        return block

    def _reserve(self, size: int) -> bool:
        if self.capacity is not None and self.reserved + size > self.capacity:
            return False
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return True

    def _give_back(self, block: Block) -> None:
        block.pool.remove(block)
        self.reserved -= block.size

    def _collect_garbage(self) -> None:
        """Above the threshold whole blocks are given back that lie unused for longer than the average, and again until
        there is room (`garbage_collect_cached_blocks`: a pass does not stop early, so that it is seldom needed)."""
        share = self.policy.garbage_collection_threshold
        if self.capacity is None or share <= 0:
            return
        limit = int(self.capacity * share)
        pool = self._pools[1]
        whole = [block for block in pool.free_blocks() if block.whole]
        while whole and self.reserved > limit:
            average = sum(pool.asked - block.free_since for block in whole) / len(whole)
            for block in [one for one in whole if pool.asked - one.free_since >= average]:
                whole.remove(block)
                self._give_back(block)

    def _release_oversized(self, pool: Pool, size: int) -> bool:
        """With max_split_size_mb, great blocks that nothing could be cut from are given back first: one that suffices, else
        the greatest ones (`release_available_cached_blocks`)."""
        most = self.policy.max_split_size
        if most is None:
            return False
        wanted = max(size, most)
        for block in pool.at_least(wanted):
            self._give_back(block)
            return True
        room = 0
        for block in reversed(list(pool.at_least(most))):
            if room >= wanted:
                break
            room += block.size
            self._give_back(block)
        return room >= wanted

    def _cut(self, block: Block, size: int) -> None:
        left = block.size - size
        if not self._worth_cutting(block, size, left):
            return
        rest = Block(block.address + size, left, block.pool)
        block.size = size
        rest.before, rest.after = block, block.after
        if rest.after is not None:
            rest.after.before = rest
        block.after = rest
        block.pool.add(rest)

    def _worth_cutting(self, block: Block, size: int, left: int) -> bool:
        if block.pool.small:
            return left >= LEAST_BLOCK
        most = self.policy.max_split_size
        return left > SMALL and (most is None or size < most)

    @staticmethod
    def _join(block: Block, other: Block) -> None:
        """`other`, which is free, becomes part of its neighbour `block`."""
        if other is block.before:
            block.address, block.before = other.address, other.before
            if other.before is not None:
                other.before.after = block
        else:
            block.after = other.after
            if other.after is not None:
                other.after.before = block
        block.size += other.size


# They do not change how much is reserved.
_WITHOUT_EFFECT = (
    "release_lock_on_cudamalloc",
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "graph_capture_record_stream_reuse",
)


def parse_settings(text: str) -> AllocatorSettings:
    """ "expandable_segments:True,max_split_size_mb:128" -> the policy that it asks for."""
    policy = DEFAULT_SETTINGS
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, value = (word.strip() for word in part.partition(":"))
        if not colon:
            raise UsageError(f"{part!r} in the allocator's options has no value", hint="Write NAME:VALUE,NAME:VALUE.")
        if name not in _WITHOUT_EFFECT:
            policy = _with(policy, name, value)
    return policy


def _with(policy: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    try:
        if name == "max_split_size_mb":
            return policy._replace(max_split_size=int(value) * MIB)
        if name == "max_non_split_rounding_mb":
            return policy._replace(max_non_split_rounding=int(value) * MIB)
        if name == "garbage_collection_threshold":
            return policy._replace(garbage_collection_threshold=float(value))
        if name == "expandable_segments":
            return policy._replace(expandable_segments={"true": True, "false": False}[value.lower()])
        if name == "roundup_power2_divisions":
            return policy._replace(roundup_power2_divisions=int(value))
        if name == "backend" and value == "native":
            return policy
    except (KeyError, ValueError):
        pass  # said below, with the others that are not understood
    raise UsageError(
        f"{name}:{value} of the allocator's options is not modelled",
        hint="Known are expandable_segments, max_split_size_mb, max_non_split_rounding_mb, garbage_collection_threshold "
        "and roundup_power2_divisions with one number; --allocator '' leaves the environment's out.",
    )

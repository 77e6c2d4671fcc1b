"""A model of torch's caching allocator for CUDA: what it reserves while tensors are allocated and freed.

Follows c10/cuda/CUDACachingAllocator.cpp (torch 2.4 to 2.13; read at pytorch's commit 001074d). Sizes are rounded up to
512 bytes. Sizes up to 1 MiB come from segments of 2 MiB, sizes below 10 MiB from segments of 20 MiB; larger ones get a segment
of their own size, rounded up to 2 MiB. The allocator takes the smallest free block that is large enough, and splits it if
enough remains; free neighbours are merged. When the card is full, it releases its cached segments and tries once more.
`torch_allocator_expandable.py` models expandable segments.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from ownlab.errors import UsageError
from ownlab.text import text
from ownlab.units import MIB

__all__ = [
    "DEFAULT_SETTINGS",
    "ROUND_LARGE",
    "Addresses",
    "Allocator",
    "AllocatorSettings",
    "Block",
    "OutOfMemory",
    "Pool",
    "RisingAddresses",
    "parse_settings",
]

MIN_BLOCK = 512
SMALL_SIZE = 1 * MIB  # the largest size of the small pool
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
MIN_LARGE_ALLOCATION = 10 * MIB  # from this size on a block gets its own segment
ROUND_LARGE = 2 * MIB
# The driver gives a segment the next lower multiple of this, and places small segments into what is left of earlier ones (seen on
# an H200 with driver 580). Of two free blocks of equal size the one with the lower address is taken, so that order matters.
_ADDRESS_CHUNK = 32 * MIB
_HIGHEST_ADDRESS = 1 << 46


class AllocatorSettings(NamedTuple):
    """PYTORCH_ALLOC_CONF (PYTORCH_CUDA_ALLOC_CONF before torch 2.9), as far as it decides how much is reserved."""

    max_split_size: int | None = None
    expandable_segments: bool = False
    garbage_collection_threshold: float = 0.0  # only with a limited capacity, as in torch
    roundup_power2_divisions: int = 0
    max_non_split_rounding: int = LARGE_SEGMENT


DEFAULT_SETTINGS = AllocatorSettings()


class OutOfMemory(Exception):  # an outcome of a replay, not an error
    """The card has too little memory for a request, even without the cache."""

    def __init__(self, wanted: int, allocated: int, reserved: int) -> None:
        super().__init__(f"{wanted} bytes requested, {allocated} allocated, {reserved} reserved")
        self.wanted, self.allocated, self.reserved = wanted, allocated, reserved


class Block:
    """A piece of a segment, allocated or free."""

    __slots__ = ("address", "following", "free", "free_since", "mapped", "pool", "previous", "size")

    def __init__(self, address: int, size: int, pool: Pool) -> None:
        self.address, self.size, self.pool = address, size, pool
        self.previous: Block | None = None
        self.following: Block | None = None
        self.free = False
        self.mapped = True  # only expandable segments have unmapped blocks
        self.free_since = 0

    @property
    def whole(self) -> bool:
        """Whether the block is its whole segment."""
        return self.previous is None and self.following is None


class Pool:
    """Free blocks of one pool, sorted by size, then by address."""

    def __init__(self, *, small: bool) -> None:
        self.small = small
        self.searches = 0  # number of searches in this pool: the age of free blocks is counted in it
        self._keys: list[tuple[int, int]] = []
        self._blocks: dict[tuple[int, int], Block] = {}

    def add(self, block: Block) -> None:
        key = (block.size, block.address)
        insort(self._keys, key)
        self._blocks[key] = block
        block.free = True
        block.free_since = self.searches

    def remove(self, block: Block) -> None:
        key = (block.size, block.address)
        del self._keys[bisect_left(self._keys, key)]
        del self._blocks[key]
        block.free = False

    def blocks_from(self, size: int) -> Iterator[Block]:
        """Yield free blocks of at least this size, the smallest first."""
        for index in range(bisect_left(self._keys, (size, 0)), len(self._keys)):
            yield self._blocks[self._keys[index]]

    def free_blocks(self) -> list[Block]:
        """Return all free blocks, the smallest first."""
        return [self._blocks[key] for key in self._keys]


class Addresses:
    """The addresses that the driver gives to segments. Those of segments that were released are not used again."""

    def __init__(self, chunk: int = _ADDRESS_CHUNK) -> None:
        self._chunk = chunk
        self._lowest = _HIGHEST_ADDRESS
        self._rests: list[tuple[int, int]] = []  # what is left of chunks: size and address

    def take(self, size: int) -> int:
        """Return the address of a new segment."""
        index = bisect_left(self._rests, (size, 0))
        if index < len(self._rests):
            room, address = self._rests.pop(index)
        else:
            room = -(-size // self._chunk) * self._chunk
            self._lowest -= room
            address = self._lowest
        if room > size:
            insort(self._rests, (room - size, address + size))
        return address


class RisingAddresses(Addresses):
    """Addresses of a driver that gives each segment one above the last."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def take(self, size: int) -> int:
        address, self._next = self._next, self._next + size + ROUND_LARGE
        return address


class Allocator:
    """The allocator of one card in one process. `capacity`: bytes that it may reserve; None: no limit."""

    def __init__(
        self,
        capacity: int | None = None,
        settings: AllocatorSettings = DEFAULT_SETTINGS,
        addresses: Addresses | None = None,
    ) -> None:
        self.capacity, self.settings = capacity, settings
        self.allocated = self.reserved = 0
        self.peak_allocated = self.peak_reserved = 0
        self.retries = 0
        self._pools = (Pool(small=True), Pool(small=False))
        self._blocks_by_name: dict[int, Block] = {}
        self._addresses = Addresses() if addresses is None else addresses

    def allocate(self, name: int, size: int) -> None:
        """Allocate the storage of a tensor."""
        if size == 0:
            return
        size = self.round_size(size)
        pool = self._pools[size > SMALL_SIZE]
        block = self._take_free_block(pool, size) or self._allocate_segment(pool, size)
        self._split(block, size)
        self._blocks_by_name[name] = block
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def free(self, name: int) -> None:
        """Free a storage."""
        block = self._blocks_by_name.pop(name, None)
        if block is None:  # an empty storage has no block
            return
        self.allocated -= block.size
        for other in (block.previous, block.following):
            if other is not None and other.free:
                block.pool.remove(other)
                self._merge(block, other)
        block.pool.add(block)

    def round_size(self, size: int) -> int:
        """Round a request up to the size of its block."""
        divisions = self.settings.roundup_power2_divisions
        if divisions > 1 and size > MIN_BLOCK * divisions:
            step = (1 << (size.bit_length() - 1)) // divisions
            return -(-size // step) * step
        return max(MIN_BLOCK, -(-size // MIN_BLOCK) * MIN_BLOCK)

    def empty_cache(self) -> None:
        """torch.cuda.empty_cache()."""
        for pool in self._pools:
            for block in pool.free_blocks():
                if block.whole:
                    self._release(block)

    def _take_free_block(self, pool: Pool, size: int) -> Block | None:
        pool.searches += 1
        block = self._best_block(pool, size)
        if block is None or not self._may_use(pool, size, block):
            return None
        pool.remove(block)
        return block

    def _best_block(self, pool: Pool, size: int) -> Block | None:
        """Return the smallest block that is large enough."""
        return next(pool.blocks_from(size), None)

    def _may_use(self, pool: Pool, size: int, block: Block) -> bool:
        """Whether max_split_size_mb allows this block: large blocks are reserved for large requests."""
        most = self.settings.max_split_size
        if most is None or pool.small:
            return True
        if size < most:
            return block.size < most
        return block.size < size + self.settings.max_non_split_rounding

    def _allocate_segment(self, pool: Pool, size: int) -> Block:
        """Get new memory from the driver; release cached memory if the card is full."""
        self._collect_garbage()
        block = self._reserve_block(pool, size)
        if block is None and self._release_oversized(pool, size):
            block = self._reserve_block(pool, size)
        if block is None:
            self.retries += 1
            self.empty_cache()
            block = self._reserve_block(pool, size)
        if block is None:
            raise OutOfMemory(size, self.allocated, self.reserved)
        return block

    def _reserve_block(self, pool: Pool, size: int) -> Block | None:
        wanted = SMALL_SEGMENT
        if not pool.small:
            wanted = LARGE_SEGMENT if size < MIN_LARGE_ALLOCATION else -(-size // ROUND_LARGE) * ROUND_LARGE
        if not self._reserve(wanted):
            return None
        return Block(self._addresses.take(wanted), wanted, pool)

    def _reserve(self, size: int) -> bool:
        if self.capacity is not None and self.reserved + size > self.capacity:
            return False
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return True

    def _release(self, block: Block) -> None:
        block.pool.remove(block)
        self.reserved -= block.size

    def _collect_garbage(self) -> None:
        """Above the threshold, release whole segments that were unused for longer than the average, until there is room
        (`garbage_collect_cached_blocks`: a pass does not stop early, so it is seldom needed)."""
        share = self.settings.garbage_collection_threshold
        if self.capacity is None or share <= 0:
            return
        limit = int(self.capacity * share)
        pool = self._pools[1]
        whole = [block for block in pool.free_blocks() if block.whole]
        while whole and self.reserved > limit:
            average = sum(pool.searches - block.free_since for block in whole) / len(whole)
            for block in [old for old in whole if pool.searches - old.free_since >= average]:
                whole.remove(block)
                self._release(block)

    def _release_oversized(self, pool: Pool, size: int) -> bool:
        """With max_split_size_mb, release oversized blocks first: one that is large enough, else the largest ones
        (`release_available_cached_blocks`)."""
        most = self.settings.max_split_size
        if most is None:
            return False
        wanted = max(size, most)
        for block in pool.blocks_from(wanted):
            self._release(block)
            return True
        room = 0
        for block in reversed(list(pool.blocks_from(most))):
            if room >= wanted:
                break
            room += block.size
            self._release(block)
        return room >= wanted

    def _split(self, block: Block, size: int) -> None:
        left = block.size - size
        if not self._should_split(block, size, left):
            return
        rest = Block(block.address + size, left, block.pool)
        block.size = size
        rest.previous, rest.following = block, block.following
        if rest.following is not None:
            rest.following.previous = rest
        block.following = rest
        block.pool.add(rest)

    def _should_split(self, block: Block, size: int, left: int) -> bool:
        if block.pool.small:
            return left >= MIN_BLOCK
        most = self.settings.max_split_size
        return left > SMALL_SIZE and (most is None or size < most)

    @staticmethod
    def _merge(block: Block, other: Block) -> None:
        """Merge the free block `other` into its neighbour `block`."""
        if other is block.previous:
            block.address, block.previous = other.address, other.previous
            if other.previous is not None:
                other.previous.following = block
        else:
            block.following = other.following
            if other.following is not None:
                other.following.previous = block
        block.size += other.size


# Settings that do not change how much is reserved.
_WITHOUT_EFFECT = (
    "release_lock_on_cudamalloc",
    "pinned_use_cuda_host_register",
    "pinned_num_register_threads",
    "pinned_use_background_threads",
    "graph_capture_record_stream_reuse",
)


def parse_settings(written: str) -> AllocatorSettings:
    """Parse "expandable_segments:True,max_split_size_mb:128"."""
    settings = DEFAULT_SETTINGS
    for part in filter(None, (part.strip() for part in written.split(","))):
        name, colon, value = (word.strip() for word in part.partition(":"))
        if not colon:
            raise UsageError(
                text("The allocator setting {setting} has no value.", setting=repr(part)),
                hint=text("Write NAME:VALUE,NAME:VALUE."),
            )
        if name not in _WITHOUT_EFFECT:
            settings = _with(settings, name, value)
    return settings


def _with(settings: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    try:
        if name == "max_split_size_mb":
            return settings._replace(max_split_size=int(value) * MIB)
        if name == "max_non_split_rounding_mb":
            return settings._replace(max_non_split_rounding=int(value) * MIB)
        if name == "garbage_collection_threshold":
            return settings._replace(garbage_collection_threshold=float(value))
        if name == "expandable_segments":
            return settings._replace(expandable_segments={"true": True, "false": False}[value.lower()])
        if name == "roundup_power2_divisions":
            return settings._replace(roundup_power2_divisions=int(value))
        if name == "backend" and value == "native":
            return settings
    except (KeyError, ValueError):
        pass  # reported below, like unknown settings
    raise UsageError(
        text("The allocator setting {name}:{value} is not modelled.", name=name, value=value),
        hint=text(
            "Supported: expandable_segments, max_split_size_mb, max_non_split_rounding_mb, garbage_collection_threshold, and "
            "roundup_power2_divisions with one number. --allocator '' ignores the environment variable."
        ),
    )

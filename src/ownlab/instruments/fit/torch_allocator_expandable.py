"""torch's caching allocator with expandable_segments:True: one segment per pool, which grows by pages.

The allocator first uses what is free at the end of the segment, and maps only the rest. When the card is full, it unmaps free
pages anywhere in the segment, so that fragmentation costs little. Follows `get_free_block`, `find_expandable_block`,
`try_allocate_expandable_block`, `map_block` and `unmap_block` of c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from ownlab.instruments.fit.torch_allocator import (
    LARGE_SEGMENT,
    MIN_BLOCK,
    SMALL_SEGMENT,
    Allocator,
    AllocatorSettings,
    Block,
    Pool,
)

__all__ = ["ExpandableAllocator"]

# Address space costs nothing: a segment is never full before the card is. A multiple of both page sizes.
_SPACE = LARGE_SEGMENT << 30


_EXPANDABLE = AllocatorSettings(expandable_segments=True)


class ExpandableAllocator(Allocator):
    """The allocator of one card, with expandable segments."""

    def __init__(self, capacity: int | None = None, settings: AllocatorSettings = _EXPANDABLE) -> None:
        super().__init__(capacity, settings)
        self._first_blocks: dict[bool, Block] = {}
        for number, pool in enumerate(self._pools):
            self._first_blocks[pool.small] = self._unmapped(number * _SPACE, _SPACE, pool)

    def empty_cache(self) -> None:
        """Unmap every page that is completely free."""
        for pool in self._pools:
            for block in pool.free_blocks():
                self._unmap(block)

    @staticmethod
    def _unmapped(address: int, size: int, pool: Pool) -> Block:
        block = Block(address, size, pool)
        block.mapped = False
        return block

    @staticmethod
    def _page(pool: Pool) -> int:
        return SMALL_SEGMENT if pool.small else LARGE_SEGMENT

    def _best_block(self, pool: Pool, size: int) -> Block | None:
        """Return the smallest block; the last one counts with all that it could grow by (`get_free_block`)."""
        best: Block | None = None
        for block in pool.blocks_from(size):
            if best is not None and self._potential_size(block) >= self._potential_size(best):
                break
            best = block
        return best

    @staticmethod
    def _potential_size(block: Block) -> int:
        following = block.following
        return block.size + (following.size if following is not None and not following.mapped else 0)

    def _should_split(self, block: Block, size: int, left: int) -> bool:
        return left >= MIN_BLOCK

    def _reserve_block(self, pool: Pool, size: int) -> Block | None:
        """Take the first position with enough free and unmapped room, and map its missing pages."""
        block = self._find_room(pool, size)
        if not block.mapped:
            if not self._map(block, min(block.size, size)):
                return None
        else:
            pool.remove(block)
        while block.size < size:
            following = block.following
            assert following is not None
            if self._map(following, min(size - block.size, following.size)):
                self._merge(block, following)
            else:
                pool.add(block)
                return None
        return block

    def _find_room(self, pool: Pool, size: int) -> Block:
        block: Block | None = self._first_blocks[pool.small]
        while block is not None:
            if not block.mapped:
                before = block.previous
                start = before if before is not None and before.free else block
                if self._has_room(start, size):
                    return start
            block = block.following
        raise AssertionError("the address space of a segment is used up")

    @staticmethod
    def _has_room(block: Block, size: int) -> bool:
        room = 0
        following: Block | None = block
        while room < size and following is not None and (following.free or not following.mapped):
            room += following.size
            following = following.following
        return room >= size

    def _map(self, block: Block, size: int) -> bool:
        """Map the beginning of an unmapped block, in whole pages; the rest stays unmapped."""
        page = self._page(block.pool)
        mapped = min(-(-size // page) * page, block.size)
        if not self._reserve(mapped):
            return False
        block.mapped = True
        if mapped < block.size:
            rest = self._unmapped(block.address + mapped, block.size - mapped, block.pool)
            rest.previous, rest.following, block.following = block, block.following, rest
            if rest.following is not None:
                rest.following.previous = rest
            block.size = mapped
        elif block.following is not None and block.following.free:
            following = block.following
            following.pool.remove(following)
            self._merge(block, following)
        return True

    def _unmap(self, block: Block) -> None:
        page = self._page(block.pool)
        begin = -(-block.address // page) * page
        end = (block.address + block.size) // page * page
        if end <= begin:
            return
        pool = block.pool
        pool.remove(block)
        if begin > block.address:
            self._keep_mapped(Block(block.address, begin - block.address, pool), block.previous, block)
        if end < block.address + block.size:
            self._keep_mapped(Block(end, block.address + block.size - end, pool), block, block.following)
        block.address, block.size, block.mapped = begin, end - begin, False
        self.reserved -= block.size
        for other in (block.previous, block.following):
            if other is not None and not other.mapped:
                self._merge(block, other)
        if block.previous is None:
            self._first_blocks[pool.small] = block

    def _keep_mapped(self, kept: Block, before: Block | None, after: Block | None) -> None:
        """Keep the part of a free block outside of its whole pages mapped and free."""
        kept.previous, kept.following = before, after
        if before is not None:
            before.following = kept
        else:
            self._first_blocks[kept.pool.small] = kept
        if after is not None:
            after.previous = kept
        kept.pool.add(kept)

"""The caching allocator with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: one segment per pool, which grows by pages.

What is free at its end is used first and only the rest is mapped; where the card has no more, free pages anywhere in the
segment are unmapped, so that little is lost to fragments. Follows `get_free_block`, `find_expandable_block`,
`try_allocate_expandable_block`, `map_block` and `unmap_block` of c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from ownlab.instruments.fit.torch_allocator import (
    LARGE_SEGMENT,
    LEAST_BLOCK,
    SMALL_SEGMENT,
    Allocator,
    AllocatorSettings,
    Block,
    Pool,
)

__all__ = ["ExpandableAllocator"]

# Address space is free: a segment is never full before the card is. A multiple of both pages, so that pages begin there.
_SPACE = LARGE_SEGMENT << 30


_GROWING = AllocatorSettings(expandable_segments=True)


class ExpandableAllocator(Allocator):
    """One card's, with segments that grow."""

    def __init__(self, capacity: int | None = None, policy: AllocatorSettings = _GROWING) -> None:
        super().__init__(capacity, policy)
        self._first: dict[bool, Block] = {}
        for number, pool in enumerate(self._pools):
            self._first[pool.small] = self._unmapped(number * _SPACE, _SPACE, pool)

    def empty_cache(self) -> None:
        """Unmap every page that lies in a free block as a whole."""
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

    def _best(self, pool: Pool, size: int) -> Block | None:
        """The smallest that suffices; but one at the end counts with all that it could grow by (`get_free_block`)."""
        best: Block | None = None
        for block in pool.at_least(size):
            if best is not None and self._could_have(block) >= self._could_have(best):
                break
            best = block
        return best

    @staticmethod
    def _could_have(block: Block) -> int:
        following = block.after
        return block.size + (following.size if following is not None and not following.mapped else 0)

    def _worth_cutting(self, block: Block, size: int, left: int) -> bool:
        return left >= LEAST_BLOCK

    def _grow(self, pool: Pool, size: int) -> Block | None:
        """The first place with enough room, free and unmapped together; its missing pages are mapped."""
        block = self._place(pool, size)
        if not block.mapped:
            if not self._map(block, min(block.size, size)):
                return None
        else:
            pool.remove(block)
        while block.size < size:
            following = block.after
            assert following is not None
            if self._map(following, min(size - block.size, following.size)):
                self._join(block, following)
            else:
                pool.add(block)
                return None
        return block

    def _place(self, pool: Pool, size: int) -> Block:
        block: Block | None = self._first[pool.small]
        while block is not None:
            if not block.mapped:
                before = block.before
                start = before if before is not None and before.free else block
                if self._room(start, size):
                    return start
            block = block.after
        raise AssertionError("the address space of a segment is used up")

    @staticmethod
    def _room(block: Block, size: int) -> bool:
        room = 0
        following: Block | None = block
        while room < size and following is not None and (following.free or not following.mapped):
            room += following.size
            following = following.after
        return room >= size

    def _map(self, block: Block, size: int) -> bool:
        """Make the beginning of an unmapped block usable, in whole pages; what is left of it stays as it was."""
        page = self._page(block.pool)
        mapped = min(-(-size // page) * page, block.size)
        if not self._reserve(mapped):
            return False
        block.mapped = True
        if mapped < block.size:
            rest = self._unmapped(block.address + mapped, block.size - mapped, block.pool)
            rest.before, rest.after, block.after = block, block.after, rest
            if rest.after is not None:
                rest.after.before = rest
            block.size = mapped
        elif block.after is not None and block.after.free:
            following = block.after
            following.pool.remove(following)
            self._join(block, following)
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
            self._link(Block(block.address, begin - block.address, pool), block.before, block)
        if end < block.address + block.size:
            self._link(Block(end, block.address + block.size - end, pool), block, block.after)
        block.address, block.size, block.mapped = begin, end - begin, False
        self.reserved -= block.size
        for other in (block.before, block.after):
            if other is not None and not other.mapped:
                self._join(block, other)
        if block.before is None:
            self._first[pool.small] = block

    def _link(self, kept: Block, before: Block | None, after: Block | None) -> None:
        """What lies in a free block beside its whole pages stays mapped and free."""
        kept.before, kept.after = before, after
        if before is not None:
            before.after = kept
        else:
            self._first[kept.pool.small] = kept
        if after is not None:
            after.before = kept
        kept.pool.add(kept)

"""Reads blocks of shards with a thread ahead of the consumer, and checks each sample.

What the page cache has is taken from there without a copy: the shard is mapped. Everything else is read into buffers that are used
again: fresh memory for each block would cost more than copying, since the kernel has to clear every page.
"""

import bisect
import contextlib
import functools
import os
import queue
import threading
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

from ownlab_guest.data.checked_samples import NOTHING, PAYLOAD, WHOLE, CheckedSamples, Crc32, fastest_crc32
from ownlab_guest.data.epoch_order import Block, Run
from ownlab_guest.data.errors import DamagedData
from ownlab_guest.data.page_cache import cached_share
from ownlab_guest.data.shard_index import Payloads, ShardIndex, no_payloads
from ownlab_guest.data.shard_store import ShardFile, ShardStore
from ownlab_guest.text import text

# One window is read, one is given out, and one may still be in the hands of decoding threads.
_WINDOWS = 3
_POLL_SECONDS = 0.2
_PAGE = 4096
# What a disk takes at once: many take 254 pages. The kernel would cut a block in pieces of 2 MiB, and each of them in three requests.
_REQUEST_BYTES = 254 * _PAGE
# A block of which so much is in memory is taken from there. Kernels that drop pages early often lack a few of a block; by the time they
# are needed they are there, since they are asked for one window before.
_MOSTLY = 7 / 8
# glibc keeps twice as much at the end of its memory.
_KEPT_BYTES = 8 << 20

Data = Union[memoryview, bytes]
# Data, label, extension, index and number of a sample.
PayloadView = Tuple[memoryview, Optional[int], str, ShardIndex, int]


class BlockView(NamedTuple):
    """A block that can be read."""

    payloads: Payloads  # of its samples
    data: memoryview
    start: int  # the place in the shard at which `data` begins
    shard: ShardIndex
    first: int  # number of its first sample
    notes: int  # where CheckedSamples has its first sample
    checked: bool  # all of them, before
    offset: int  # the number that its first sample has in the window


class Field(NamedTuple):
    """A member of a sample: its bytes, valid until its window is released."""

    extension: str
    data: Data


class RawSample(NamedTuple):
    """A sample as it is in the shard, its content checked."""

    shard: ShardIndex
    number: int  # in its shard
    label: Optional[int]
    fields: "List[Field]"


class Checking:
    """Compares samples with their checksums: always, once for each sample, or never."""

    def __init__(self, samples: Optional[CheckedSamples], *, always: bool = False) -> None:
        self.samples, self.always = samples, always
        self._crc32: Crc32 = fastest_crc32()

    def known(self, place: int) -> int:
        """Return what of a sample need not be checked: nothing, PAYLOAD, or WHOLE."""
        if self.samples is None:
            return NOTHING if self.always else WHOLE
        return self.samples[place]

    def check(self, data: Data, crc: int, view: "BlockView", inside: int) -> None:
        """Compare. Raises DamagedData."""
        if self._crc32(data) != crc:
            raise _damaged(view.shard, view.first + inside)

    def check_payload(self, data: Data, crc: int, view: "BlockView", inside: int) -> None:
        """Compare what was not compared before: the same as the other methods in one step. Raises DamagedData."""
        samples, place = self.samples, view.notes + inside
        if samples is not None and samples.memory[place]:
            return
        if self._crc32(data) != crc:
            raise _damaged(view.shard, view.first + inside)
        if samples is not None:
            samples.memory[place] = PAYLOAD

    def note(self, place: int, what: int) -> None:
        """Note what is as it was packed."""
        if self.samples is not None:
            self.samples[place] = what


class Window:
    """The samples of one run. Their content is checked by whoever takes them, which leaves it in that core's cache."""

    def __init__(
        self,
        run: Run,
        views: "Dict[int, BlockView]",
        buffers: "_Buffers",
        free: "queue.Queue[_Buffers]",
        checking: Checking,
    ) -> None:
        self._numbers, self._buffers, self._free, self._checking = run.samples, buffers, free, checking
        # By the numbers of samples: to find one in its block would cost more than all else that is done with it.
        self._payloads = no_payloads(0)
        self._views: List[BlockView] = []
        self._data: List[memoryview] = []
        some = next(iter(views.values()))
        for place, block in enumerate(run.blocks):
            view = views.get(place)
            # nobody asks for the samples of blocks that are not read
            self._payloads.extend(no_payloads(block.samples) if view is None else view.payloads)
            self._views += [view or some] * block.samples
            self._data += [(view or some).data] * block.samples
        self._plain = all(view.checked and not view.start for view in views.values())

    def __len__(self) -> int:
        return len(self._numbers)

    def pairs(self, low: int, high: int) -> "List[Tuple[memoryview, Optional[int]]]":
        """Return payload and label of some samples: the least work. Raises DamagedData."""
        numbers, data = self._numbers[low:high], self._data
        begins, ends, crcs, labels, _ = self._payloads
        if self._plain:
            return [(data[number][begins[number] : ends[number]], labels[number]) for number in numbers]
        found = []
        for number in numbers:
            view = self._views[number]
            payload = view.data[begins[number] - view.start : ends[number] - view.start]
            if not view.checked:
                self._checking.check_payload(payload, crcs[number], view, number - view.offset)
            found.append((payload, labels[number]))
        return found

    def copies(self, low: int, high: int) -> "List[Tuple[bytes, Optional[int]]]":
        """Return the same as bytes. Raises DamagedData."""
        if not self._plain:
            return [(bytes(payload), label) for payload, label in self.pairs(low, high)]
        data, (begins, ends, _, labels, _) = self._data, self._payloads
        numbers = self._numbers[low:high]
        return [(bytes(data[number][begins[number] : ends[number]]), labels[number]) for number in numbers]

    def payloads(self, low: int, high: int) -> "List[PayloadView]":
        """Return the payload of some samples, and what they are. Raises DamagedData."""
        extensions = self._payloads.extensions
        described = [(extensions[number], self._views[number], number) for number in self._numbers[low:high]]
        return [
            (data, label, extension, view.shard, view.first + number - view.offset)
            for (data, label), (extension, view, number) in zip(self.pairs(low, high), described)
        ]

    def raw(self, low: int, high: int) -> "List[RawSample]":
        """Return some samples with all of their members. Raises DamagedData."""
        views = [(self._views[number], number) for number in self._numbers[low:high]]
        return [cut_sample(view, number - view.offset, self._checking) for view, number in views]

    def release(self, *, kept: bool = False) -> None:
        """Let the buffers be used again. No data of the samples may be used after this, unless they are kept."""
        self._views.clear()
        self._data.clear()
        self._free.put(_Buffers() if kept else self._buffers)


def cut_sample(view: BlockView, inside: int, checking: Checking) -> RawSample:
    """Cut one sample out of a block, and check it."""
    fields, number = [], view.first + inside
    checked = checking.known(view.notes + inside) == WHOLE
    for extension, offset, length, crc in view.shard.members(number):
        data = view.data[offset - view.start : offset - view.start + length]
        if not checked:
            checking.check(data, crc, view, inside)
        fields.append(Field(extension, data))
    if not checked:
        checking.note(view.notes + inside, WHOLE)
    return RawSample(view.shard, number, view.shard.label(number), fields)


def _damaged(shard: ShardIndex, number: int) -> DamagedData:
    return DamagedData(
        text("{name} in {shard} is damaged: its checksum is wrong.", name=shard.sample(number).name, shard=shard.name),
        hint=text("`ownlab data verify FOLDER --full --repair SOURCE` finds and repairs everything that is damaged."),
    )


class _Buffers:
    """Memory for the blocks of one window."""

    def __init__(self) -> None:
        self._blocks: List[bytearray] = []

    def block(self, number: int, size: int) -> memoryview:
        while len(self._blocks) <= number:
            self._blocks.append(bytearray())
        if len(self._blocks[number]) < size:
            self._blocks[number] = bytearray(size + size // 8)
        return memoryview(self._blocks[number])[:size]


@functools.lru_cache(maxsize=None)
def _keep_freed_memory() -> None:
    """Let glibc keep what is freed, for the next samples: else it gives a batch back to the kernel, which clears every page of the next
    one again; that costs half as much as copying the samples. It learns from a large block that is freed (mallopt(3), M_MMAP_THRESHOLD).
    """
    bytes(_KEPT_BYTES)  # calloc: they are never touched, and take no memory


_Item = Union[Window, BaseException, None]


class BlockReader:
    """Reads runs in a thread of its own."""

    def __init__(self, store: ShardStore, check: str = "once") -> None:
        self._store = store
        self._checking = Checking(
            CheckedSamples(store.manifest.shards) if check == "once" else None, always=check == "always"
        )

    def windows(self, runs: Iterable[Run]) -> Iterator[Window]:
        """Yield each run with its data. Raises DamagedData, DataError or OSError."""
        _keep_freed_memory()
        free: "queue.Queue[_Buffers]" = queue.Queue()
        for _ in range(_WINDOWS):
            free.put(_Buffers())
        read: "queue.Queue[_Item]" = queue.Queue(1)
        stop = threading.Event()
        thread = threading.Thread(target=self._read_all, args=(runs, free, read, stop), name="ownlab-data", daemon=True)
        thread.start()
        try:
            while True:
                item = read.get()
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()

    def _read_all(
        self, runs: Iterable[Run], free: "queue.Queue[_Buffers]", read: "queue.Queue[_Item]", stop: threading.Event
    ) -> None:
        last: _Item = None
        try:
            there: Optional[Set[int]] = None
            for run, following in _with_next(runs):
                buffers = _get(free, stop)
                if buffers is None:
                    return
                here = self._announce(run) if there is None else there
                # the disk must not wait while this thread hands over
                there = None if following is None else self._announce(following)
                starts = run.starts
                views = {place: self._view(run, place, starts[place], here, buffers) for place in _used(run)}
                if not _put(read, Window(run, views, buffers, free, self._checking), stop):
                    return
        except BaseException as exc:  # raised again where the samples are used
            last = exc
        _put(read, last, stop)

    def _view(self, run: Run, place: int, offset: int, in_memory: "Set[int]", buffers: _Buffers) -> BlockView:
        block = run.blocks[place]
        index, file = self._store.index(block.shard), self._store.file(block.shard)
        if place in in_memory and file.memory is not None:
            return self._checked_view(block, index, file, file.memory, 0, offset)
        start, end = index.span(block.first, block.samples)
        data = buffers.block(place, end - start)
        _read_into(file.descriptor, data, start, index.name)
        return self._checked_view(block, index, file, data.toreadonly(), start, offset)

    def _checked_view(
        self, block: Block, index: ShardIndex, file: ShardFile, data: memoryview, start: int, offset: int = 0
    ) -> BlockView:
        payloads = index.payloads(block.first, block.samples)
        samples = self._checking.samples
        if samples is None:
            return BlockView(payloads, data, start, index, block.first, 0, not self._checking.always, offset)
        samples.opened(block.shard, file.identity)
        notes = samples.place(block.shard, block.first)
        return BlockView(payloads, data, start, index, block.first, notes, samples.all(notes, block.samples), offset)

    def one(self, shard: int, number: int) -> RawSample:
        """Read one sample on its own."""
        index, file = self._store.index(shard), self._store.file(shard)
        start, end = index.span(number, 1)
        data = memoryview(bytearray(end - start))
        _read_into(file.descriptor, data, start, index.name)
        return cut_sample(self._checked_view(Block(shard, number, 1), index, file, data, start), 0, self._checking)

    def _announce(self, run: Run) -> "Set[int]":
        """Return which blocks are in memory, or will be soon, and let the kernel read what is missing.

        Whole blocks: its own reading ahead is 128 KB on many systems, and knows nothing of blocks.
        """
        found: Set[int] = set()
        if not hasattr(os, "posix_fadvise"):
            return found
        for place in _used(run):
            block = run.blocks[place]
            start, end = self._store.index(block.shard).span(block.first, block.samples)
            file = self._store.file(block.shard).descriptor
            share = cached_share(file, start, end)
            if share >= _MOSTLY:
                found.add(place)
            if share < 1:
                for piece in range(start - start % _PAGE, end, _REQUEST_BYTES):
                    os.posix_fadvise(file, piece, min(_REQUEST_BYTES, end - piece), os.POSIX_FADV_WILLNEED)
        return found


def _used(run: Run) -> "List[int]":
    """Return the places of the blocks that a part of a run needs."""
    starts = run.starts
    if len(run.samples) == starts[-1]:
        return list(range(len(run.blocks)))
    return sorted({bisect.bisect_right(starts, number) - 1 for number in run.samples})


def _with_next(runs: Iterable[Run]) -> "Iterator[Tuple[Run, Optional[Run]]]":
    """Yield each run with the one after it."""
    current: Optional[Run] = None
    for run in runs:
        if current is not None:
            yield current, run
        current = run
    if current is not None:
        yield current, None


def _read_into(file: int, view: memoryview, start: int, name: str) -> None:
    done = 0
    while done < len(view):
        count = os.preadv(file, [view[done:]], start + done)
        if not count:
            raise _cut_off(name)
        done += count


def _cut_off(name: str) -> DamagedData:
    return DamagedData(
        text("The shard of {name} is cut off.", name=name),
        hint=text("`ownlab data verify FOLDER --repair SOURCE` repairs it."),
    )


def _get(free: "queue.Queue[_Buffers]", stop: threading.Event) -> Optional[_Buffers]:
    while not stop.is_set():
        with contextlib.suppress(queue.Empty):
            return free.get(timeout=_POLL_SECONDS)
    return None


def _put(read: "queue.Queue[_Item]", item: _Item, stop: threading.Event) -> bool:
    while not stop.is_set():
        with contextlib.suppress(queue.Full):
            read.put(item, timeout=_POLL_SECONDS)
            return True
    return False

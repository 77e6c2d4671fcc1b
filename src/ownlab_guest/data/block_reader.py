"""Reads blocks of shards with a thread ahead of the consumer, and checks each sample.

What the page cache has is taken from there without a copy: the shard is mapped. Everything else is read into buffers that are used
again: fresh memory for each block would cost more than copying, since the kernel has to clear every page.
"""

import contextlib
import os
import queue
import threading
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

from ownlab_guest.data.checked_samples import NOTHING, PAYLOAD, WHOLE, CheckedSamples, Crc32, fastest_crc32
from ownlab_guest.data.epoch_order import Block, Run
from ownlab_guest.data.errors import DamagedData
from ownlab_guest.data.page_cache import is_cached
from ownlab_guest.data.shard_index import Payload, ShardIndex
from ownlab_guest.data.shard_store import ShardFile, ShardStore
from ownlab_guest.text import text

# One window is read, one is given out, and one may still be in the hands of decoding threads.
_WINDOWS = 3
_POLL_SECONDS = 0.2
_PAGE = 4096
# What a disk takes at once: many take 254 pages. The kernel would cut a block in pieces of 2 MiB, and each of them in three requests.
_REQUEST_BYTES = 254 * _PAGE


Data = Union[memoryview, bytes]
# Data, label, extension, index and number of a sample.
PayloadView = Tuple[memoryview, Optional[int], str, ShardIndex, int]


class BlockView(NamedTuple):
    """A block that can be read."""

    rows: "List[Payload]"  # of its samples
    data: memoryview
    start: int  # the place in the shard at which `data` begins
    shard: ShardIndex
    first: int  # number of its first sample
    notes: int  # where CheckedSamples has its first sample
    checked: bool  # all of them, before


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
        self._run, self._views, self._checking = run, views, checking
        self._buffers, self._free = buffers, free

    def __len__(self) -> int:
        return len(self._run.samples)

    def pairs(self, low: int, high: int) -> "List[Tuple[memoryview, Optional[int]]]":
        """Return payload and label of some samples: the least work. Raises DamagedData."""
        views, found = self._views, []
        for place, inside in self._run.samples[low:high]:
            rows, data, start, _, _, _, checked = views[place]
            begin, end, crc, label, _ = rows[inside]
            payload = data[begin - start : end - start]
            if not checked:
                self._check(views[place], inside, payload, crc)
            found.append((payload, label))
        return found

    def payloads(self, low: int, high: int) -> "List[PayloadView]":
        """Return the payload of some samples, and what they are. Raises DamagedData."""
        described = [(self._views[place], inside) for place, inside in self._run.samples[low:high]]
        return [
            (data, label, view.rows[inside][4], view.shard, view.first + inside)
            for (data, label), (view, inside) in zip(self.pairs(low, high), described)
        ]

    def raw(self, low: int, high: int) -> "List[RawSample]":
        """Return some samples with all of their members. Raises DamagedData."""
        return [cut_sample(self._views[place], inside, self._checking) for place, inside in self._run.samples[low:high]]

    def release(self, *, kept: bool = False) -> None:
        """Let the buffers be used again. No data of the samples may be used after this, unless they are kept."""
        self._views.clear()
        self._free.put(_Buffers() if kept else self._buffers)

    def _check(self, view: BlockView, inside: int, payload: memoryview, crc: int) -> None:
        if self._checking.known(view.notes + inside) < PAYLOAD:
            self._checking.check(payload, crc, view, inside)
            self._checking.note(view.notes + inside, PAYLOAD)


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
                views = {place: self._view(run.blocks[place], place, here, buffers) for place in _used(run)}
                if not _put(read, Window(run, views, buffers, free, self._checking), stop):
                    return
        except BaseException as exc:  # raised again where the samples are used
            last = exc
        _put(read, last, stop)

    def _view(self, block: Block, place: int, in_memory: "Set[int]", buffers: _Buffers) -> BlockView:
        index, file = self._store.index(block.shard), self._store.file(block.shard)
        if place in in_memory and file.memory is not None:
            return self._checked_view(block, index, file, file.memory, 0)
        start, end = index.span(block.first, block.samples)
        data = buffers.block(place, end - start)
        _read_into(file.descriptor, data, start, index.name)
        return self._checked_view(block, index, file, data.toreadonly(), start)

    def _checked_view(
        self, block: Block, index: ShardIndex, file: ShardFile, data: memoryview, start: int
    ) -> BlockView:
        rows = index.payloads(block.first, block.samples)
        samples = self._checking.samples
        if samples is None:
            return BlockView(rows, data, start, index, block.first, 0, not self._checking.always)
        samples.opened(block.shard, file.identity)
        notes = samples.place(block.shard, block.first)
        return BlockView(rows, data, start, index, block.first, notes, samples.all(notes, block.samples))

    def one(self, shard: int, number: int) -> RawSample:
        """Read one sample on its own."""
        index, file = self._store.index(shard), self._store.file(shard)
        start, end = index.span(number, 1)
        data = memoryview(bytearray(end - start))
        _read_into(file.descriptor, data, start, index.name)
        return cut_sample(self._checked_view(Block(shard, number, 1), index, file, data, start), 0, self._checking)

    def _announce(self, run: Run) -> "Set[int]":
        """Return which blocks are in memory, and let the kernel read the others.

        Whole blocks: its own reading ahead is 128 KB on many systems, and knows nothing of blocks.
        """
        found: Set[int] = set()
        if not hasattr(os, "posix_fadvise"):
            return found
        for place in _used(run):
            block = run.blocks[place]
            start, end = self._store.index(block.shard).span(block.first, block.samples)
            file = self._store.file(block.shard).descriptor
            if is_cached(file, start, end):
                found.add(place)
            else:
                for piece in range(start - start % _PAGE, end, _REQUEST_BYTES):
                    os.posix_fadvise(file, piece, min(_REQUEST_BYTES, end - piece), os.POSIX_FADV_WILLNEED)
        return found


def _used(run: Run) -> "List[int]":
    """Return the places of the blocks that a part of a run needs."""
    return sorted({place for place, _ in run.samples})


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

"""Reads blocks of shards with a thread ahead of the consumer, into buffers that are used again, and checks each sample.

Fresh memory for each block would cost more than copying from the page cache: the kernel has to clear every page.
"""

import contextlib
import os
import queue
import threading
import zlib
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

from ownlab_guest.data.epoch_order import Run
from ownlab_guest.data.errors import DamagedData
from ownlab_guest.data.shard_index import ShardIndex
from ownlab_guest.data.shard_store import ShardStore
from ownlab_guest.text import text

# One window is read, one is given out, and one may still be in the hands of decoding threads.
_WINDOWS = 3
_POLL_SECONDS = 0.2
# The kernel reads and drops pages in runs that are rarely shorter.
_PROBE_BYTES = 128 << 10


Data = Union[memoryview, bytes]
# Returns what is between two places of a shard.
Cut = Callable[[int, int], Data]
# Number of a block in its run -> its index, its data, its first sample.
_Views = Dict[int, Tuple[ShardIndex, Cut, int]]
# Data, label, extension, index and number of a sample.
PayloadView = Tuple[Data, Optional[int], str, ShardIndex, int]


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


class Window:
    """The samples of one run. Their content is checked by whoever takes them, which leaves it in that core's cache."""

    def __init__(
        self, run: Run, views: "_Views", buffers: "_Buffers", free: "queue.Queue[_Buffers]", *, check: bool
    ) -> None:
        self._run, self._views, self._check = run, views, check
        self._buffers, self._free = buffers, free

    def __len__(self) -> int:
        return len(self._run.samples)

    def payloads(self, low: int, high: int) -> "List[PayloadView]":
        """Return the payload of some samples: what most training needs, and the least work. Raises DamagedData."""
        found: List[PayloadView] = []
        views, check, crc32 = self._views, self._check, zlib.crc32
        for place, inside in self._run.samples[low:high]:
            shard, cut, first = views[place]
            begin, end, crc, label, extension = shard.payloads[first + inside]
            data = cut(begin, end)
            if check and crc32(data) != crc:
                raise _damaged(shard, first + inside)
            found.append((data, label, extension, shard, first + inside))
        return found

    def raw(self, low: int, high: int) -> "List[RawSample]":
        """Return some samples with all of their members. Raises DamagedData."""
        found = []
        for place, inside in self._run.samples[low:high]:
            shard, cut, first = self._views[place]
            found.append(cut_sample(shard, first + inside, cut, check=self._check))
        return found

    def release(self) -> None:
        """Let the buffers be used again. No data of the samples may be used after this."""
        self._views.clear()
        self._free.put(self._buffers)


def cut_sample(shard: ShardIndex, number: int, cut: Cut, *, check: bool) -> RawSample:
    """Cut one sample out of a shard, and check it."""
    fields = []
    for extension, offset, length, crc in shard.members(number):
        data = cut(offset, offset + length)
        if check and zlib.crc32(data) != crc:
            raise _damaged(shard, number)
        fields.append(Field(extension, data))
    return RawSample(shard, number, shard.label(number), fields)


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

    def __init__(self, store: ShardStore, *, check: bool = True) -> None:
        self._store, self._check = store, check

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
            for run, following in _with_next(runs):
                buffers = _get(free, stop)
                if buffers is None:
                    return
                for wanted in (run, following):  # the disk must not wait while this thread hands over
                    if wanted is not None:
                        self._announce(wanted)
                window = Window(run, self._read(run, buffers), buffers, free, check=self._check)
                if not _put(read, window, stop):
                    return
        except BaseException as exc:  # raised again where the samples are used
            last = exc
        _put(read, last, stop)

    def _read(self, run: Run, buffers: _Buffers) -> "_Views":
        used = sorted({place for place, _ in run.samples})
        views: _Views = {}
        for place in used:
            block = run.blocks[place]
            shard = self._store.index(block.shard)
            start, end = shard.span(block.first, block.samples)
            file = self._store.file(block.shard)
            if _in_memory(file, start, end):
                views[place] = (shard, _from_file(file, shard.name), block.first)
                continue
            view = buffers.block(place, end - start)
            _read_into(file, view, start, shard.name)
            views[place] = (shard, _from_view(view, start), block.first)
        return views

    def one(self, shard: int, number: int) -> RawSample:
        """Read one sample on its own."""
        index = self._store.index(shard)
        start, end = index.span(number, 1)
        view = memoryview(bytearray(end - start))
        _read_into(self._store.file(shard), view, start, index.name)
        return cut_sample(index, number, _from_view(view, start), check=self._check)

    def _announce(self, run: Run) -> None:
        """Let the kernel read whole blocks: its own reading ahead is 128 KB on many systems, and knows nothing of blocks."""
        if not hasattr(os, "posix_fadvise"):
            return
        for place in sorted({place for place, _ in run.samples}):
            block = run.blocks[place]
            start, end = self._store.index(block.shard).span(block.first, block.samples)
            file = self._store.file(block.shard)
            if not _in_memory(file, start, end):
                os.posix_fadvise(file, start, end - start, os.POSIX_FADV_WILLNEED)


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


def _from_view(view: memoryview, start: int) -> Cut:
    return lambda begin, end: view[begin - start : end - start]


def _from_file(file: int, name: str) -> Cut:
    def cut(begin: int, end: int) -> bytes:
        data = os.pread(file, end - begin, begin)
        while len(data) < end - begin:
            more = os.pread(file, end - begin - len(data), begin + len(data))
            if not more:
                raise _cut_off(name)
            data += more
        return data

    return cut


def _in_memory(file: int, start: int, end: int) -> bool:
    """Whether the page cache seems to have a block. Its samples are then read one by one: copying the block first would cost more."""
    probe = [bytearray(1)]
    try:
        for place in range(start, end, _PROBE_BYTES):
            os.preadv(file, probe, place, os.RWF_NOWAIT)
    except (AttributeError, OSError):  # it is not there (EAGAIN), or nobody can tell
        return False
    return True


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

"""Reading a packed data set: `open` gives an object that is a list of samples, an iterator, and the source of a torch DataLoader.

Iterating reads blocks in the order of `epoch_order.py`. The state is how many samples each process has taken in this
epoch: not a position in a file, not anything of a worker.
"""

import bisect
import itertools
import os
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from ownlab_guest.data.block_reader import BlockReader, Data, RawSample, Window
from ownlab_guest.data.decoding import Decoders
from ownlab_guest.data.epoch_order import EpochOrder, Segment, Split, of_worker, share, split_segments
from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.image_extensions import IMAGES
from ownlab_guest.data.manifest import Manifest
from ownlab_guest.data.shard_cache import DEFAULT_CACHE_BYTES, CachedStore, is_url
from ownlab_guest.data.shard_index import ShardIndex
from ownlab_guest.data.shard_store import ShardStore
from ownlab_guest.text import text

Transform = Callable[[Any], Any]
_STATE_VERSION = 1
CHECKS = ("once", "always", "never")
# Samples that are made at once: in this thread; for another thread, where handing over single ones would cost too much.
_CHUNK, _THREAD_CHUNK = 64, 4


class Settings(NamedTuple):
    """How samples are read and what is made of them."""

    shuffle: bool = False
    seed: int = 0
    batch: Optional[int] = None
    drop_last: bool = False
    transform: Optional[Transform] = None
    target_transform: Optional[Transform] = None
    decode: bool = True
    as_dict: bool = False
    threads: Optional[int] = None
    check: str = "once"
    copy: bool = True


class PackedDataset:
    """A packed data set. `open` makes it."""

    def __init__(self, store: ShardStore, settings: Settings, rank: int, world: int) -> None:
        self._store, self.settings = store, settings
        self.rank, self.world = rank, world
        self._reader = BlockReader(store, settings.check)
        self._decoders = Decoders()
        self._ends = list(itertools.accumulate(shard.samples for shard in store.manifest.shards))
        self.epoch = 0
        self._splits: "List[Split]" = []
        self._taken = 0  # samples of this process in this epoch, since the last split
        self._loaded = False

    @property
    def manifest(self) -> Manifest:
        """What the data set consists of."""
        return self._store.manifest

    @property
    def classes(self) -> "Tuple[str, ...]":
        """The names of the classes, by label."""
        return self.manifest.classes

    @property
    def class_to_idx(self) -> Dict[str, int]:
        """The label of each class, as torchvision's data sets have it."""
        return {name: number for number, name in enumerate(self.classes)}

    @property
    def targets(self) -> "List[Optional[int]]":
        """The label of each sample, in the order of the shards."""
        numbers = range(len(self.manifest.shards))
        return [
            self._store.index(shard).label(row) for shard in numbers for row in range(len(self._store.index(shard)))
        ]

    def __len__(self) -> int:
        """All samples, whatever this process reads of them."""
        return self.manifest.samples

    def __getitem__(self, number: int) -> Any:
        """Return one sample, in the order of the shards. Where seeking is slow, iterate instead."""
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(number)
        shard = bisect.bisect_right(self._ends, number)
        first = self._ends[shard] - self.manifest.shards[shard].samples
        raw = self._reader.one(shard, number - first)
        if self.settings.as_dict:
            return self._as_dict(raw)
        extension, data = next((field for field in raw.fields if field.extension in IMAGES), raw.fields[0])
        return self._pair(data, raw.label, extension, raw.shard, raw.number)

    def name(self, number: int) -> str:
        """Return the name that a sample had in the source."""
        shard = bisect.bisect_right(self._ends, number)
        first = self._ends[shard] - self.manifest.shards[shard].samples
        return self._store.index(shard).sample(number - first).name

    def __iter__(self) -> Iterator[Any]:
        """Yield an epoch: samples, or lists of them if a batch size is set. After load_state_dict, what is left of it."""
        self.begin()
        batch = self.settings.batch
        if batch is None:
            for sample in self.samples(self._left()):
                self._taken += 1
                yield sample
        else:
            for group in _grouped(self._lists(self._left(), batch), batch):
                self._taken += len(group)
                if len(group) == batch or not self.settings.drop_last:
                    yield group
        self.set_epoch(self.epoch + 1)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch."""
        self.epoch, self._splits, self._taken, self._loaded = epoch, [], 0, False

    def begin(self) -> None:
        """Begin to iterate: where a loaded state says, else with the next epoch if this one was begun."""
        if not self._loaded and (self._taken or self._splits):
            self.set_epoch(self.epoch + 1)
        self._loaded = False

    def state_dict(self) -> Dict[str, Any]:
        """Return where reading is: a small dictionary, the same in every process."""
        return {
            "version": _STATE_VERSION,
            "samples": len(self),
            "shuffle": self.settings.shuffle,
            "seed": self.settings.seed,
            "epoch": self.epoch,
            "taken": [[world, taken] for world, taken in (*self._splits, (self.world, self._taken))],
        }

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Continue from a state, also with another number of processes or workers. Raises DataError."""
        wanted = {"version": _STATE_VERSION, "samples": len(self), **self._order()}
        for name, value in wanted.items():
            if state.get(name) != value:
                raise DataError(
                    text(
                        "The state does not fit: its {name} is {found}, here it is {value}.",
                        name=name,
                        found=state.get(name),
                        value=value,
                    ),
                    hint=text("Open the same data set with the same seed and shuffle."),
                )
        splits = [(int(world), int(taken)) for world, taken in state["taken"]]
        self.epoch = int(state["epoch"])
        if splits and splits[-1][0] == self.world:
            self._splits, self._taken = splits[:-1], splits[-1][1]
        else:
            self._splits, self._taken = splits, 0
        self._loaded = True

    def iterable(self) -> Any:
        """Return a torch IterableDataset of the samples of this process."""
        from ownlab_guest.data.torch_data import SampleStream

        return SampleStream(self)

    def loader(self, batch: Optional[int] = None, workers: int = 0, **options: Any) -> Any:
        """Return a torch DataLoader that counts what it gives out: its state_dict continues with other workers too."""
        from ownlab_guest.data.torch_data import make_loader

        return make_loader(self, batch or self.settings.batch or 1, workers, options)

    def samples_left(self) -> int:
        """How many samples of this epoch this process has still to read."""
        return sum(high - low for low, high in self._left())

    def advance(self, samples: int) -> None:
        """Count samples that were read elsewhere, by the workers of a loader."""
        self._taken += samples

    def samples(self, segments: "List[Segment]") -> Iterator[Any]:
        """Yield the samples of some parts of the order."""
        return itertools.chain.from_iterable(self._lists(segments, _CHUNK))

    def _lists(self, segments: "List[Segment]", most: int) -> "Iterator[List[Any]]":
        """Yield the samples of some parts of the order, some at a time."""
        order = EpochOrder(self.manifest.shards, epoch=self.epoch, **self._order())
        self._store.expect(order.shards(segments))
        windows = self._reader.windows(order.runs(segments))
        threads = self._threads()
        kept = not self.settings.copy
        if threads > 1:
            return _in_threads(windows, self._make, threads, kept=kept)
        return _in_turn(windows, self._make, most, kept=kept)

    def worker_segments(self, batch: int, worker: int, workers: int) -> "List[Segment]":
        """Return what one worker of a loader reads."""
        return of_worker(self._left(), batch, worker, workers)

    def _left(self) -> "List[Segment]":
        mine = share(len(self), self._splits, self.rank, self.world)
        return split_segments(mine, self._taken)[1]

    def _order(self) -> Dict[str, Any]:
        return {"shuffle": self.settings.shuffle, "seed": self.settings.seed}

    def _threads(self) -> int:
        """Threads pay where there is something to decode."""
        wanted = self.settings.threads
        if wanted is not None:
            return wanted
        busy = self.settings.decode and any(name.rsplit(".", 1)[-1] in IMAGES for name in self.manifest.extensions)
        return min(8, _cores()) if busy else 1

    def _make(self, window: Window, low: int, high: int) -> "List[Any]":
        """Make some samples of a window."""
        settings = self.settings
        if settings.as_dict:
            return [self._as_dict(raw) for raw in window.raw(low, high)]
        if not settings.decode and settings.transform is None and settings.target_transform is None:
            return window.copies(low, high) if settings.copy else window.pairs(low, high)
        return [self._pair(*payload) for payload in window.payloads(low, high)]

    def _pair(self, data: Data, label: Any, extension: str, shard: ShardIndex, number: int) -> "Tuple[Any, Any]":
        settings = self.settings
        value = self._decoded(shard, number, extension, data)
        if settings.transform is not None:
            value = settings.transform(value)
        if settings.target_transform is not None:
            label = settings.target_transform(label)
        return value, label

    def _decoded(self, shard: ShardIndex, number: int, extension: str, data: Data) -> Any:
        if not self.settings.decode:
            return bytes(data) if self.settings.copy else data
        try:
            return self._decoders.decode(extension, data)
        except DataError:
            raise  # Pillow is missing
        except Exception as exc:
            name = shard.sample(number).name
            raise DamagedData(
                text("{name} cannot be decoded: {reason}.", name=name, reason=exc),
                hint=text("It was packed so. `ownlab data inspect` finds broken files before they are packed."),
            ) from exc

    def _as_dict(self, raw: RawSample) -> Dict[str, Any]:
        sample = raw.shard.sample(raw.number)
        made: Dict[str, Any] = {"__key__": sample.key, "__name__": sample.name, "label": raw.label}
        for extension, data in raw.fields:
            made[extension] = self._decoded(raw.shard, raw.number, extension, data)
        return made if self.settings.transform is None else self.settings.transform(made)


def _in_turn(
    windows: Iterator[Window], make: "Callable[[Window, int, int], List[Any]]", most: int, *, kept: bool
) -> "Iterator[List[Any]]":
    for window in windows:
        for start in range(0, len(window), most):
            yield make(window, start, start + most)
        window.release(kept=kept)


def _grouped(lists: "Iterator[List[Any]]", size: int) -> "Iterator[List[Any]]":
    """Yield the same items in lists of one size; the last one may be shorter. Most lists have it already."""
    group: List[Any] = []
    for made in lists:
        group = group + made if group else made
        while len(group) >= size:
            yield group[:size]
            group = group[size:]
    if group:
        yield group


def _in_threads(
    windows: Iterator[Window], make: "Callable[[Window, int, int], List[Any]]", threads: int, *, kept: bool
) -> "Iterator[List[Any]]":
    """Decode with several threads, in order. A window is released when all of its samples are decoded."""
    pending: "Deque[Union[Future[List[Any]], Window]]" = deque()
    waiting = 0
    with ThreadPoolExecutor(threads) as executor:
        try:
            for window in windows:
                for start in range(0, len(window), _THREAD_CHUNK):
                    pending.append(executor.submit(make, window, start, start + _THREAD_CHUNK))
                    waiting += 1
                    while waiting > 2 * threads + 2:
                        waiting -= isinstance(pending[0], Future)
                        yield _taken(pending.popleft(), kept=kept)
                pending.append(window)
            while pending:
                yield _taken(pending.popleft(), kept=kept)
        finally:
            for item in pending:
                if isinstance(item, Future):
                    item.cancel()


def _taken(item: "Union[Future[List[Any]], Window]", *, kept: bool) -> "List[Any]":
    if isinstance(item, Future):
        return item.result()
    item.release(kept=kept)
    return []


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def open_dataset(
    path: "Union[str, os.PathLike[str]]",
    *,
    shuffle: bool = False,
    seed: int = 0,
    batch: Optional[int] = None,
    drop_last: bool = False,
    transform: Optional[Transform] = None,
    target_transform: Optional[Transform] = None,
    decode: bool = True,
    as_dict: bool = False,
    threads: Optional[int] = None,
    check: str = "once",
    copy: bool = True,
    rank: Optional[int] = None,
    world: Optional[int] = None,
    cache: "Union[str, os.PathLike[str], None]" = None,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
) -> PackedDataset:
    """Open a data set that `ownlab data pack` made: a folder, or an http(s) address of one.

    Samples are pairs (data, label); as_dict: dictionaries with every member. decode=False gives bytes, with copy=False
    memoryviews of what was read. Each sample is compared with its checksum when it is read for the first time (check="once"), each
    time ("always") or "never". Rank and world size come from torch.distributed or torchrun where there are several processes.
    """
    place = os.fspath(path)
    if batch is not None and batch < 1:
        raise DataError(text("A batch has at least one sample."))
    if check not in CHECKS:
        raise DataError(text("check is one of {choices}, not {value}.", choices=", ".join(CHECKS), value=repr(check)))
    folder = None if cache is None else os.fspath(cache)
    store = CachedStore(place, folder, cache_bytes) if is_url(place) else ShardStore(place)
    settings = Settings(
        shuffle, seed, batch, drop_last, transform, target_transform, decode, as_dict, threads, check, copy
    )
    found_rank, found_world = _distribution()
    rank, world = found_rank if rank is None else rank, found_world if world is None else world
    if not 0 <= rank < world:
        raise DataError(text("Rank {rank} is not below the world size {world}.", rank=rank, world=world))
    return PackedDataset(store, settings, rank, world)


def _distribution() -> "Tuple[int, int]":
    """Return rank and world size; torch is asked only if the script has imported it."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1

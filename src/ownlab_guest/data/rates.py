"""Measures how fast this data is read and decoded here: files one by one, cold and warm; large reads; the decoder.

Only facts: what they mean is decided by the host (`instruments/data/rates/assessment.py`).
"""

import contextlib
import itertools
import os
import random
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ownlab_guest.data import manifest
from ownlab_guest.data.block_reader import BlockReader, Data
from ownlab_guest.data.decoding import Decoders
from ownlab_guest.data.epoch_order import EpochOrder
from ownlab_guest.data.errors import DataError
from ownlab_guest.data.image_extensions import IMAGES
from ownlab_guest.data.regular_files import open_regular
from ownlab_guest.data.shard_store import ShardStore
from ownlab_guest.data.sources.source import MOST_MEMBER_BYTES, is_data, split_name
from ownlab_guest.text import text

Event = Dict[str, Any]
# Files that are looked at, and those of them that are read.
_MOST_LISTED, _MOST_READ = 200_000, 600
_LEAST_READ = 20
_PASS_SECONDS = 4.0
_THREADS = 8
_BIG_READ = 4 << 20
_SEQUENTIAL_BYTES = 256 << 20
_DECODED = 40
# A read counts as cold when at least this share of it came from the device.
_COLD_SHARE = 0.7


class Rate(NamedTuple):
    """How fast something was."""

    per_second: float
    bytes_per_second: float
    cpu_seconds: float  # for each sample
    from_device: Optional[float]  # share of the bytes; None: unknown


def measure(path: str, scratch: Optional[str] = None) -> Iterator[Event]:
    """Yield progress, and the facts as the last event. Raises DataError."""
    if os.path.exists(os.path.join(path, manifest.FILE)):
        yield from _measure_packed(path)
        return
    files = _Files(path)
    yield _progress(1)
    read = files.chosen()
    _forget(read)
    cold = _read_files(read[0::2], 1)
    yield _progress(2)
    parallel = _read_files(read[1::2], _THREADS)
    yield _progress(3)
    warm = _read_files(read[0::2], 1)
    yield _progress(4)
    sequential = _sequential(read, path)
    yield _progress(5)
    decode, why_not = _decode([name for name in read if split_name(name)[1] in IMAGES])
    copy = _scratch(read, path, scratch)
    yield {
        "event": "result",
        "kind": "files",
        "files": files.seen,
        "listed_all": files.listed_all,
        "mean_bytes": files.mean_bytes(read),
        "cold": _fact(cold),
        "cold_parallel": _fact(parallel),
        "warm": _fact(warm),
        "sequential": _fact(sequential),
        "decode_seconds": decode,
        "decode_missing": why_not,
        "scratch": copy,
        **_place(path),
    }


def _measure_packed(path: str) -> Iterator[Event]:
    store = ShardStore(path)
    packed = store.manifest
    shards = [os.path.join(path, shard.name) for shard in packed.shards]
    _forget(shards)
    cold = _read_packed(store)
    yield _progress(2)
    warm = _read_packed(store)
    yield _progress(3)
    _forget(shards)
    sequential = _timed([(name, 0) for name in shards], _read_large)
    yield _progress(4)
    decode, why_not = _decode_packed(store)
    yield {
        "event": "result",
        "kind": "packed",
        "files": packed.samples,
        "listed_all": True,
        "mean_bytes": packed.payload_bytes / max(1, packed.samples),
        "cold": _fact(cold),
        "cold_parallel": None,
        "warm": _fact(warm),
        "sequential": _fact(sequential),
        "decode_seconds": decode,
        "decode_missing": why_not,
        "scratch": None,
        **_place(path),
    }


def _progress(step: int) -> Event:
    return {"event": "progress", "phase": "bench", "samples": step, "total": 6}


class _Files:
    """The files below a folder: all of a small one, a part of a large one."""

    def __init__(self, path: str) -> None:
        if not os.path.isdir(path):
            raise DataError(
                text("{path} is not a folder.", path=path),
                hint=text("`ownlab data bench` measures a folder of files, or packed data."),
            )
        self._path = path
        self.names: List[str] = []
        self.listed_all = True
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if is_data(name)]
            random.shuffle(folders)  # a part of a large tree is not its first class
            self.names += [os.path.join(folder, name) for name in names if is_data(name)]
            if len(self.names) >= _MOST_LISTED:
                self.listed_all = False
                break
        self.seen = len(self.names)
        if self.seen < _LEAST_READ:
            raise DataError(text("{path} has too few files to measure: {n}.", path=path, n=self.seen))

    def chosen(self) -> "List[str]":
        """Choose files to read, at random: their order on the disk must not help."""
        names = [name for name in self.names if split_name(name)[1] in IMAGES]
        names = names if len(names) >= _LEAST_READ else self.names
        files = filter(os.path.isfile, random.sample(names, len(names)))  # pipes and devices are never opened
        found = list(itertools.islice(files, _MOST_READ))
        if len(found) < _LEAST_READ:
            raise DataError(text("{path} has too few files to measure: {n}.", path=self._path, n=len(found)))
        return found

    @staticmethod
    def mean_bytes(names: "List[str]") -> float:
        """Return the mean size."""
        return sum(os.path.getsize(name) for name in names) / len(names)


def _forget(names: "List[str]") -> None:
    """Ask the kernel to drop what it keeps of these files. File systems that ignore it show by `from_device`."""
    for name in names:
        with contextlib.suppress(OSError), open(name, "rb", opener=open_regular) as file:
            os.fsync(file.fileno())  # changed pages cannot be dropped
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read_files(names: "List[str]", threads: int) -> Rate:
    def read(item: "Tuple[str, int]") -> int:
        with open(item[0], "rb", buffering=0, opener=open_regular) as file:
            block = min(os.fstat(file.fileno()).st_size + 1, _BIG_READ)  # a small file is read by one call
            return sum(map(len, iter(lambda: file.read(block), b"")))

    return _timed([(name, 0) for name in names], read, threads)


def _timed(items: "List[Tuple[str, int]]", read: "Callable[[Tuple[str, int]], int]", threads: int = 1) -> Rate:
    """Read until the time is over; what the device has delivered comes from the kernel's count."""
    before, cpu, begun = _device_bytes(), time.process_time(), time.perf_counter()
    end = begun + _PASS_SECONDS
    count = size = 0
    with ThreadPoolExecutor(threads) as pool:
        step = 1 if threads == 1 else 4 * threads
        for start in range(0, len(items), step):
            part = items[start : start + step]
            done = [read(part[0])] if threads == 1 else list(pool.map(read, part))
            count, size = count + len(done), size + sum(done)
            if time.perf_counter() > end:
                break
    seconds = max(1e-9, time.perf_counter() - begun)
    after = _device_bytes()
    share = None if before is None or after is None or not size else min(1.0, (after - before) / size)
    return Rate(count / seconds, size / seconds, (time.process_time() - cpu) / max(1, count), share)


def _device_bytes() -> Optional[int]:
    """Return what this process has read from devices. Network file systems count here too, FUSE does not."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("read_bytes"))
    except (OSError, StopIteration, ValueError):
        return None


def _read_large(item: "Tuple[str, int]") -> int:
    buffer = bytearray(_BIG_READ)
    total = 0
    with open(item[0], "rb", buffering=0, opener=open_regular) as file:
        while total < _SEQUENTIAL_BYTES and (count := file.readinto(buffer)):
            total += count
    return total


def _sequential(names: "List[str]", path: str) -> Optional[Rate]:
    """Read large blocks from the same disk: of a large file that is there, else of a temporary one."""
    largest = max(names, key=os.path.getsize)
    if os.path.getsize(largest) >= _SEQUENTIAL_BYTES // 4:
        _forget([largest])
        return _timed([(largest, 0)], _read_large)
    try:
        with tempfile.NamedTemporaryFile(dir=path, prefix=".ownlab-bench-") as file:
            block = os.urandom(_BIG_READ)
            for _ in range(_SEQUENTIAL_BYTES // _BIG_READ):
                file.write(block)
            file.flush()
            _forget([file.name])
            return _timed([(file.name, 0)], _read_large)
    except OSError:
        return None  # the folder cannot be written to, or its disk is full


def _read_packed(store: ShardStore) -> Rate:
    order = EpochOrder(store.manifest.shards, shuffle=True, seed=0, epoch=0)
    windows = BlockReader(store).windows(order.runs([(0, order.samples)]))
    before, cpu, begun = _device_bytes(), time.process_time(), time.perf_counter()
    count = size = 0
    for window in windows:
        for payload in window.payloads(0, len(window)):
            size += len(bytes(payload[0]))
            count += 1
        window.release()
        if time.perf_counter() - begun > _PASS_SECONDS:
            break
    seconds = time.perf_counter() - begun
    after = _device_bytes()
    share = None if before is None or after is None or not size else min(1.0, (after - before) / size)
    return Rate(count / seconds, size / seconds, (time.process_time() - cpu) / max(1, count), share)


def _decode(names: "List[str]") -> "Tuple[Optional[float], str]":
    def content(name: str) -> bytes:
        with open(name, "rb", opener=open_regular) as file:
            return file.read(MOST_MEMBER_BYTES)

    return _decode_all((split_name(name)[1], memoryview(content(name))) for name in names[:_DECODED])


def _decode_packed(store: ShardStore) -> "Tuple[Optional[float], str]":
    reader = BlockReader(store)
    samples = [reader.one(0, number) for number in range(min(_DECODED, store.manifest.shards[0].samples))]
    fields = [field for sample in samples for field in sample.fields if field.extension in IMAGES]
    return _decode_all((field.extension, field.data) for field in fields)


def _decode_all(items: "Iterator[Tuple[str, Data]]") -> "Tuple[Optional[float], str]":
    """Return the CPU seconds of decoding one image, or why they are not known."""
    decoders, count, spent = Decoders(), 0, 0.0
    for extension, data in items:
        begun = time.thread_time()
        try:
            decoders.decode(extension, data)
        except DataError as exc:
            return None, str(exc)
        except Exception:  # noqa: S112  # a broken image; `inspect` finds it
            continue
        if count:  # the first one loads the decoder
            spent += time.thread_time() - begun
        count += 1
    if count < 2:
        return None, text("there are no images")
    return spent / (count - 1), ""


def _scratch(names: "List[str]", path: str, scratch: Optional[str]) -> "Optional[Event]":
    """Read copies of some files from the local scratch disk, if it is another one."""
    folder = scratch or tempfile.gettempdir()
    try:
        if os.stat(folder).st_dev == os.stat(path).st_dev:
            return None
        with tempfile.TemporaryDirectory(dir=folder, prefix="ownlab-bench-") as inner:
            copies = []
            for number, name in enumerate(names[:200]):
                copies.append(os.path.join(inner, str(number)))
                with open(name, "rb", opener=open_regular) as source, open(copies[-1], "wb") as copy:
                    shutil.copyfileobj(source, copy)
            _forget(copies)
            rate = _fact(_read_files(copies, 1))
    except OSError:
        return None
    return {"folder": folder, "cold": rate}


def _place(path: str) -> Event:
    """Return where the data are, and what reads them."""
    status = os.stat(path)
    return {
        "file_system": _file_system(status.st_dev),
        "rotational": _rotational(status.st_dev),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_bytes": _available_memory(),
    }


def _file_system(device: int) -> str:
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            if fields.split()[2] == wanted:
                return rest.split()[0]
    return ""


def _rotational(device: int) -> Optional[bool]:
    base = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for place in (base, os.path.join(os.path.realpath(base), "..")):
        with contextlib.suppress(OSError), open(os.path.join(place, "queue/rotational"), encoding="ascii") as file:
            return file.read().strip() == "1"
    return None


def _available_memory() -> Optional[int]:
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
    return None


def _fact(rate: Optional[Rate]) -> "Optional[Event]":
    return (
        None
        if rate is None
        else {**rate._asdict(), "cold": None if rate.from_device is None else rate.from_device >= _COLD_SHARE}
    )

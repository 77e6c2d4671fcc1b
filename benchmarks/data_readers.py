"""Reads one data set with one reader, in batches of 64, shuffled, as bytes: `python data_readers.py KIND PATH [later]`. Prints JSON.

Runs in an interpreter that has the peers; each library is imported only where it is measured. A byte of each cache line is looked at,
as whatever uses the sample does: memory that is only handed out would cost nothing. What looking at a sample costs that is in the
processor's cache is no part of reading, and subtracted. `later` measures the second pass of the process.
"""

import itertools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src"))
BATCH, CACHE_LINE = 64, 64
Data = bytes | memoryview
Batches = Iterator[list[Data]]
# Opens a data set; what it returns begins a pass.
Reader = Callable[[str], Callable[[], Batches]]


def batched(samples: Iterator[Data]) -> Batches:
    while batch := list(itertools.islice(samples, BATCH)):
        yield batch


def shuffled(count: int) -> list[int]:
    order = list(range(count))
    random.shuffle(order)
    return order


def files(path: str) -> Callable[[], Batches]:
    names = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(path, "files")) for name in names]

    def content(name: str) -> bytes:
        with open(name, "rb") as file:
            return file.read()

    return lambda: batched(content(names[number]) for number in shuffled(len(names)))


def ownlab(path: str, *, copy: bool = False, check: str = "once") -> Callable[[], Batches]:
    from ownlab_guest.data.dataset import open_dataset

    folder = os.path.join(path, "ownlab")
    dataset = open_dataset(folder, shuffle=True, batch=BATCH, decode=False, copy=copy, check=check)
    return lambda: ([content for content, _ in batch] for batch in dataset)


def ownlab_bytes(path: str) -> Callable[[], Batches]:
    return ownlab(path, copy=True)


def ownlab_unchecked(path: str) -> Callable[[], Batches]:
    return ownlab(path, check="never")


def litdata(path: str) -> Callable[[], Batches]:
    from litdata import StreamingDataset

    dataset = StreamingDataset(os.path.join(path, "litdata"), shuffle=True)
    return lambda: batched(sample["jpg"] for sample in dataset)


def webdataset(path: str) -> Callable[[], Batches]:
    import webdataset as wds

    folder = os.path.join(path, "ownlab")
    shards = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".tar"))
    return lambda: batched(sample["jpg"] for sample in wds.WebDataset(shards, shardshuffle=100).shuffle(1000))


def hugging_face(path: str) -> Callable[[], Batches]:
    import datasets

    rows = datasets.load_from_disk(os.path.join(path, "hf"))

    def batches() -> Batches:
        order = shuffled(len(rows))
        return (rows[order[start : start + BATCH]]["jpg"] for start in range(0, len(order), BATCH))

    return batches


def array_record(path: str) -> Callable[[], Batches]:
    from array_record.python.array_record_module import ArrayRecordReader

    reader = ArrayRecordReader(os.path.join(path, "data.array_record"))

    def batches() -> Batches:
        order = shuffled(reader.num_records())
        return (reader.read(order[start : start + BATCH]) for start in range(0, len(order), BATCH))

    return batches


def in_order(path: str) -> Callable[[], Batches]:
    """What the disk gives at most: the shards, each from its beginning to its end."""
    folder = os.path.join(path, "ownlab")
    names = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".tar"))

    def batches() -> Batches:
        block = bytearray(4 << 20)
        for name in names:
            with open(name, "rb", buffering=0) as file:
                while count := file.readinto(block):
                    yield [memoryview(block)[:count]]

    return batches


READERS: dict[str, Reader] = {
    "in-order": in_order,
    "files": files,
    "ownlab": ownlab,
    "ownlab-bytes": ownlab_bytes,
    "ownlab-unchecked": ownlab_unchecked,
    "litdata": litdata,
    "webdataset": webdataset,
    "hf": hugging_face,
    "arrayrecord": array_record,
}


def prepare(path: str) -> None:
    """Make the data set of each peer from the files, in the order of a shuffle."""
    import datasets
    from array_record.python.array_record_module import ArrayRecordWriter
    from litdata.streaming.writer import BinaryWriter

    names = sorted(
        os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(path, "files")) for name in names
    )
    random.Random(0).shuffle(names)

    def contents() -> Iterator[dict[str, Any]]:
        for name in names:
            with open(name, "rb") as file:
                yield {"jpg": file.read(), "cls": 0}

    datasets.Dataset.from_generator(contents, cache_dir=os.path.join(path, "hf-cache")).save_to_disk(
        os.path.join(path, "hf")
    )
    writer = ArrayRecordWriter(os.path.join(path, "data.array_record"), "group_size:1,uncompressed")
    for sample in contents():
        writer.write(sample["jpg"])
    writer.close()
    os.makedirs(os.path.join(path, "litdata"))
    binary = BinaryWriter(os.path.join(path, "litdata"), chunk_bytes="64MB")
    for number, sample in enumerate(contents()):
        binary[number] = sample
    binary.done()
    binary.merge()


def forget(path: str) -> None:
    """Drop what the page cache has of a data set."""
    for folder, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def throttle(path: str) -> None:
    """Read as from a hard disk from here on: 150 operations and 150 MB per second, for this process alone (blkio of cgroup v1)."""
    device = os.stat(path).st_dev
    group = "/sys/fs/cgroup/blkio/ownlab-data-bench"
    os.makedirs(group, exist_ok=True)
    disk = f"{os.major(device)}:{os.minor(device) // 16 * 16}"
    for name, limit in (("read_iops_device", 150), ("read_bps_device", 150_000_000)):
        with open(f"{group}/blkio.throttle.{name}", "w") as file:
            file.write(f"{disk} {limit}")
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))


def main() -> None:
    kind, path = sys.argv[1:3]
    options = sys.argv[3:]
    if "cold" in options:
        forget(path)
    if "hdd" in options:
        throttle(path)
    if kind == "prepare":
        prepare(path)
        return
    begin_pass = READERS[kind](path)
    if "later" in options:
        for _ in begin_pass():
            pass
    print(json.dumps(measured(begin_pass(), 20 if {"cold", "hdd"} & set(options) else 1e9)))


def measured(batches: Batches, patience: float) -> dict[str, float]:
    """Read for some seconds, and look at everything."""
    import numpy

    def look(content: Data) -> None:
        numpy.frombuffer(content, numpy.uint8)[::CACHE_LINE].copy()

    # imports, opening and the first window are not what is measured
    first = sum(len(content) for content in next(batches))
    count, size, cpu, begun = 0, 0, time.process_time(), time.perf_counter()
    deadline = begun + patience
    for batch in batches:
        if time.perf_counter() > deadline:
            break
        for content in batch:
            look(content)
            size += len(content)
        count += len(batch)
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    in_cache, began = bytes(size // max(1, count)), time.process_time()
    for _ in range(count):
        look(in_cache)
    looking = time.process_time() - began
    return {
        "samples": count,
        "bytes": size,
        "first": first,
        "seconds": seconds,
        "cpu": cpu - looking,
        "looking": looking,
    }


if __name__ == "__main__":
    main()

"""Reads one data set with one reader, in batches of 64, shuffled, as bytes: `python data_readers.py KIND PATH`. Prints JSON.

Runs in an interpreter that has the peers; each library is imported only where it is measured.
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
BATCH = 64
Reader = Callable[[str], Iterator[list[bytes]]]


def batched(samples: Iterator[bytes]) -> Iterator[list[bytes]]:
    while batch := list(itertools.islice(samples, BATCH)):
        yield batch


def files(path: str) -> Iterator[list[bytes]]:
    names = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(path, "files")) for name in names]
    random.shuffle(names)
    for start in range(0, len(names), BATCH):
        batch = []
        for name in names[start : start + BATCH]:
            with open(name, "rb") as file:
                batch.append(file.read())
        yield batch


def ownlab(path: str) -> Iterator[list[bytes]]:
    from ownlab_guest.data.dataset import open_dataset

    dataset = open_dataset(os.path.join(path, "ownlab"), shuffle=True, batch=BATCH, decode=False)
    return ([content for content, _ in batch] for batch in dataset)


def litdata(path: str) -> Iterator[list[bytes]]:
    from litdata import StreamingDataset

    return batched(sample["jpg"] for sample in StreamingDataset(os.path.join(path, "litdata"), shuffle=True))


def webdataset(path: str) -> Iterator[list[bytes]]:
    import webdataset as wds

    shards = sorted(
        os.path.join(path, "ownlab", name) for name in os.listdir(os.path.join(path, "ownlab")) if name.endswith(".tar")
    )
    return batched(sample["jpg"] for sample in wds.WebDataset(shards, shardshuffle=100).shuffle(1000))


def hugging_face(path: str) -> Iterator[list[bytes]]:
    import datasets

    rows = datasets.load_from_disk(os.path.join(path, "hf"))
    order = list(range(len(rows)))
    random.shuffle(order)
    for start in range(0, len(order), BATCH):
        yield rows[order[start : start + BATCH]]["jpg"]


def array_record(path: str) -> Iterator[list[bytes]]:
    from array_record.python.array_record_module import ArrayRecordReader

    reader = ArrayRecordReader(os.path.join(path, "data.array_record"))
    order = list(range(reader.num_records()))
    random.shuffle(order)
    for start in range(0, len(order), BATCH):
        yield reader.read(order[start : start + BATCH])


READERS: dict[str, Reader] = {
    "files": files,
    "ownlab": ownlab,
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
    batches = READERS[kind](path)
    size = sum(
        len(content) for content in next(batches)
    )  # imports, opening and the first window are not what is measured
    first = size
    count, cpu, begun = 0, time.process_time(), time.perf_counter()
    deadline = begun + (20 if options else 1e9)
    for batch in batches:
        if time.perf_counter() > deadline:
            break
        count += len(batch)
        size += sum(len(content) for content in batch)
    seconds = time.perf_counter() - begun
    print(json.dumps({"samples": count, "bytes": size - first, "seconds": seconds, "cpu": time.process_time() - cpu}))


if __name__ == "__main__":
    main()

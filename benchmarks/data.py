"""Reading packed data beside peers, in one run: the same images, batches of 64, shuffled, as bytes, one process, a warm cache.

`OWNLAB_DATA_PEERS` names a Python that has litdata, webdataset, datasets, array_record and torch. What counts is the CPU time of
each sample, including the misses of a look at each of its cache lines: wall times of a shared machine say little. Only ownlab and
ArrayRecord check what they read; ownlab does so in the first pass of a process, which is also measured without.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.rows import row

__all__ = ["data_disk_rows", "data_rows"]

READERS = Path(__file__).with_name("data_readers.py")
LAUNCH = Path(__file__).resolve().parents[1] / "src" / "ownlab_guest" / "launch.py"
FILES, CLASSES = 10_000, 40
PEERS = {
    "files": "files one by one",
    "litdata": "LitData",
    "webdataset": "WebDataset",
    "hf": "Hugging Face datasets",
    "arrayrecord": "ArrayRecord",
}
# Reads the files whose names it gets, with eight threads.
READ = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
def read(name):
    file = os.open(name, os.O_RDONLY)
    os.read(file, 1 << 20)
    os.close(file)
with ThreadPoolExecutor(8) as threads:
    list(threads.map(read, sys.stdin.read().split("\\n"), chunksize=32))
"""
# What is read -> the reader of ownlab, options of both sides.
PASSES = {
    "first pass, without checksums": ("ownlab-unchecked", []),
    "first pass, with checksums": ("ownlab", []),
    "later pass": ("ownlab", ["later"]),
    "later pass, as bytes": ("ownlab-bytes", ["later"]),
}


def data_rows(rounds: int) -> list[dict[str, Any]]:
    """Every pair of the data formats."""
    python = os.environ.get("OWNLAB_DATA_PEERS")
    if python is None:
        print("data: OWNLAB_DATA_PEERS names no Python that has the peers; only packing is measured")
    with tempfile.TemporaryDirectory(prefix="ownlab-data-") as folder:
        make_files(Path(folder) / "files")
        rows = packing_rows(Path(folder), rounds)
        if python is not None:
            subprocess.run([python, str(READERS), "prepare", folder], check=True, capture_output=True)
            rows += [reading_row(python, folder, peer, passed, rounds) for passed in PASSES for peer in PEERS]
    return rows


def data_disk_rows(rounds: int) -> list[dict[str, Any]]:
    """Samples per second from a disk that is as slow as a hard disk. Needs root, and blkio of cgroup v1."""
    python = os.environ["OWNLAB_DATA_PEERS"]
    with tempfile.TemporaryDirectory(prefix="ownlab-data-", dir=os.environ.get("OWNLAB_BENCH_DISK")) as folder:
        make_files(Path(folder) / "files")
        packing_rows(Path(folder), 1)
        ours, files, in_order = ([] for _ in range(3))  # type: list[Rates], list[Rates], list[Rates]
        for _ in range(rounds):
            ours.append(rates_of(python, folder, "ownlab"))
            files.append(rates_of(python, folder, "files"))
            in_order.append(rates_of(python, folder, "in-order"))
    images = [(mine[0], theirs[0]) for mine, theirs in zip(ours, files, strict=True)]
    rates = [(mine[1], theirs[1]) for mine, theirs in zip(ours, in_order, strict=True)]
    disk = "a hard disk (150 operations, 150 MB per second)"
    return [
        row(f"data: images of 40 KB from {disk} / files", images, "≥ 3000", "/s"),
        row(f"data: packed and shuffled from {disk} / the shards in order", rates, "≥ 0.8", "MB/s"),
    ]


Rates = tuple[float, float]


def rates_of(python: str, folder: str, kind: str) -> Rates:
    """Samples and megabytes per second behind the first window, of what is not in memory."""
    command = [python, str(READERS), kind, folder, "cold", "hdd"]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    seconds = float(measured["seconds"])
    return int(measured["samples"]) / seconds, int(measured["bytes"]) / seconds / 1e6


def make_files(folder: Path) -> None:
    """Files of 40 KB on average that nothing can compress, as photos."""
    generator = random.Random(0)
    for number in range(FILES):
        path = folder / f"class{number % CLASSES:02d}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(generator.randbytes(generator.randint(20_000, 60_000)))


def packing_rows(folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Packing beside reading the same files with eight threads, which nothing else reads faster; both from a cold cache."""
    names = [str(path) for path in sorted((folder / "files").rglob("*.jpg"))]
    walls, processors = [], []
    for number in range(rounds):
        out = folder / ("ownlab" if number == 0 else f"ownlab{number}")
        request = json.dumps({"path": str(folder / "files"), "out": str(out)})
        ours = timed([sys.executable, str(LAUNCH), "data.pack", request], names)
        theirs = timed([sys.executable, "-c", READ], names, "\n".join(names))
        walls.append((ours[0], theirs[0]))
        processors.append((ours[1], theirs[1]))
        if number:
            shutil.rmtree(out)
    name = f"data: packing {FILES:,} files of 40 KB, durably / reading them with 8 threads, cold"
    return [row(name, walls, "1.25"), row("data: the same, processor time", processors, "1.25")]


def timed(command: list[str], names: list[str], listed: str = "") -> tuple[float, float]:
    """Wall and processor time of a command on files that are not in memory."""
    os.sync()
    for name in names:
        file = os.open(name, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, input=listed, text=True)
    took, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def reading_row(python: str, folder: str, peer: str, passed: str, rounds: int) -> dict[str, Any]:
    """CPU time of each sample, in turn."""
    ours, options = PASSES[passed]
    pairs = [(cpu_of(python, folder, ours, options), cpu_of(python, folder, peer, options)) for _ in range(rounds)]
    return row(f"data: a sample of 40 KB, {passed} / {PEERS[peer]}", pairs, "0.67 of the fastest", "µs")


def cpu_of(python: str, folder: str, kind: str, options: list[str]) -> float:
    """Microseconds of CPU for each sample."""
    ran = subprocess.run([python, str(READERS), kind, folder, *options], check=True, capture_output=True, text=True)
    measured = json.loads(ran.stdout.splitlines()[-1])
    return 1e6 * float(measured["cpu"]) / int(measured["samples"])

"""Reading packed data beside peers, in one run: the same images, batches of 64, shuffled, as bytes, one process, a warm cache.

`OWNLAB_DATA_PEERS` names a Python that has litdata, webdataset, datasets, array_record and torch. What counts is the CPU time of
each sample: wall times of a shared machine say little. Only ownlab and nothing else here checks what it reads.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.rows import row

__all__ = ["data_rows"]

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


def data_rows(rounds: int) -> list[dict[str, Any]]:
    """Every pair of the data formats."""
    python = os.environ.get("OWNLAB_DATA_PEERS")
    if python is None:
        print("data: OWNLAB_DATA_PEERS names no Python that has the peers; only packing is measured")
    with tempfile.TemporaryDirectory(prefix="ownlab-data-") as folder:
        make_files(Path(folder) / "files")
        rows = [packing_row(Path(folder), rounds)]
        if python is not None:
            subprocess.run([python, str(READERS), "prepare", folder], check=True, capture_output=True)
            rows += [reading_row(python, folder, peer, rounds) for peer in PEERS]
    return rows


def make_files(folder: Path) -> None:
    """Files of 40 KB on average that nothing can compress, as photos."""
    generator = random.Random(0)
    for number in range(FILES):
        path = folder / f"class{number % CLASSES:02d}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(generator.randbytes(generator.randint(20_000, 60_000)))


def packing_row(folder: Path, rounds: int) -> dict[str, Any]:
    """Packing beside reading the same files."""
    pairs = []
    for number in range(rounds):
        out = folder / ("ownlab" if number == 0 else f"ownlab{number}")
        request = json.dumps({"path": str(folder / "files"), "out": str(out)})
        begin = time.perf_counter()
        subprocess.run([sys.executable, str(LAUNCH), "data.pack", request], check=True, capture_output=True)
        ours = time.perf_counter() - begin
        begin = time.perf_counter()
        for path in (folder / "files").rglob("*.jpg"):
            path.read_bytes()
        pairs.append((ours, time.perf_counter() - begin))
    return row("data: packing 10,000 files of 40 KB, durably / reading them", pairs, "1.25")


def reading_row(python: str, folder: str, peer: str, rounds: int) -> dict[str, Any]:
    """CPU time of each sample, ours with its checksum, in turn."""
    pairs = [(cpu_of(python, folder, "ownlab"), cpu_of(python, folder, peer)) for _ in range(rounds)]
    return row(f"data: CPU time to read a sample of 40 KB / {PEERS[peer]}", pairs, "0.67 of the fastest", "µs")


def cpu_of(python: str, folder: str, kind: str) -> float:
    """Microseconds of CPU for each sample."""
    ran = subprocess.run([python, str(READERS), kind, folder], check=True, capture_output=True, text=True)
    measured = json.loads(ran.stdout.splitlines()[-1])
    return 1e6 * float(measured["cpu"]) / int(measured["samples"])

"""Data on a machine with many cores and little other work: packing, a million files, kills, and a GPU that is fed.

    python -m benchmarks.data_machine OUT SECONDS

Writes OUT/data.json after each part. What fails is written down, and the next part begins. With 90 seconds packing, a quarter of a million files
and some kills are measured; a million files and a fed GPU need 300, and 200 runs with kills of each command 500.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests_survival.data import kills

ROOT = Path(__file__).resolve().parents[1]
LAUNCH = ROOT / "src" / "ownlab_guest" / "launch.py"
ROUNDS, MILLION = 5, 1_000_000
SMALL, IMAGES = 20_000, 6_000
# What a long and a short run is; how long a run with kills may take that has begun.
_LONG_SECONDS, _LAST_SECONDS = 300, 15


def main() -> None:
    """Run all parts; the kills get the time that is left."""
    out, seconds = Path(sys.argv[1]), float(sys.argv[2])
    deadline, short = time.monotonic() + seconds - _LAST_SECONDS, seconds < _LONG_SECONDS
    results: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()}
    with tempfile.TemporaryDirectory(prefix="ownlab-data-") as name:
        folder = Path(name)
        parts: dict[str, Callable[[], Any]] = {
            "packing": lambda: packing(folder, 3 if short else ROUNDS),
            "million": lambda: million(folder, MILLION // 4 if short else MILLION),
            **({} if short else {"feeding": lambda: feeding(folder)}),
            "kills": lambda: killing(deadline),
        }
        for part, measure in parts.items():
            begin = time.monotonic()
            try:
                results[part] = measure()
            except Exception:  # noqa: BLE001  # whatever it is, the other parts are measured
                results[part] = traceback.format_exc()
            results[f"{part}_seconds"] = time.monotonic() - begin
            print(part, json.dumps(results[part])[:3000], f"{results[f'{part}_seconds']:.0f} s", flush=True)
            (out / "data.json").write_text(json.dumps(results, indent=1))


# --- packing --------------------------------------------------------------------------------------------------------------


def write_files(folder: str, first: int, count: int, size: int) -> None:
    """Files in classes of a thousand, or of a tenth of them."""
    block = os.urandom(2 * size)
    for number in range(first, first + count):
        if number % 1000 == 0 or number == first:
            os.makedirs(f"{folder}/c{number // 1000:04d}", exist_ok=True)
        with open(f"{folder}/c{number // 1000:04d}/{number:07d}.jpg", "wb") as file:
            file.write(number.to_bytes(8, "little") + block[number % size : number % size + size])


def make(folder: Path, count: int, size: int) -> Path:
    """Write files with all cores."""
    step = max(1000, count // 32 // 1000 * 1000)
    with ProcessPoolExecutor() as pool:
        jobs = [
            pool.submit(write_files, str(folder), first, min(step, count - first), size)
            for first in range(0, count, step)
        ]
        for job in jobs:
            job.result()
    return folder


def forget(names: list[str]) -> None:
    """Drop them from the page cache."""
    for name in names:
        file = os.open(name, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def read_all(names: list[str], threads: int) -> float:
    """Seconds to read all files, cold."""
    forget(names)
    begin = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(read_one, names, chunksize=32):
            pass
    return time.perf_counter() - begin


def read_one(name: str) -> int:
    """Read a file with few calls."""
    file = os.open(name, os.O_RDONLY)
    size = len(os.read(file, 1 << 20))
    os.close(file)
    return size


def pack(source: Path, out: Path, names: list[str]) -> tuple[float, int]:
    """Seconds, and MiB of memory, that packing takes; cold if there are names."""
    shutil.rmtree(out, ignore_errors=True)
    forget(names)
    request = json.dumps({"path": str(source), "out": str(out)})
    code = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
    )
    begin = time.perf_counter()
    ran = subprocess.run(
        [sys.executable, "-c", code, sys.executable, str(LAUNCH), "data.pack", request],
        check=True,
        capture_output=True,
        text=True,
    )
    return time.perf_counter() - begin, int(ran.stdout)


def packing(folder: Path, count: int) -> dict[str, Any]:
    """Packing beside reading, in turn, with a cold cache."""
    source = make(folder / "files", SMALL, 40_000)
    os.sync()
    names = sorted(str(path) for path in source.rglob("*.jpg"))
    rounds = [
        [*(read_all(names, threads) for threads in (1, 8, 16)), *pack(source, folder / "out", names)]
        for _ in range(count)
    ]
    read_all(names, 8)
    warm = [pack(source, folder / "out", []) for _ in range(2)]
    columns = ("read_1", "read_8", "read_16", "pack", "memory_mib")
    medians = {column: statistics.median(row[place] for row in rounds) for place, column in enumerate(columns)}
    return {"bytes": SMALL * 40_008, "medians": medians, "rounds": rounds, "pack_warm": warm}


def million(folder: Path, count: int) -> dict[str, Any]:
    """A million small files, listed and packed."""
    begin = time.perf_counter()
    source = make(folder / "million", count, 1000)
    made = time.perf_counter() - begin
    seconds, memory = pack(source, folder / "packed", [])
    manifest = json.loads((folder / "packed" / "dataset.json").read_text())
    return {"samples": manifest["samples"], "made": made, "pack": seconds, "memory_mib": memory}


# --- a GPU that is fed ----------------------------------------------------------------------------------------------------


def feeding(folder: Path) -> str:
    """Images per second that arrive on the GPU: files by ImageFolder, packed by ownlab, with as many workers."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "data_feeding.py"), str(folder / "images"), str(IMAGES)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    return ran.stdout + ran.stderr[-2000:]


# --- kills ----------------------------------------------------------------------------------------------------------------


def killing(deadline: float) -> dict[str, Any]:
    """200 runs of each command, killed at random moments; as many as there is time for."""
    tally: dict[str, Any] = {subject: {"runs": 0, "kills": 0, "faults": []} for subject in kills.SUBJECTS}
    jobs = [(subject, seed) for seed in range(1, 201) for subject in kills.SUBJECTS]
    with ProcessPoolExecutor() as pool:
        pending = [pool.submit(one, subject, seed, deadline) for subject, seed in jobs]
        for job in pending:
            outcome = job.result()
            if outcome is not None:
                subject, seed, count, faults = outcome
                tally[subject]["runs"] += 1
                tally[subject]["kills"] += count
                tally[subject]["faults"] += [[seed, *faults]] if faults else []
    return tally


def one(subject: str, seed: int, deadline: float) -> tuple[str, int, int, list[str]] | None:
    """One run; None if it is too late to begin one."""
    if time.monotonic() > deadline:
        return None
    try:
        outcome = kills.run(subject, seed)
    except Exception:  # noqa: BLE001  # it is a fault of this run
        return subject, seed, 0, [traceback.format_exc()]
    return subject, seed, outcome.kills, outcome.faults


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    main()

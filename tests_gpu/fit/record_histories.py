"""Records what a card allocates in the steps of a file: `record_histories.py MODULE OUT.json.gz [--only NAME…] [--beside N]`.

MODULE has CONFIGURATIONS, the settings of each step by the name of the function that builds it (unseen, practice). The answer has
for each the events of torch's allocator from the first weight on, in the form of a trace (names, bytes that were requested, -1 for
a free), and the peaks that its counters showed. Needs torch and ownlab's sources on the path. Each step runs in a process of its own.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
SECONDS = 150.0  # for one step


def record(module: str, name: str) -> dict[str, Any]:
    """Run one step on the card in this process."""
    import torch

    from ownlab_guest.fit import measure, model_loader, peak_memory
    from ownlab_guest.fit.request import parse_request

    settings = importlib.import_module(module).CONFIGURATIONS[name]
    request = parse_request({"target": f"{FOLDER / module}.py:{name}", **settings})
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high" if request.precision == "tf32" else "highest")
    built = model_loader.build(request)
    how = measure.Settings(seconds=0, parts=False)
    started = measure._start("cuda:0", how)
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=5_000_000)
    phases = peak_memory.Phases(peak_memory.cuda_counters("cuda:0"))
    run = measure.Run(request, how, "cuda:0", phases)
    with phases.track():
        run.prepare(built)
        run.steps()
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    memory = run.answer(started)["memory"]
    about = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    return {**about, "memory": memory, "events": events_of(trace)}


def events_of(trace: list[dict[str, Any]]) -> list[list[int]]:
    """Return allocations and frees in order: the number of a block and its bytes, or -1."""
    events: list[list[int]] = []
    names: dict[int, int] = {}
    allocations = 0
    for entry in trace:
        if entry["action"] == "alloc":
            names[entry["addr"]] = allocations
            events.append([allocations, entry["size"]])
            allocations += 1
        elif entry["action"] == "free_requested" and entry["addr"] in names:
            events.append([names.pop(entry["addr"]), -1])
    return events


def main() -> int:
    """Record all steps beside each other, and write each as soon as it is there."""
    parser = argparse.ArgumentParser(description="Record what a card allocates in the steps of a file.")
    parser.add_argument("module")
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--beside", type=int, default=8, help="processes at once")
    parser.add_argument("--seconds", type=float, default=200.0, help="start no step after these")
    parser.add_argument("--one", action="store_true", help="record one step in this process")
    asked = parser.parse_args()
    sys.path.insert(0, str(FOLDER))
    if asked.one:
        asked.out.write_text(json.dumps(record(asked.module, asked.only[0])))
        return 0
    names = asked.only or list(importlib.import_module(asked.module).CONFIGURATIONS)
    end = time.monotonic() + asked.seconds
    rows: dict[str, dict[str, Any]] = {}

    def recorded(name: str) -> None:
        if time.monotonic() > end:
            rows[name] = {"failed": "no time was left"}
            return
        rows[name] = in_own_process(asked.module, name, asked.out.with_name(f".{asked.module}-{name}.json"))
        asked.out.write_bytes(gzip.compress(json.dumps(dict(rows), separators=(",", ":")).encode(), mtime=0))

    with ThreadPoolExecutor(asked.beside) as pool:
        list(pool.map(recorded, names))
    asked.out.write_bytes(gzip.compress(json.dumps(rows, separators=(",", ":")).encode(), mtime=0))
    for name in names:
        memory = rows[name].get("memory") or {}
        peaks = [round(memory[key] / 2**20, 1) for key in ("allocated_bytes", "reserved_bytes")] if memory else []
        sys.stdout.write(f"{asked.module}:{name} {peaks or rows[name].get('failed')}\n")
    return 0


def in_own_process(module: str, name: str, out: Path) -> dict[str, Any]:
    """Return what one step took, or why that is not known."""
    command = [sys.executable, __file__, module, str(out), "--only", name, "--one"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished after {SECONDS:.0f} s"}
    if ran.returncode != 0:
        return {"failed": ran.stderr[-1500:]}
    answer: dict[str, Any] = json.loads(out.read_text())
    out.unlink()
    return answer


if __name__ == "__main__":
    sys.exit(main())

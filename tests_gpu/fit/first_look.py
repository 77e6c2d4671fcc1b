"""Predicts the steps of a file before they are measured, and joins both afterwards.

`first_look.py predict MODULE OUT.json` needs no card: with src/ on the path and OWNLAB_TORCH_PYTHON set to a Python with torch.
`first_look.py join PREDICTED.json RECORDED.json.gz OUT.json` takes what record_histories.py recorded on one, and prints both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from ownlab.instruments.fit.guest_client import ask_trace
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Request

FOLDER = Path(__file__).resolve().parent
PYTHON = os.environ.get("OWNLAB_TORCH_PYTHON", sys.executable)
MIB = 1024**2
SECONDS = 400.0  # for one trace
_LIST = "import json, sys; sys.path.insert(0, sys.argv[1]); print(json.dumps(__import__(sys.argv[2]).CONFIGURATIONS))"


def configurations(module: str) -> dict[str, dict[str, Any]]:
    """Return the settings of each step: the module needs torch, which this Python may lack."""
    ran = subprocess.run(
        [PYTHON, "-c", _LIST, str(FOLDER), module], capture_output=True, text=True, check=True, timeout=SECONDS
    )
    found: dict[str, dict[str, Any]] = json.loads(ran.stdout)
    return found


def predicted(module: str, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Predict one step; if that fails, say so."""
    request = Request(target=f"{FOLDER / module}.py:{name}", **settings)
    try:
        fit = predict(ask_trace(request, PYTHON, deadline=SECONDS), request)
    except Exception as exc:  # noqa: BLE001  # it is written down as unanswered
        return {"failed": f"{type(exc).__name__}: {exc}"}
    return {
        "allocated": fit.peak.allocated_bytes,
        "reserved": fit.peak.reserved_bytes,
        "band": [fit.band.reserved_low_bytes, fit.band.reserved_high_bytes],
        "computed": any(guess.startswith("computed with data") for guess in fit.guesses),
        "torch": fit.torch,
    }


def predict_all(module: str, out: Path, workers: int) -> None:
    """Predict all steps of a module."""
    asked = configurations(module)
    with ThreadPoolExecutor(workers) as pool:
        rows = dict(zip(asked, pool.map(lambda name: predicted(module, name, asked[name]), asked), strict=True))
    out.write_text(json.dumps({"when": date.today().isoformat(), "rows": rows}, indent=1) + "\n")
    for name, row in rows.items():
        sizes = (
            [round(size / MIB) for size in (row["allocated"], row["reserved"], *row["band"])] if "band" in row else []
        )
        sys.stdout.write(f"{name} {sizes or row['failed']}\n")


def join(predicted_file: Path, recorded_file: Path, out: Path) -> None:
    """Write predictions and measurements side by side, and print how far they are apart."""
    ours = json.loads(predicted_file.read_text())
    recorded = json.loads(gzip.decompress(recorded_file.read_bytes()))
    rows, about = {}, next(row for row in recorded.values() if "memory" in row)
    for name, row in ours["rows"].items():
        memory = recorded[name].get("memory")
        real = {"allocated": memory["allocated_bytes"], "reserved": memory["reserved_bytes"]} if memory else None
        answered = None if "failed" in row else {key: row[key] for key in ("allocated", "reserved", "band")}
        rows[name] = {"measured": real, "predicted": answered, "computed": row.get("computed", False)}
        sys.stdout.write(f"{name:24} {_compared(real, answered)}\n")
    kept = {key: about[key] for key in ("card", "torch", "cudnn")} | {"when": date.today().isoformat(), "rows": rows}
    out.write_text(json.dumps(kept, indent=1) + "\n")


def _compared(real: dict[str, int] | None, ours: dict[str, Any] | None) -> str:
    if real is None or ours is None:
        return "not measured" if real is None else "not predicted"
    low, high = ours["band"]
    off = [f"{100 * (ours[key] / real[key] - 1):+.2f} %" for key in ("allocated", "reserved")]
    inside = "holds" if low <= real["reserved"] <= high else "MISSES"
    return f"allocated {off[0]}, reserved {off[1]}, band {100 * (high / low - 1):.1f} % wide {inside}"


def main() -> int:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description="Predict steps before they are measured, and compare afterwards.")
    commands = parser.add_subparsers(required=True, dest="command")
    first = commands.add_parser("predict")
    first.add_argument("module")
    first.add_argument("out", type=Path)
    first.add_argument("--workers", type=int, default=2)
    second = commands.add_parser("join")
    for name in ("predicted", "recorded", "out"):
        second.add_argument(name, type=Path)
    asked = parser.parse_args()
    if asked.command == "predict":
        predict_all(asked.module, asked.out, asked.workers)
    else:
        join(asked.predicted, asked.recorded, asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

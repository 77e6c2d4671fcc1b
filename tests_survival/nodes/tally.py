"""Adds up runs on nodes for benchmarks/RESULTS.md: `python -m tests_survival.nodes.tally FILE…` (of `matrix --json`)."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.run import HERE, describe_machine, write_results

__all__: list[str] = []


def add_up(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """How many runs were right or wrong, and what happened to them; a repeated seed counts once, with its last result."""
    outcomes: dict[int, bool] = {}
    faults: Counter[str] = Counter()
    for record in records:
        outcomes |= {each["seed"]: not each["faults"] for each in record["outcomes"]}
        faults.update({**record["happened"], "server": record["servers"]})
    right = sum(outcomes.values())
    return {"right": right, "wrong": len(outcomes) - right, "faults": dict(sorted(faults.items()))}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--note", default="", help="what to know about these runs")
    given = parser.parse_args()
    about = {"date": date.today().isoformat(), "machine": describe_machine(), "note": given.note}
    file = HERE / "survival.json"
    kept = json.loads(file.read_text(encoding="utf-8"))
    kept["nodes"] = {**about, **add_up(json.loads(path.read_text(encoding="utf-8")) for path in given.files)}
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    write_results()


if __name__ == "__main__":
    main()

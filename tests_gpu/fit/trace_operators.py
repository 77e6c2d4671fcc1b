"""Traces the single operations of operators.py: `trace_operators.py OUT.json [NAME…]`, with a torch of any kind and the sources on the path."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch


def traced(name: str) -> dict[str, Any]:
    """Trace the two steps of a case; return the events of the second, and the most that is held in it."""
    from operators import CASES, Called, loss

    from ownlab_guest.fit import trace
    from ownlab_guest.fit.request import parse_request
    from ownlab_guest.fit.training_step import Built

    case = CASES[name]()
    settings = {"target": f"operators:{name}", "optimizer": "sgd", "steps": 2}
    if case.autocast:
        settings["precision"] = {"bfloat16": "amp-bf16", "float16": "amp-fp16"}[case.autocast]
    answer = trace.trace_step(
        parse_request(settings), lambda _: Built(Called(CASES[name]()), (torch.zeros(1),), loss), guess=False
    )
    events = answer["events"]
    first, last = answer["marks"]
    rows = list(zip(events["name"], events["bytes"], events["tag"], strict=True))
    tags = [f"{tag['phase'][0]}:{tag['op']}:{tag['kind']}" for tag in answer["tags"]]
    held: dict[int, int] = {}
    for number, size, _ in rows[:first]:
        if size < 0:
            held.pop(number, None)
        else:
            held[number] = size
    return {
        "before": sum(held.values()),
        "events": [[number, size, tags[tag]] for number, size, tag in rows[first:last] if tags[tag][0] != "o"],
    }


def _traced_or_failed(name: str) -> dict[str, Any]:
    try:
        return traced(name)
    except Exception as exc:  # noqa: BLE001  # the others are asked for
        return {"failed": f"{type(exc).__name__}: {exc}"[:300]}


def main(out: Path, names: list[str]) -> int:
    """Trace all cases, or those that are named."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from operators import CASES

    rows: dict[str, Any] = {}
    for name in names or CASES:
        rows[name] = _traced_or_failed(name)
    out.write_text(json.dumps(rows, separators=(",", ":")))
    sys.stdout.write(
        f"{len(rows)} traced; " + str({name: row["failed"] for name, row in rows.items() if "failed" in row}) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

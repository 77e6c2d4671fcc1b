"""One line of the results: a pair that was measured in turn."""

from __future__ import annotations

import statistics
from typing import Any


def row(name: str, pairs: list[tuple[float, float]], limit: str, unit: str = "s") -> dict[str, Any]:
    """One pair (ours, theirs), as run.py keeps it."""
    made: dict[str, Any] = {"name": name, "limit": limit, "rounds": len(pairs), "unit": unit}
    for number, side in enumerate(("ours", "theirs")):
        values = [pair[number] for pair in pairs]
        made |= {side: statistics.median(values), f"{side}_low": min(values), f"{side}_high": max(values)}
    print(f"{name}: {made['ours']:.3f} / {made['theirs']:.3f} {unit} = {made['ours'] / made['theirs']:.2f}", flush=True)
    return made

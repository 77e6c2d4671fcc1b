"""`ownlab bench` beside other clocks on the same card, in one process: Triton's for a product, a copy timed by hand.

Needs a card, and a Python with torch and triton.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.rows import row

BESIDE = Path(__file__).resolve().parents[1] / "tests_gpu/beside.py"


def clocks_rows(rounds: int) -> list[dict[str, Any]]:
    """It has rounds of its own: five. Nothing where there is no card."""
    ran = subprocess.run([sys.executable, str(BESIDE)], capture_output=True, text=True, check=False)
    if ran.returncode:
        print(f"bench's clocks: {ran.stderr.strip().splitlines()[-1]}")
        return []
    return rows_of(json.loads(ran.stdout))


def rows_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The pairs, in milliseconds."""

    def pairs(what: str) -> list[tuple[float, float]]:
        both = zip(answer[what]["ours"], answer[what]["theirs"], strict=True)
        return [(1000 * ours, 1000 * theirs) for ours, theirs in both]

    return [
        row("bench: bf16 product of 8192³ / `triton.testing.do_bench`", pairs("product"), "within 2 %", "ms"),
        row("bench: copy of 1 GiB on the card / timed by hand", pairs("copy"), "within 3 %", "ms"),
    ]

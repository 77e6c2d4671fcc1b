"""People who edit notebooks under random interruptions, on a real lab: `python -m tests_survival.edits.matrix --runs N`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests_survival.edits.interruptions import make_plan
from tests_survival.edits.run import EditRun
from tests_survival.matrix import Matrix, Outcome, print_outcome

__all__ = ["EditMatrix"]


class EditMatrix(Matrix):
    """One lab for many runs."""

    async def batch(self, seeds: Sequence[int], most: int) -> list[Outcome]:
        """Run several notebooks at once."""
        return await asyncio.gather(*(self._edit(seed, most) for seed in seeds))

    async def _edit(self, seed: int, most: int) -> Outcome:
        began = time.monotonic()
        run = EditRun(self.site, self.lab, seed, make_plan(seed, most), self.strike)
        try:
            faults = await run.go()
        except Exception as failed:  # noqa: BLE001 - one run that breaks is one fault; the others go on
            faults = [*run.faults, "broke: " + "".join(traceback.format_exception(failed))]
        return Outcome(seed, time.monotonic() - began, run.happened, faults)


async def run_all(matrix: EditMatrix, options: argparse.Namespace) -> list[Outcome]:
    """Run batch after batch."""
    seeds = [options.seed + number for number in range(options.runs)]
    outcomes: list[Outcome] = []
    for begin in range(0, len(seeds), options.at_once):
        for outcome in await matrix.batch(seeds[begin : begin + options.at_once], options.interruptions):
            print_outcome(outcome)
            outcomes.append(outcome)
    await matrix.leave()
    return outcomes


def main() -> int:
    """The command line. Return 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next have the next numbers")
    parser.add_argument(
        "--at-once", type=int, default=6, help="notebooks that are edited at the same time on one server"
    )
    parser.add_argument("--interruptions", type=int, default=4, help="most interruptions of one run")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--keep", type=Path, help="a new folder for the lab, which is left there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        matrix = EditMatrix(options.keep or Path(folder) / "lab")
        try:
            matrix.start()
            outcomes = asyncio.run(run_all(matrix, options))
        finally:
            matrix.clear()
    wrong = [outcome.seed for outcome in outcomes if outcome.faults]
    seeds = f": seeds {wrong}" if wrong else ""
    print(f"{len(outcomes)} runs, {len(wrong)} wrong{seeds}; {matrix.strikes} servers killed")
    print("\n".join(matrix.troubles))
    if options.json:
        options.json.write_text(json.dumps([outcome._asdict() for outcome in outcomes], indent=1), encoding="utf-8")
    return 1 if wrong or matrix.troubles else 0


if __name__ == "__main__":
    sys.exit(main())

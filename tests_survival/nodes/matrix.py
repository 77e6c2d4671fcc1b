"""Notebooks on nodes of a real cluster under random faults: `python -m tests_survival.nodes.matrix --runs N` (needs root and Slurm).

Five of six runs survive what happens, and must show the same as an undisturbed run on this machine. Every sixth loses its node or its
job, and must show what was written.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests_survival.interruptions import plan
from tests_survival.matrix import Outcome, print_outcome
from tests_survival.nodes.cluster_lab import ClusterLab
from tests_survival.nodes.ends import plan_end, run_ends
from tests_survival.nodes.run import KINDS, NodeRun, Start
from tests_survival.runs import Reference
from tests_survival.scripts import make_script

__all__ = ["NodeMatrix"]

BATCHES = 6  # the last of so many is ended


class NodeMatrix(ClusterLab):
    """The runs of one cluster."""

    async def batch(self, seeds: Sequence[int], most: int) -> list[Outcome]:
        """Run several notebooks at once: first all undisturbed on this machine, then all on nodes."""
        expected = await asyncio.gather(*(self.expected(make_script(seed)) for seed in seeds))
        start = Start(len(seeds))
        return await asyncio.gather(
            *(self._on_node(seed, most, undisturbed, start) for seed, undisturbed in zip(seeds, expected, strict=True))
        )

    async def _on_node(self, seed: int, most: int, expected: Reference, start: Start) -> Outcome:
        began = time.monotonic()
        run = NodeRun(self, make_script(seed), f"node-{seed}.ipynb", start)
        try:
            faults = await run.go(expected, plan(seed, most, kinds=KINDS))
        except Exception as failed:  # noqa: BLE001 - one run that breaks is one fault; the others go on
            faults = [*run.faults, "broke: " + "".join(traceback.format_exception(failed))]
        return Outcome(seed, time.monotonic() - began, run.happened, faults)

    async def ended(self, seeds: Sequence[int]) -> list[Outcome]:
        """Run several notebooks at once, and end them all."""
        began, end = time.monotonic(), plan_end(seeds[0])
        happened = [f"{end.kind} after {end.after:.1f} s" + (", nobody listens" if end.absent else "")]
        try:
            runs = await run_ends(self, list(seeds), end)
        except Exception as failed:  # noqa: BLE001 - as above
            broke = "broke: " + "".join(traceback.format_exception(failed))
            return [Outcome(seed, time.monotonic() - began, happened, [broke]) for seed in seeds]
        return [Outcome(run.seed, time.monotonic() - began, happened, run.faults) for run in runs]


async def run_all(matrix: NodeMatrix, options: argparse.Namespace) -> list[Outcome]:
    """Run batch after batch."""
    seeds = [options.seed + number for number in range(options.runs)]
    outcomes: list[Outcome] = []
    for begin in range(0, len(seeds), options.at_once):
        some = seeds[begin : begin + options.at_once]
        is_ended = (some[0] // options.at_once) % BATCHES == BATCHES - 1
        batch = await (matrix.ended(some) if is_ended else matrix.batch(some, options.interruptions))
        for outcome in batch:
            print_outcome(outcome)
            if not outcome.faults:
                print("  " + "; ".join(outcome.happened), flush=True)
        outcomes += batch
    await matrix.leave()
    return outcomes


def main() -> int:
    """The command line. Return 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next have the next numbers")
    parser.add_argument("--at-once", type=int, default=4, help="notebooks that run at the same time on one server")
    parser.add_argument("--interruptions", type=int, default=4, help="most interruptions of one run")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--cache", type=Path, help="a folder for the results of undisturbed runs")
    parser.add_argument("--keep", type=Path, help="a new folder for the lab, which is left there")
    options = parser.parse_args()
    if options.cache:
        options.cache.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the cluster is stopped before
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        matrix = NodeMatrix(options.keep or Path(folder) / "lab", options.cache)
        try:
            outcomes = asyncio.run(run_all(matrix.start(), options))
        finally:
            matrix.clear()
    wrong = [outcome.seed for outcome in outcomes if outcome.faults]
    print(
        f"{len(outcomes)} runs, {len(wrong)} wrong{': seeds ' + str(wrong) if wrong else ''}; {matrix.strikes} servers killed"
    )
    print(f"faults of the cluster: {dict(matrix.happened)}")
    print("\n".join(matrix.troubles))
    if options.json:
        record = {"outcomes": [outcome._asdict() for outcome in outcomes], "happened": dict(matrix.happened)}
        options.json.write_text(json.dumps({**record, "servers": matrix.strikes}, indent=1), encoding="utf-8")
    return 1 if wrong or matrix.troubles else 0


if __name__ == "__main__":
    sys.exit(main())

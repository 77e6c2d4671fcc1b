"""Random notebooks under random interruptions, on a real lab: every difference from an uninterrupted run is printed.

`python -m tests_survival.matrix --runs 1 --seed S` repeats one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.lab.server.conftest import LabServer, environ_for
from tests_survival.compare import differences, unlike
from tests_survival.interruptions import plan
from tests_survival.page import Site
from tests_survival.runs import Reference, Run, reference
from tests_survival.scripts import Script, make_script

__all__ = ["Matrix", "Outcome"]


class Outcome(NamedTuple):
    """One run: what happened to it, and what was wrong in the end."""

    seed: int
    seconds: float
    happened: list[str]
    faults: list[str]


class Matrix:
    """One lab for many runs."""

    def __init__(self, root: Path, cache: Path | None = None) -> None:
        (root / "work").mkdir(parents=True)
        self.lab = LabServer(root / "work", environ_for(root))
        self.site = Site(self.lab.url, self.lab.token)
        self.cache = cache
        self.strikes = 0
        self.troubles: list[str] = []
        self._striking = asyncio.Lock()

    def start(self) -> Matrix:
        self.lab.start()
        return self

    def clear(self) -> None:
        self.lab.clear()

    async def strike(self, signum: int, seconds: float) -> None:
        """Stop the server and start another one. Concurrent callers share one restart."""
        before = self.strikes
        async with self._striking:
            if self.strikes != before:
                return
            self.site.ending = True
            try:
                await asyncio.to_thread(self.lab.end, signum)
            except subprocess.TimeoutExpired:
                self.troubles.append(f"signal {signum} did not end the server")
                await asyncio.to_thread(self.lab.end, signal.SIGKILL)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.lab.start)
            self.site.ending = False
            self.strikes += 1

    async def expected(self, script: Script) -> Reference:
        """The result of an uninterrupted run of this script; cached by seed if there is a cache."""
        kept = self.cache / f"{script.seed}-{zlib.crc32(repr(script).encode()):x}.json" if self.cache else None
        if kept is not None and kept.exists():
            return Reference(*json.loads(kept.read_text(encoding="utf-8")))
        expected = await reference(self.site, self.lab.folder, script, f"plain-{script.seed}.ipynb")
        if kept is not None:
            kept.write_text(json.dumps(expected), encoding="utf-8")
        return expected

    async def leave(self) -> None:
        """Close all connections to the server, before the event loop ends."""
        await self.site.client.aclose()

    async def batch(self, seeds: Sequence[int], most: int) -> list[Outcome]:
        """Run several notebooks at once: first all undisturbed, then all with interruptions."""
        expected = await asyncio.gather(*(self.expected(make_script(seed)) for seed in seeds))
        return await asyncio.gather(
            *(self._run(seed, most, undisturbed) for seed, undisturbed in zip(seeds, expected, strict=True))
        )

    async def _run(self, seed: int, most: int, expected: Reference) -> Outcome:
        began = time.monotonic()
        run = Run(self.site, self.lab.folder, make_script(seed), f"run-{seed}.ipynb", self.strike)
        try:
            faults = await run.go(expected, plan(seed, most))
        except Exception as failed:  # noqa: BLE001 - one run that breaks is one fault; the others go on
            faults = [*run.faults, "broke: " + "".join(traceback.format_exception(failed))]
        return Outcome(seed, time.monotonic() - began, run.happened, faults)

    async def steady(self, seeds: Sequence[int]) -> list[Outcome]:
        """Check that scripts show the same twice: a difference would be a fault of the script."""
        outcomes = []
        for seed in seeds:
            script = make_script(seed)
            first, second = [await reference(self.site, self.lab.folder, script, f"{n}-{seed}.ipynb") for n in "ab"]
            wrong = [*differences(first.cells, second.cells), *unlike(first.widgets, second.widgets)]
            outcomes.append(Outcome(seed, first.seconds, [], wrong))
        return outcomes


def print_outcome(outcome: Outcome) -> None:
    """Print one line for a successful run, everything for a failed one."""
    print(f"seed {outcome.seed}: {'wrong' if outcome.faults else 'right'}, {outcome.seconds:.1f} s", flush=True)
    if outcome.faults:
        print("  " + "; ".join(outcome.happened))
        for fault in outcome.faults:
            print("  - " + fault.replace("\n", "\n    "), flush=True)


async def run_all(matrix: Matrix, options: argparse.Namespace) -> list[Outcome]:
    """Run batch after batch."""
    seeds = [options.seed + number for number in range(options.runs)]
    outcomes: list[Outcome] = []
    for begin in range(0, len(seeds), options.at_once):
        some = seeds[begin : begin + options.at_once]
        batch = await (matrix.steady(some) if options.steady else matrix.batch(some, options.interruptions))
        for outcome in batch:
            print_outcome(outcome)
        outcomes += batch
    await matrix.leave()
    return outcomes


def main() -> int:
    """The command line. Return 1 if something differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next have the next numbers")
    parser.add_argument("--at-once", type=int, default=6, help="notebooks that run at the same time on one server")
    parser.add_argument("--interruptions", type=int, default=5, help="most interruptions of one run")
    parser.add_argument("--steady", action="store_true", help="only see whether the scripts show the same twice")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--cache", type=Path, help="a folder for the results of uninterrupted runs")
    parser.add_argument("--keep", type=Path, help="a new folder for the lab, which is left there")
    options = parser.parse_args()
    if options.cache:
        options.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        matrix = Matrix(options.keep or Path(folder) / "lab", options.cache)
        try:
            outcomes = asyncio.run(run_all(matrix.start(), options))
        finally:
            matrix.clear()
    wrong = [outcome.seed for outcome in outcomes if outcome.faults]
    print(
        f"{len(outcomes)} runs, {len(wrong)} wrong{': seeds ' + str(wrong) if wrong else ''}; {matrix.strikes} servers killed"
    )
    print("\n".join(matrix.troubles))
    if options.json:
        options.json.write_text(json.dumps([outcome._asdict() for outcome in outcomes], indent=1), encoding="utf-8")
    return 1 if wrong or matrix.troubles else 0


if __name__ == "__main__":
    sys.exit(main())

"""The matrix of edits in virtual time, in one process: `python -m tests_survival.edits.simulation --runs N`.

A run takes a fraction of a second, and one seed always gives the same run. The matrix itself, with real processes, remains
the measure; this finds what is wrong with merging, and shows it again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from unittest import mock

from tests_survival.edits.document import Typist
from tests_survival.edits.interruptions import make_plan
from tests_survival.edits.page import EditingPage
from tests_survival.edits.run import EditRun
from tests_survival.edits.simulated_lab import SimulatedLab, SimulatedSite, Socket
from tests_survival.edits.virtual_time import VirtualLoop, virtual_clock
from tests_survival.matrix import Outcome, print_outcome
from tornado.websocket import WebSocketClientConnection

__all__ = ["simulate"]


class SimulatedPage(EditingPage):
    """Connects to the lab of this process."""

    lab: SimulatedLab

    async def _connect(self) -> None:
        await asyncio.sleep(self.lab.latency())
        runtime = self.lab.runtimes.get(self.kernel_id)
        if self.lab.server is None or runtime is None or not runtime.alive:
            raise ConnectionRefusedError
        self._socket = Socket(self.lab, runtime, self._received())  # type: ignore[assignment]
        for data in list(self.pending.values()):
            self._socket.write_message(data, binary=True)  # type: ignore[union-attr]

    async def _connect_news(self, address: str) -> WebSocketClientConnection:
        await asyncio.sleep(self.lab.latency())
        if self.lab.server is None:
            raise ConnectionRefusedError
        return Socket(self.lab, None)  # type: ignore[return-value]

    def _ask_for_widgets(self) -> None:
        """There are none."""


class SimulatedRun(EditRun):
    """One run."""

    simulated: SimulatedLab

    def make_page(self, typist: Typist) -> EditingPage:
        page = SimulatedPage(self.site, self.path, self.ledger, typist, typist.chance)
        page.lab = self.simulated
        return page

    async def _kill_process(self, name: str) -> None:
        page = await self._present(self.people[0])
        runtime = self.simulated.runtimes[page.kernel_id]
        self.ledger.deaths.append(time.time())
        self._note_ended(page)
        for execution in self.ledger.executions:
            execution.lost |= not execution.ended
        if name == "kernel":
            runtime.kill_kernel()
        else:
            runtime.end(killed=True)


async def _go(folder: Path, seed: int, most: int, loop: VirtualLoop, *, slow: bool) -> Outcome:
    lab = SimulatedLab(folder, random.Random(f"lab {seed}"), time.time, slow=slow)
    site = SimulatedSite(lab)
    lab.start()
    striking = asyncio.Lock()

    async def strike(signum: int, seconds: float) -> None:
        async with striking:
            site.ending = True
            await lab.end(signum == signal.SIGTERM)
            await asyncio.sleep(seconds + 0.5)
            lab.start()
            site.ending = False

    async def others() -> None:
        """In the matrix, other runs on the same server have their interruptions, too."""
        for _ in range(lab.chance.choice((0, 0, 1, 2))):
            await asyncio.sleep(4 * lab.chance.random())
            await strike(lab.chance.choice((signal.SIGTERM, signal.SIGTERM, signal.SIGKILL)), lab.chance.random())

    striker = asyncio.create_task(others())
    run = SimulatedRun(site, lab, seed, make_plan(seed, most), strike)  # type: ignore[arg-type]
    run.simulated = lab
    try:
        faults = await run.go()
    except Exception as failed:  # noqa: BLE001 - one run that breaks is one fault
        faults = [*run.faults, "broke: " + "".join(traceback.format_exception(failed))]
    striker.cancel()
    await asyncio.gather(striker, return_exceptions=True)
    if lab.server is not None:
        await lab.end(gently=False)
    for runtime in lab.runtimes.values():
        runtime.end()
    return Outcome(seed, loop.time(), run.happened, faults)


def simulate(seed: int, most: int = 4, *, slow: bool = False) -> Outcome:
    """One run. `slow`: on a machine on which answers take seconds."""
    loop = VirtualLoop(random.Random(f"loop {seed}"))
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        folder = Path(name) / "work"
        folder.mkdir()
        home = str(Path(name) / "home")
        try:
            with mock.patch.dict(os.environ, OWNLAB_HOME=home, JUPYTER_DATA_DIR=home), virtual_clock(loop, seed):
                return loop.run_until_complete(_go(folder, seed, most, loop, slow=slow))
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            with contextlib.suppress(Exception):
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.close()


def main() -> int:
    """The command line. Return 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next have the next numbers")
    parser.add_argument("--interruptions", type=int, default=4, help="most interruptions of one run")
    parser.add_argument("--slow", action="store_true", help="answers take seconds, as on a machine with too much to do")
    options = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    wrong = []
    began = time.monotonic()
    for seed in range(options.seed, options.seed + options.runs):
        outcome = simulate(seed, options.interruptions, slow=options.slow)
        if outcome.faults:
            wrong.append(seed)
            print_outcome(outcome)
    print(f"{options.runs} runs in {time.monotonic() - began:.0f} s, {len(wrong)} wrong: seeds {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

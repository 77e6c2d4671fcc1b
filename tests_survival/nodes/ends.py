"""Notebooks whose node loses its power, or whose job is cancelled, while they print: what was written is shown, once, with the reason.

Each cell prints numbered lines, and notes when it has printed each of them. What is in the journal on the shared disk at the moment of
the end, or was printed a while before a job was cancelled, must be in the notebook; nothing twice, nothing out of order.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.lab.engines.slurm.node_namespaces import NodeCluster
from tests.lab.server.conftest import wait_for
from tests_survival.nodes.cluster_lab import NODES, TYPE, ClusterLab
from tests_survival.page import Page

__all__ = ["END_KINDS", "End", "EndRun", "plan_end", "run_ends"]

CELLS, MOST_LINES = 3, 4000  # the last cell prints so many: it still runs at the end
CELL = """
import time
for number in range({lines}):
    print("{word}", number, flush=True)
    with open("{ledger}", "a") as ledger: ledger.write(f"{{time.time()}} {word} {{number}}\\n")
    time.sleep({nap})
"""
END_KINDS = {"power": 3, "down": 2, "cancel": 2, "cut": 1}
REASONS = {
    "power": "a node of its Slurm job has failed",
    "down": "a node of its Slurm job has failed",
    "cut": "a node of its Slurm job has failed",
    "cancel": "was cancelled, not by ownlab",
}
PATIENCE = 240.0


class End(NamedTuple):
    """How a batch of notebooks ends."""

    kind: str  # "power": the node is switched off, and on again; "down": off, and the administrators say so; "cut": before, its
    # cable was pulled; "cancel": scancel
    absent: bool  # the server and all relays were killed before, and come back after it
    after: float  # seconds after the last notebook has printed its first line


def plan_end(seed: int) -> End:
    """The end of a batch."""
    chance = random.Random(f"end {seed}")
    kind = chance.choices(list(END_KINDS), list(END_KINDS.values()))[0]
    return End(kind, kind != "cut" and chance.random() < 0.4, 3 * chance.random())


class EndRun:
    """One notebook that is ended."""

    def __init__(self, lab: ClusterLab, seed: int) -> None:
        self.lab, self.seed, self.path = lab, seed, f"end-{seed}.ipynb"
        self.ledger = lab.lab.folder / f"end-{seed}.txt"
        self.page: Page | None = None
        self.kernel, self.faults = "", []  # type: str, list[str]
        self.written: set[str] = set()  # lines that were in the journal of the node when it ended

    @property
    def words(self) -> list[str]:
        """What the cells print before the number of a line; no other text has it."""
        return [f"line-{self.seed}-{cell}" for cell in "abc"[:CELLS]]

    async def begin(self) -> None:
        """Run all cells, and wait for the first line."""
        chance = random.Random(f"naps {self.seed}")
        numbers = (*(chance.randint(5, 100) for _ in self.words[1:]), MOST_LINES)
        cells: list[dict[str, Any]] = [
            {
                "cell_type": "code", "id": f"cell-{number}", "metadata": {}, "execution_count": None, "outputs": [],
                "source": CELL.format(word=word, lines=lines, ledger=self.ledger.name, nap=chance.choice((0.005, 0.02, 0.05))),
            }
            for number, (word, lines) in enumerate(zip(self.words, numbers, strict=True))
        ]  # fmt: skip
        metadata = {"kernelspec": {"name": TYPE, "display_name": TYPE, "language": "python"}}
        notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
        (self.lab.lab.folder / self.path).write_text(json.dumps(notebook))
        self.page = await Page(self.lab.site, self.path).open()
        self.kernel = self.page.kernel_id
        await asyncio.wait_for(self.page.widgets(), PATIENCE)
        for cell in cells:
            self.page.run(cell["id"], timed=False)
        await self._until(self.ledger.exists, "the first line")

    def journal(self) -> bytes:
        """What the node has written, on the disk that all machines share."""
        folder = self.lab.lab.home / "runtimes" / self.kernel / "node" / "journal"
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))

    def note_written(self) -> None:
        """Remember which lines are in the journal of the node."""
        self.written = {match.decode() for match in re.findall(rb"line-%d-[abc] \d+" % self.seed, self.journal())}

    def printed_before(self, at: float) -> set[str]:
        """The lines that were printed, and noted, before a moment."""
        entries = [line.split(" ", 1) for line in self.ledger.read_text().splitlines()]
        return {entry[1] for entry in entries if len(entry) == 2 and float(entry[0]) < at}

    async def check(self, reason: str, required: set[str], *, has_page: bool) -> None:
        """Compare the notebook with what must be in it. Without `has_page` its kernel was gone when the server came back."""
        assert self.page is not None
        with contextlib.suppress(TimeoutError):
            await self._until(lambda: self._note() is not None, "the cell says why", fatal=False)
        note = self._note()
        if note is None or reason not in note:
            self.faults.append(f"the file says {note!r} instead of {reason!r}")
        self._compare(self._file(), required, "on disk")
        opened = (await self.lab.site.ask("GET", f"/api/contents/{self.path}?type=notebook&content=1")).json()[
            "content"
        ]
        self._compare(opened, required, "by GET")
        if has_page:
            self._compare(self.page.as_notebook(), required, "in the page")
        await self.page.close()
        self.faults += self.page.faults
        home = self.lab.lab.home / "runtimes" / self.kernel
        await self._until(lambda: not home.exists(), "its folder is gone", fatal=False)

    def _compare(self, notebook: dict[str, Any], required: set[str], where: str) -> None:
        shown_all: set[str] = set()
        for cell, word in zip(notebook["cells"], self.words, strict=True):
            shown = [line for line in _printed(cell).splitlines() if line.strip()]
            expected = [f"{word} {number}" for number in range(len(shown))]
            if shown != expected:
                self.faults.append(f"{where}, {cell['id']}: not the first lines: {shown[-3:]} of {len(shown)}")
            shown_all |= set(shown)
        if missing := required - shown_all:
            self.faults.append(f"{where}: {len(missing)} lines are missing: {sorted(missing)[:5]}")

    def _file(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.lab.lab.folder / self.path).read_text())
        return content

    def _note(self) -> str | None:
        """What the file says of the end of its kernel."""
        errors = [
            str(output.get("evalue"))
            for cell in self._file()["cells"]
            for output in cell["outputs"]
            if output["output_type"] == "error"
        ]
        return errors[0] if errors else None

    async def _until(self, condition: Any, what: str, *, fatal: bool = True) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                if fatal:
                    raise TimeoutError(what)
                self.faults.append(f"not within {PATIENCE:g} s: {what}")
                return
            await asyncio.sleep(0.1)


def _printed(cell: dict[str, Any]) -> str:
    texts = [output["text"] for output in cell["outputs"] if output["output_type"] == "stream"]
    return "".join(text if isinstance(text, str) else "".join(text) for text in texts)


async def run_ends(lab: ClusterLab, seeds: list[int], end: End) -> list[EndRun]:
    """Run some notebooks at once, and end them all in the same way."""
    runs = [EndRun(lab, seed) for seed in seeds]
    await asyncio.gather(*(run.begin() for run in runs))
    await asyncio.sleep(end.after)
    jobs = lab.cluster.ask("squeue", "-h", "-o", "%i").split()
    if end.absent:
        for run in runs:
            lab.kill_relay(run.kernel, keeper=True)
        lab.lab.end(signal.SIGKILL)
        lab.site.ending = True
        await asyncio.sleep(1.0)
    at = time.time()
    lab.happened[end.kind] += 1
    await _end(lab, end, jobs, runs)
    if end.absent:
        await asyncio.to_thread(lab.lab.start)
        lab.site.ending = False
    for run in runs:
        required = run.printed_before(at - 0.5) if end.kind == "cancel" else run.written
        await run.check(REASONS[end.kind], required, has_page=not end.absent)
    await lab.until_idle()
    return runs


async def _end(lab: ClusterLab, end: End, jobs: list[str], runs: list[EndRun]) -> None:
    cluster = lab.cluster
    if end.kind == "cancel":
        await asyncio.to_thread(cluster.ask, "scancel", *jobs)
        if end.absent:
            folders = [lab.lab.home / "runtimes" / run.kernel / "node" / "end.json" for run in runs]
            await asyncio.to_thread(wait_for, lambda: all(map(Path.exists, folders)), "the jobs have ended")
        return
    with contextlib.ExitStack() as cables:
        if end.kind == "cut":
            for node in NODES:
                cables.enter_context(cluster.cut_network(node))
            await asyncio.sleep(1.0)  # what is printed now is only on the node
        for node in NODES:
            cluster.cut_power(node)
        for run in runs:
            run.note_written()
    if end.kind == "down":
        cluster.ask("scontrol", "update", "NodeName=n[1-2]", "State=DOWN", "Reason=power")
    for node in NODES:
        await asyncio.to_thread(cluster.start_node, node)
    if end.kind == "down":
        cluster.ask("scontrol", "update", "NodeName=n[1-2]", "State=RESUME")
    else:
        await asyncio.to_thread(wait_for, lambda: _has_noticed(cluster), "Slurm knows that the jobs are gone")


def _has_noticed(cluster: NodeCluster) -> bool:
    """Whether the controller misses the jobs of nodes that are back. It looks when a node registers, as on this command and every
    ten minutes, and not before a job is 20 s old; nodes that are real take longer to start.
    """
    cluster.ask("scontrol", "reconfigure")
    time.sleep(1.0)  # not more often than that
    return not cluster.ask("squeue", "-h", "-t", "RUNNING", "-o", "%i").split()

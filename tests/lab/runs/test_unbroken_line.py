"""The journal line of a run on a node, when the relay of the node is replaced by another one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.lab.server.journal_maker import JournalMaker
from tests.lab.transport.listening_relay import PATIENCE, Relay, message, until

from ownlab.lab.journal.reader import records_after
from ownlab.lab.journal.records import Record
from ownlab.lab.runs.unbroken_line import UnbrokenLine
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.transport.endpoints import unix_endpoint
from ownlab.lab.transport.journal_client import Hello, JournalMessage


class Run:
    """A run that follows a runtime, whose journal the test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.heard = folder, list[JournalMessage]()
        self.journal = JournalMaker(folder, folder / "train.ipynb")
        self.cell = self.journal.request("first")
        self.first = Relay(folder, self.journal.position)
        plan = Plan(
            runtime=self.journal.runtime, home=str(folder), sockets=str(folder), store="", type="", label="", argv=[], cwd="/",
            connection={}, lab="", host=os.uname().nodename, journal=str(self.journal.folder), detached=False,
            journal_url=unix_endpoint(str(folder), "line").url,
        )  # fmt: skip
        self.line = UnbrokenLine(plan, self.heard.append)

    def records(self) -> list[int]:
        return [each.number for each in self.heard if isinstance(each, Record)]


def test_what_was_recorded_while_nobody_listened_is_passed_on_once_and_in_order(tmp_path: Path) -> None:
    async def follow() -> None:
        run = Run(tmp_path)
        await until(lambda: run.heard, run.first)
        begun = run.journal.position
        run.first.kill()
        run.journal.print(run.cell, "missed")
        run.journal.print(run.cell, "missed, too")
        second = Relay(tmp_path, run.journal.position)
        await until(lambda: len(run.heard) == 4, second)
        assert run.records() == [begun + 1, begun + 2]
        assert isinstance(run.heard[-1], Hello), "it says what comes after them"
        run.journal.print(run.cell, "live")
        second.server.publish(records_after(run.journal.folder, begun))  # some are there already
        await until(lambda: len(run.heard) == 5, second)
        assert run.records() == [begun + 1, begun + 2, begun + 3]
        run.journal.print(run.cell, "last")
        run.line.read_rest()
        assert run.records()[-1] == begun + 4
        run.line.close()
        second.kill()

    asyncio.run(follow())


def test_what_the_killed_one_has_not_recorded_is_sent_to_the_next(tmp_path: Path) -> None:
    async def follow() -> None:
        run = Run(tmp_path)
        await until(lambda: run.heard, run.first)
        run.line.send("shell", message("recorded"))
        await until(lambda: run.first.taken, run.first)
        request = Record(run.journal.position + 1, "shell", True, 1.0, tuple(message("recorded")))
        run.first.position = request.number
        run.first.server.publish([request])
        await until(lambda: run.records(), run.first)
        run.line.send("shell", message("lost"))
        await asyncio.to_thread(run.first.server.socket.poll, int(PATIENCE * 1000))  # it has arrived, and is never read
        run.first.kill()
        second = Relay(tmp_path, request.number)
        await until(lambda: second.taken, second)
        run.line.close()
        second.kill()
        assert second.taken == ["lost"]

    asyncio.run(follow())

"""One notebook that one or two people edit and run, with interruptions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import nbformat
from tests.lab.server.conftest import LabServer
from tests_survival.edits.document import Tokens, Typist, code_cell, make_notebook, tokens
from tests_survival.edits.interruptions import Interruption, Plan
from tests_survival.edits.ledger import PROGRAM, Change, Ledger, View, view_of
from tests_survival.edits.oracle import judge
from tests_survival.edits.page import EditingPage
from tests_survival.page import Site

__all__ = ["EditRun"]

TYPE = "ownlab-cpu"
PATIENCE = 180.0
LATE = 5.0  # for runs after a kernel was killed
Strike = Callable[[int, float], Awaitable[None]]


class Person:
    """Somebody with a page, most of the time."""

    def __init__(self, number: int, typist: Typist) -> None:
        self.number, self.typist = number, typist
        self.page: EditingPage | None = None


class EditRun:
    """One notebook. `strike` kills the server with a signal and starts another."""

    def __init__(self, site: Site, lab: LabServer, seed: int, plan: Plan, strike: Strike) -> None:
        self.site, self.lab, self.plan, self._strike = site, lab, plan, strike
        self.path = f"edits-{seed}.ipynb"
        self.file = lab.folder / self.path
        self.chance = random.Random(f"run {seed}")
        self.new = Tokens()
        self.faults: list[str] = []
        self.happened: list[str] = []
        self._done = 0
        self._began = time.monotonic()
        notebook = make_notebook(self.new, self.chance, TYPE)
        self.file.write_text(json.dumps(notebook, indent=1), encoding="utf-8")
        self.ledger = Ledger(view_of(notebook["cells"]))
        self.people = [
            Person(number, Typist(self.new, random.Random(f"person {number} of {seed}")))
            for number in range(plan.people)
        ]

    async def go(self) -> list[str]:
        """Everything that is wrong in the end."""
        await asyncio.gather(*(self._come(person) for person in self.people))
        tasks = [
            asyncio.create_task(self._interrupt()),
            *(asyncio.create_task(self._work(each)) for each in self.people),
        ]
        try:
            await asyncio.wait_for(asyncio.gather(*tasks), 2 * PATIENCE)
            await asyncio.wait_for(self._check(), 3 * PATIENCE)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for person in self.people:
                await self._leave(person)
            await self._end_sessions()
        return self.faults

    def note(self, what: str) -> None:
        self.happened.append(f"{time.monotonic() - self._began:.2f} s {what}")

    # --- people --------------------------------------------------------------------------------------------------------

    async def _work(self, person: Person) -> None:
        chance = person.typist.chance
        for _ in range(self.plan.actions):
            page = await self._present(person)
            luck = chance.random()
            if luck < 0.2 and self.plan.executes:
                code = [cell for cell in page.cells if cell["cell_type"] == "code"]
                if code:
                    cell = chance.choice(code)
                    self.note(f"{person.number} runs {cell['id']}")
                    await page.execute(cell)
            elif luck < 0.24:
                self.note(f"{person.number} saves")
                await page.write()
            else:
                self.note(f"{person.number}: {page.act()}")
            self._done += 1
            await asyncio.sleep(chance.choice((0.0, 0.05, 0.4)) * chance.random())

    async def _present(self, person: Person) -> EditingPage:
        while person.page is None:
            await asyncio.sleep(0.05)
        return person.page

    async def _come(self, person: Person) -> None:
        page = self.make_page(person.typist)
        await (page.open() if self.plan.executes else page.open_without_kernel())
        person.page = page

    def make_page(self, typist: Typist) -> EditingPage:
        """A page that is not open yet."""
        return EditingPage(self.site, self.path, self.ledger, typist, typist.chance)

    async def _leave(self, person: Person) -> None:
        page, person.page = person.page, None
        if page is not None:
            self._note_ended(page)
            self.faults += page.faults
            await page.close()

    def _note_ended(self, page: EditingPage) -> None:
        for execution in self.ledger.executions:
            future = page.kernel.futures.get(execution.message)
            execution.ended |= future is not None and future.done

    # --- interruptions -------------------------------------------------------------------------------------------------

    async def _interrupt(self) -> None:
        for interruption in self.plan.interruptions:
            while self._done < interruption.moment * self.plan.actions * self.plan.people:
                await asyncio.sleep(0.02)
            self.note(f"{interruption.kind} {interruption.person}")
            await getattr(self, f"_do_{interruption.kind}")(interruption)

    async def _do_close(self, interruption: Interruption) -> None:
        person = self.people[interruption.person]
        await self._leave(person)
        await asyncio.sleep(interruption.seconds)
        await self._come(person)

    async def _do_away(self, interruption: Interruption) -> None:
        for person in self.people:
            await self._leave(person)
        await asyncio.sleep(4 * interruption.seconds)
        for person in self.people:
            await self._come(person)

    async def _do_cut(self, interruption: Interruption) -> None:
        page = await self._present(self.people[interruption.person])
        page.online.clear()
        page.cut()
        await asyncio.sleep(2 * interruption.seconds)
        page.online.set()

    async def _do_kill(self, interruption: Interruption, signum: int = signal.SIGKILL) -> None:
        await self._strike(signum, interruption.seconds)

    async def _do_term(self, interruption: Interruption) -> None:
        await self._do_kill(interruption, signal.SIGTERM)

    async def _do_kernel(self, interruption: Interruption) -> None:
        await self._kill_process("kernel")

    async def _do_supervisor(self, interruption: Interruption) -> None:
        """The runtime is gone: people close the notebook and get a new one."""
        await self._kill_process("supervisor")
        for person in self.people:
            await self._leave(person)
        await self._end_sessions()
        for person in self.people:
            await self._come(person)

    async def _kill_process(self, name: str) -> None:
        page = await self._present(self.people[0])
        process = (self.lab.state(page.kernel_id) or {}).get(name)
        if process is not None:
            self.ledger.deaths.append(time.time())
            for execution in self.ledger.executions:
                self._note_ended(page)
                execution.lost |= not execution.ended
            with contextlib.suppress(ProcessLookupError):
                os.kill(process["pid"], signal.SIGKILL)

    async def _do_program(self, interruption: Interruption) -> None:
        """Another program reads the file, changes it, and writes it if nobody else has written it meanwhile."""
        stamp = self.file.stat().st_mtime_ns
        notebook = json.loads(self.file.read_text(encoding="utf-8"))
        before = view_of(notebook["cells"])
        self._rewrite(notebook["cells"])
        temporary = self.file.with_suffix(".tmp")
        temporary.write_text(json.dumps(notebook, indent=1), encoding="utf-8")
        if self.file.stat().st_mtime_ns != stamp:
            temporary.unlink()
            return
        temporary.replace(self.file)
        self.ledger.changes.append(Change(PROGRAM, 0, {}, before, view_of(notebook["cells"]), {}, version=0, sent=True))

    def _rewrite(self, cells: list[dict[str, Any]]) -> None:
        chance = self.chance
        cell = chance.choice(cells)
        lines = "".join(cell["source"]).split("\n")
        kind = chance.choice(("line", "line", "comment", "cell", "delete", "strip", "move"))
        self.note(f"the program: {kind} {cell['id']}")
        if kind == "line":
            lines.insert(chance.randint(0, len(lines)), self.new.line(0.0))
        elif kind == "comment" and lines[0]:
            lines[0] += self.new.comment()
        elif kind == "cell":
            cells.insert(chance.randint(0, len(cells)), code_cell(self.new.cell(), self.new.line(0.0)))
        elif kind == "delete" and len(cells) > 2:
            cells.remove(cell)
        elif kind == "move":
            cells.remove(cell)
            cells.insert(chance.randint(0, len(cells)), cell)
        elif kind == "strip":
            for each in cells:
                if each["cell_type"] == "code":
                    each["outputs"], each["execution_count"] = [], None
        cell["source"] = "\n".join(lines)

    async def _end_sessions(self) -> None:
        for session in (await self.site.ask("GET", "/api/sessions")).json():
            if session["path"] == self.path:
                with contextlib.suppress(httpx.HTTPStatusError):  # it went by itself
                    await self.site.ask("DELETE", f"/api/sessions/{session['id']}")

    # --- what is there in the end --------------------------------------------------------------------------------------

    async def _check(self) -> None:
        await self._until_ended()
        await self._agreement()
        notebook = await self._get()
        self.faults += judge(self.ledger, notebook, await self._history())
        await self._check_file(view_of(notebook["cells"]))
        for person in self.people:
            await self._leave(person)
        again = await self._get()
        self._compare("a page that was just opened", view_of(notebook["cells"]), view_of(again["cells"]))

    async def _until_ended(self) -> None:
        """Wait for the runs of pages that are open; those of a dead kernel never end."""
        deadline = time.monotonic() + (LATE if self.ledger.deaths else PATIENCE)
        while time.monotonic() < deadline:
            for person in self.people:
                if person.page is not None:
                    self._note_ended(person.page)
            pages = [person.page for person in self.people if person.page is not None]
            followed = {message for page in pages for message in page.kernel.futures}
            left = [each for each in self.ledger.executions if each.message in followed and not each.ended]
            if all(each.lost for each in left):
                return
            await asyncio.sleep(0.1)
        if not self.ledger.deaths:  # what is sent while a kernel starts again may be lost with it
            self.faults.append(f"never ended: {[each.cell for each in left if not each.lost]}")

    async def _agreement(self) -> None:
        """All pages show the same as the server."""
        deadline = time.monotonic() + PATIENCE
        while True:
            pages = [await self._present(person) for person in self.people]
            for page in pages:
                await asyncio.wait_for(page.settle(), PATIENCE)
            server = view_of((await self._get())["cells"])
            if all(page.view() == server for page in pages) and server == view_of((await self._get())["cells"]):
                return
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.3)
        for person, page in zip(self.people, pages, strict=True):
            self._compare(f"the page of {person.number}", server, page.view())

    def _compare(self, where: str, expected: View, found: View) -> None:
        if list(expected.sources) != list(found.sources):
            self.faults.append(f"{where} has cells {list(found.sources)}, not {list(expected.sources)}")
        for name, text in expected.sources.items():
            if found.sources.get(name, text) != text:
                self.faults.append(f"{where} has {tokens(found.sources[name])} in {name}, not {tokens(text)}")
        if expected.types != found.types:
            self.faults.append(f"{where} has types {found.types}, not {expected.types}")

    async def _get(self) -> dict[str, Any]:
        response = await self.site.ask("GET", f"/api/contents/{self.path}?type=notebook&content=1")
        content: dict[str, Any] = response.json()["content"]
        return content

    async def _history(self) -> set[str]:
        route = f"/ownlab/api/notebooks/history?notebook={self.path}"
        found: set[str] = set()
        for version in (await self.site.ask("GET", route)).json()["versions"]:
            with contextlib.suppress(httpx.HTTPStatusError):  # a newer one has replaced it just now
                content = (await self.site.ask("GET", f"{route}&version={version['id']}")).json()
                found |= set(tokens(json.dumps(content)))
        return found

    async def _check_file(self, expected: View) -> None:
        """Editing rests: the file gets everything by itself."""
        deadline = time.monotonic() + PATIENCE
        while True:
            notebook = json.loads(self.file.read_text(encoding="utf-8"))
            found = view_of(notebook["cells"])
            if found == expected or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.3)
        self._compare("the file", expected, found)
        try:
            nbformat.validate(notebook)
        except nbformat.ValidationError as invalid:
            self.faults.append(f"the file is no valid notebook: {invalid.message}")

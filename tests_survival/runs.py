"""One notebook, run twice: by a plain page that stays open, and with interruptions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import httpx
import nbformat
from tests_survival.compare import Shown, differences, shown, unlike, widget_states
from tests_survival.interruptions import Interruption
from tests_survival.page import Page, Site
from tests_survival.scripts import Script

__all__ = ["Reference", "Run", "reference"]

TYPE = "ownlab-cpu"
PATIENCE = 180.0
Strike = Callable[[int, float], Awaitable[None]]


class Reference(NamedTuple):
    """The result of an uninterrupted run."""

    cells: Shown
    widgets: list[str]
    seconds: float


def write_notebook(folder: Path, path: str, script: Script, kind: str = TYPE) -> None:
    """A notebook that was never run."""
    (folder / path).write_text(json.dumps(script.notebook(kind), indent=1), encoding="utf-8")


async def reference(site: Site, folder: Path, script: Script, path: str) -> Reference:
    """Run it through Jupyter's own socket, by a page that stays open."""
    write_notebook(folder, path, script)
    page = await Page(site, path, following=False).open()
    began = time.monotonic()
    try:
        await page.widgets()  # its answer means that the kernel is up
        began = time.monotonic()
        for number, group in enumerate(script.groups):
            if script.waits[number]:
                await page.until(
                    lambda: all(future.done for future in page.kernel.futures.values()), f"group {number} may run"
                )
            for cell in group:
                page.run(f"cell-{cell}", script.timed)
            if number in script.gates:
                await asyncio.sleep(0.5)  # nothing reports when everything has arrived at the kernel
                (folder / script.gates[number]).touch()
        await page.until(lambda: all(future.done for future in page.kernel.futures.values()), "all have run")
        took = time.monotonic() - began
        states = {comm: widget.state for comm, widget in page.kernel.widgets.items()}
        return Reference(shown(page.as_notebook()), widget_states(states), took)
    finally:
        await page.close()
        for gate in script.gates.values():
            (folder / gate).unlink(missing_ok=True)
        await end_kernel(site, page.kernel_id)


async def end_kernel(site: Site, kernel_id: str) -> None:
    """End the kernel. A server that was killed may have done so without answering."""
    for session in (await site.ask("GET", "/api/sessions")).json():
        if session["kernel"]["id"] == kernel_id:
            try:
                await site.ask("DELETE", f"/api/sessions/{session['id']}")
            except httpx.HTTPStatusError as refused:
                if refused.response.status_code != 404:
                    raise


class Run:
    """One notebook with interruptions. `strike` kills the server with a signal and starts another."""

    kind = TYPE  # the runtime type in which it runs

    def __init__(self, site: Site, folder: Path, script: Script, path: str, strike: Strike) -> None:
        self.site, self.folder, self.script, self.path, self._strike = site, folder, script, path, strike
        self.random = random.Random(f"run {script.seed}")
        self.page: Page | None = None
        self.second: Page | None = None
        self.sent: dict[str, str] = {}  # message id -> cell; only the newest of each cell
        self.ended: set[str] = set()
        self.faults: list[str] = []
        self.happened: list[str] = []
        self._began = 0.0
        self._last_saver: Page | None = None

    # --- the notebook --------------------------------------------------------------------------------------------------

    async def go(self, expected: Reference, planned: list[Interruption]) -> list[str]:
        """Everything that differs from the uninterrupted run."""
        write_notebook(self.folder, self.path, self.script, self.kind)
        self.page = await self._first_page()
        kernel_id = self.page.kernel_id
        self._began = time.monotonic()
        trouble = asyncio.create_task(self._interrupt(planned, expected.seconds))
        try:
            await self._send_all()
            await trouble
            await self._until_ended(list(self.sent), PATIENCE)
            await self._check(expected)
        except (TimeoutError, asyncio.TimeoutError) as late:
            self.faults.append(f"hangs: {late}")
        finally:
            trouble.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await trouble
            for page in (self.page, self.second):
                if page is not None:
                    self.faults += page.faults
                    await page.close()
        await end_kernel(self.site, kernel_id)
        await self._check_file(expected, "after its end")
        return self.faults

    async def _first_page(self) -> Page:
        return await Page(self.site, self.path).open()

    async def _send_all(self) -> None:
        for number, group in enumerate(self.script.groups):
            if self.script.waits[number]:
                await self._until_ended(list(self.sent), PATIENCE)
            page = await self._present()
            for cell in group:
                self._run(page, f"cell-{cell}")
            if number in self.script.gates:
                await self._until_taken(PATIENCE)
                (self.folder / self.script.gates[number]).touch()

    def _run(self, page: Page, cell: str) -> None:
        self.sent = {message: other for message, other in self.sent.items() if other != cell}
        self.sent[page.run(cell, self.script.timed).msg_id] = cell

    async def _present(self) -> Page:
        while self.page is None:
            await asyncio.sleep(0.05)
        return self.page

    async def _until_taken(self, seconds: float) -> None:
        async def wait() -> None:
            while True:
                page = await self._present()
                if not set(page.pending) & set(self.sent):
                    return
                await asyncio.sleep(0.05)

        await asyncio.wait_for(wait(), seconds)

    async def _until_ended(self, messages: list[str], seconds: float) -> None:
        """Wait until all of these have ended in a page. A message that was lost with its page was sent again."""

        async def wait() -> None:
            while any(not self._has_ended(message) for message in messages if message in self.sent):
                await asyncio.sleep(0.05)

        try:
            await asyncio.wait_for(wait(), seconds)
        except asyncio.TimeoutError:
            left = sorted(
                self.sent[message] for message in messages if message in self.sent and not self._has_ended(message)
            )
            raise TimeoutError(f"the page never shows the end of {', '.join(left)}") from None

    def _has_ended(self, message: str) -> bool:
        future = self.page.kernel.futures.get(message) if self.page else None
        return message in self.ended or (future is not None and future.done)

    # --- interruptions -------------------------------------------------------------------------------------------------

    async def _interrupt(self, planned: list[Interruption], duration: float) -> None:
        for interruption in planned:
            await asyncio.sleep(max(0.0, self._began + interruption.moment * duration - time.monotonic()))
            self.happened.append(
                f"{time.monotonic() - self._began:.2f} s {interruption.kind}{' closed' if interruption.closed else ''}"
            )
            await getattr(self, f"_do_{interruption.kind}")(interruption)

    async def _leave(self) -> None:
        page, self.page = await self._present(), None
        self.ended |= {message for message, future in page.kernel.futures.items() if future.done}
        self.faults += page.faults
        await page.close()

    async def _come(self) -> None:
        """Open it again, and run again what was lost with the closed page, as a person would."""
        page = await Page(self.site, self.path).open()
        unsure = [message for message in self.sent if message not in self.ended]
        for patience in (0.0, 1.0):  # messages in flight when the page was closed may still arrive
            await asyncio.sleep(patience if unsure else 0.0)
            executions = (await page.executions(0))["executions"]
            unsure = [message for message in unsure if message not in {reported["msg_id"] for reported in executions}]
            self.ended |= {reported["msg_id"] for reported in executions if reported["state"] in ("done", "aborted")}
        for cell in [self.sent[message] for message in unsure if message in self.sent]:
            self.happened.append(f"{cell} had not left its page: run again")
            self._run(page, cell)
        self.page = page

    async def _do_close(self, interruption: Interruption) -> None:
        await self._leave()
        await asyncio.sleep(interruption.seconds)
        await self._come()

    async def _do_reload(self, interruption: Interruption) -> None:
        if interruption.closed:
            await self._do_save(interruption)
        await self._leave()
        await self._come()

    async def _do_cut(self, interruption: Interruption) -> None:
        page = await self._present()
        page.online.clear()
        page.cut()
        await asyncio.sleep(interruption.seconds)
        page.online.set()

    async def _do_second(self, interruption: Interruption) -> None:
        if self.second is None:
            self.second = await Page(self.site, self.path).open()
            self.second.answers = interruption.closed

    async def _do_swap(self, interruption: Interruption) -> None:
        opened = await Page(self.site, self.path).open()
        await asyncio.sleep(interruption.seconds)
        await self._leave()
        await opened.close()
        await self._come()

    async def _do_away(self, interruption: Interruption) -> None:
        await self._until_taken(PATIENCE)
        page = await self._present()
        await self._leave()
        deadline = time.monotonic() + (2.0 if self.script.asks or self.script.gates else PATIENCE)
        while time.monotonic() < deadline:
            reported = (await page.executions(0))["executions"]
            if all(each["state"] in ("done", "aborted") for each in reported):
                break
            await asyncio.sleep(0.3)
        await self._come()

    async def _do_save(self, interruption: Interruption) -> None:
        page = self.second if self.second is not None and interruption.seconds > 0.1 else await self._present()
        conflict = await page.save()
        if conflict and self._last_saver in (None, page):
            self.faults.append("the page would ask whether to overwrite a file that nobody but the server has written")
        self._last_saver = page

    async def _do_kill(self, interruption: Interruption, signum: int = signal.SIGKILL) -> None:
        if interruption.closed:
            await self._leave()
        await self._strike(signum, interruption.seconds)
        if interruption.closed:
            await self._come()

    async def _do_term(self, interruption: Interruption) -> None:
        await self._do_kill(interruption, signal.SIGTERM)

    # --- what is there in the end --------------------------------------------------------------------------------------

    async def _check(self, expected: Reference) -> None:
        page = await self._present()
        await self._check_page(expected, page, "in the page")
        if self.second is not None:
            await self._check_page(expected, self.second, "in the second page")
        await self._check_get(expected, "by GET")
        if self.random.random() < 0.5:
            await page.save()
            await self._check_get(expected, "by GET after a save")
        await page.close()
        fresh = self.page = await Page(self.site, self.path).open()
        self._compare(expected.cells, shown(fresh.as_notebook()), "in a page that was just opened")
        wrong = unlike(expected.widgets, widget_states(await fresh.widgets()))
        self.faults += [f"{fault} (reported by {fresh.widgets_by})" for fault in wrong]
        for each in (fresh, self.second):
            if each is not None:
                await each.close()
        await self._check_file(expected, "on disk")

    async def _check_page(self, expected: Reference, page: Page, where: str) -> None:
        """Check what a page shows once it has received everything: it may have been disconnected a moment ago."""
        deadline = time.monotonic() + PATIENCE
        while (wrong := differences(expected.cells, shown(page.as_notebook()))) and time.monotonic() < deadline:
            await asyncio.sleep(0.25)
        self.faults += [f"{where}: {fault}" for fault in wrong]

    async def _check_get(self, expected: Reference, where: str) -> None:
        contents = await self.site.ask("GET", f"/api/contents/{self.path}?type=notebook&content=1")
        self._compare(expected.cells, shown(contents.json()["content"]), where)

    async def _check_file(self, expected: Reference, where: str) -> None:
        """Check the file, once the autosave has written it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            notebook = json.loads((self.folder / self.path).read_text(encoding="utf-8"))
            wrong = differences(expected.cells, shown(notebook))
            if not wrong or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.25)
        self.faults += [f"{where}: {fault}" for fault in wrong]
        try:
            nbformat.validate(notebook)
        except nbformat.ValidationError as invalid:
            self.faults.append(f"{where}: no valid notebook: {invalid.message}")

    def _compare(self, expected: Shown, found: Shown, where: str) -> None:
        self.faults += [f"{where}: {fault}" for fault in differences(expected, found)]

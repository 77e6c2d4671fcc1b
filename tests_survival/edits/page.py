"""A page that sends edits as they are typed, by the protocol of `lab/notebooks/edits/records.py`."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import random
import time
import uuid
from typing import Any

import httpx
from tests_survival.edits.document import CellJson, Typist
from tests_survival.edits.ledger import Change, Execution, Ledger, View, view_of
from tests_survival.outputs import Area
from tests_survival.page import AWAY, Page, Site, connect, hang_up
from tornado.httpclient import HTTPRequest
from tornado.websocket import WebSocketClientConnection

__all__ = ["EditingPage"]

ROUTES = "/ownlab/api/notebooks"
FLUSH_SECONDS = 1.5  # a run waits so long for its edits
NOT_SENT = ("execution", "trusted")


class LostError(Exception):
    """No answer came."""


class EditingPage(Page):
    """An open notebook in which a person types."""

    def __init__(self, site: Site, path: str, ledger: Ledger, typist: Typist, chance: random.Random) -> None:
        super().__init__(site, path)
        self.name, self.number, self.version = uuid.uuid4().hex, 0, 0
        self.ledger, self.typist, self.chance = ledger, typist, chance
        self.alive = True
        self._base: dict[str, CellJson] = {}  # as last exchanged with the server
        self._base_order: list[str] = []
        self._text_from: dict[str, int] = {}  # cell -> the version that its text was taken from
        self._waiting: dict[str, CellJson] = {}  # texts of others for cells with unsent edits
        self._edited_at: dict[str, float] = {}
        self._cleared: set[str] = set()
        self._unanswered: tuple[dict[str, Any], Change, dict[str, CellJson]] | None = None
        self._gone: set[str] = set()  # deleted elsewhere, and kept here because of unsent edits
        self._order: list[str] | None = None  # of others, until this page has sent its own
        self._told = 0  # the newest version that the server has announced
        self._exchanging = asyncio.Lock()
        self._wake = asyncio.Event()
        self._news: WebSocketClientConnection | None = None
        self._requests: set[asyncio.Task[httpx.Response]] = set()

    # --- opening and leaving -------------------------------------------------------------------------------------------

    async def load(self) -> httpx.Response:
        response = await super().load()
        self.version = int(response.headers["X-Ownlab-Version"])
        self._base = {cell["id"]: plain(cell) for cell in self.cells}
        self._base_order = [cell["id"] for cell in self.cells]
        self._text_from = dict.fromkeys(self._base_order, self.version)
        self.typist.cells = self.cells
        self.typist.on_added, self.typist.on_removed = self._on_added, self._on_removed
        self.typist.on_cleared = self._on_cleared
        self._tasks += [asyncio.create_task(self._exchange_always()), asyncio.create_task(self._hear())]
        return response

    async def open_without_kernel(self) -> EditingPage:
        """Open the notebook; nothing is executed."""
        await self.load()
        return self

    async def close(self) -> None:
        self.alive = False
        await super().close()

    def cut(self) -> None:
        super().cut()
        for request in self._requests:
            request.cancel()
        if self._news is not None:
            hang_up(self._news)

    @property
    def cells(self) -> list[CellJson]:
        cells: list[CellJson] = self.notebook["cells"]
        return cells

    def view(self) -> View:
        return view_of(self.cells)

    def _on_added(self, cell: CellJson) -> None:
        if cell["cell_type"] == "code":
            self.areas[cell["id"]] = Area(cell)

    def _on_removed(self, cell: CellJson) -> None:
        if (area := self.areas.pop(cell["id"], None)) is not None:
            cell["outputs"] = area.outputs.as_json()

    def _on_cleared(self, cell: CellJson) -> None:
        area = self.areas[cell["id"]]
        if all(future.done for future in self.kernel.futures.values() if future.area is area):
            area.outputs.clear()
            cell["execution_count"] = None
            self._cleared.add(cell["id"])

    # --- what a person does --------------------------------------------------------------------------------------------

    def act(self) -> str:
        """Change something at random."""
        before = self.view().sources
        what = self.typist.act()
        now = time.time()
        after = self.view().sources
        self._edited_at |= {name: now for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        self._wake.set()
        return what

    async def execute(self, cell: CellJson) -> None:
        """Shift-Enter: the edits are sent first, if the server answers."""
        flushed = False
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._exchange_all(), FLUSH_SECONDS)
            flushed = True
        if cell["id"] not in self.areas or not self.alive:
            return
        future = self.run(cell["id"], timed=False)
        known = self._text_from.get(cell["id"], 0)
        self.ledger.executions.append(Execution(self.name, cell["id"], cell["source"], future.msg_id, known, flushed))

    async def write(self) -> None:
        """Save."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._exchange_all(), FLUSH_SECONDS)
        with contextlib.suppress(LostError):
            await self._ask("POST", "/write", {"notebook": self.path})

    async def settle(self) -> None:
        """Everything is sent, and everything of others is here."""
        await self._exchange_all()
        self._told = max(self._told, self.version + 1)  # as after a lost connection
        await self._exchange_all()

    # --- exchanging ----------------------------------------------------------------------------------------------------

    async def _exchange_always(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(0.3 * self.chance.random())
            await self._exchange_all()

    async def _exchange_all(self) -> None:
        while await self._exchange_or_wait():
            pass

    async def _exchange_or_wait(self) -> bool:
        try:
            async with self._exchanging:
                return await self._exchange()
        except LostError:
            await asyncio.sleep(0.1)
            await self.online.wait()
            return True

    async def _exchange(self) -> bool:
        """One request. Return whether there was anything to do."""
        if self._unanswered is None:
            self._take_order()
            self._take_waiting()
            self._unanswered = self._make_patch()
        if self._unanswered is not None:
            body, change, sent = self._unanswered
            change.sent = True
            answer = await self._ask("POST", "/edits", body)
            change.version, change.answered_at = answer["version"], time.time()
            self._unanswered = None
            self._base, self._base_order = sent, list(sent)
            self._order = None if body["order"] else self._order  # if it is another one now, the answer has it
            self._gone -= {patch["id"] for patch in body["cells"]}
            for patch in body["cells"]:  # if the text is another one now, the answer has it
                if "source" in patch:
                    self._waiting.pop(patch["id"], None)
                elif patch["id"] in self._waiting:
                    self._waiting[patch["id"]]["cell_type"] = patch["type"]
            self._take(answer)
            return True
        if self._told > self.version:
            told = self._told
            self._take(await self._ask("GET", f"/edits?notebook={self.path}&version={self.version}"))
            self._told = 0 if self._told == told else self._told
            return True
        return False

    async def _ask(self, method: str, route: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request once. LostError if the answer is lost, or the request itself."""
        if not self.online.is_set():
            raise LostError
        luck = self.chance.random()
        request = asyncio.create_task(self.site.client.request(method, self.site.url + ROUTES + route, json=body))
        self._requests.add(request)
        try:
            limit = 0.05 * self.chance.random() if luck < 0.05 else None
            response = await asyncio.wait_for(asyncio.shield(request), limit)
        except (httpx.TransportError, asyncio.TimeoutError) as lost:
            _abandon(request)
            raise LostError from lost
        except asyncio.CancelledError:
            if request.cancelled():  # the network was cut
                raise LostError from None
            _abandon(request)
            raise
        finally:
            self._requests.discard(request)
        if 0.05 < luck < 0.1 or (self.site.ending and response.is_error):
            raise LostError
        if response.is_error:
            self.faults.append(f"{method} {route}: {response.status_code} {response.text[:300]}")
            raise LostError
        answer: dict[str, Any] = response.json()
        return answer

    async def _hear(self) -> None:
        """Follow the server's announcements."""
        address = self.site.url.replace("http", "ws", 1) + ROUTES + "/changes"
        while True:
            await self.online.wait()
            with contextlib.suppress(*AWAY):
                socket = self._news = await self._connect_news(address)
                try:
                    self._tell(self.version + 1)  # perhaps something was missed
                    while self.online.is_set() and (data := await socket.read_message()) is not None:
                        news = json.loads(data)
                        if news["notebook"] == self.path:
                            self._tell(news["version"])
                finally:
                    hang_up(socket)
            await asyncio.sleep(0.1)

    async def _connect_news(self, address: str) -> WebSocketClientConnection:
        return await connect(HTTPRequest(address, headers=self.site.headers, connect_timeout=5, request_timeout=20))

    def _tell(self, version: int) -> None:
        self._told = max(self._told, version)
        self._wake.set()

    # --- patches -------------------------------------------------------------------------------------------------------

    def _make_patch(self) -> tuple[dict[str, Any], Change, dict[str, CellJson]] | None:
        sent = {cell["id"]: plain(cell) for cell in self.cells}
        cells = [patch for cell in self.cells if (patch := self._cell_patch(sent[cell["id"]]))]
        deleted = {name: cell["source"] for name, cell in self._base.items() if name not in sent}
        order = {"base": self._base_order, "now": list(sent)} if list(sent) != self._base_order else None
        if not (cells or deleted or order):
            return None
        self._cleared.clear()
        self.number += 1
        body = {
            "notebook": self.path, "page": self.name, "number": self.number, "version": self.version,
            "seen": f"{self.kernel_id}/{self.position}" if self.kernel_id else None,
            "client": self.session, "at": time.time(), "cells": cells, "deleted": deleted, "order": order, "metadata": None,
        }  # fmt: skip
        before = view_of(self._base[name] for name in self._base_order if name in self._base)
        change = Change(
            self.name, self.number, dict(self._text_from), before, view_of(sent.values()), dict(self._edited_at)
        )
        self.ledger.changes.append(change)
        return body, change, sent

    def _cell_patch(self, now: CellJson) -> dict[str, Any] | None:
        name, before = now["id"], self._base.get(now["id"])
        patch: dict[str, Any] = {}
        if before is None or before["source"] != now["source"]:
            patch["source"] = {"text": now["source"], "base": before["source"] if before else None}
        if before is None or before["metadata"] != now["metadata"]:
            patch["metadata"] = {"set": now["metadata"], "unset": []}
        area = self.areas.get(name)
        shown = area.outputs.as_json() if area is not None else []
        # What a run has printed since is in the journal: the page sends that a cell was cleared only while it is empty.
        if (name in self._cleared and not shown) or (before is None and shown):
            count = area.cell["execution_count"] if area is not None else None
            patch["outputs"] = {"outputs": shown, "execution_count": count}
        if patch or (before is not None and before["cell_type"] != now["cell_type"]):
            return {"id": name, "type": now["cell_type"], **patch}
        return None

    # --- what others changed -------------------------------------------------------------------------------------------

    def _take(self, changes: dict[str, Any]) -> None:
        """Apply what changed elsewhere; cells with unsent edits keep their text until those are sent."""
        self.version = changes["version"]
        self.ledger.conflicts += changes["conflicts"]
        self.ledger.recovered += changes["recovered"]
        local = {cell["id"]: cell for cell in self.cells}
        unsent = {name for name, cell in local.items() if not self._is_exchanged(cell)}
        for change in changes["cells"]:
            base = self._base.get(change["id"])
            if change["id"] in local or base is None or base["source"] != change["source"]:
                self._waiting[change["id"]] = {**change, "cell_type": change["type"]}
        kept = {cell["id"] for cell in changes["cells"]}
        order = changes["order"]
        gone = set(changes["deleted"]) if order is None else set(self._base_order) - set(order)
        self._gone = (self._gone | (gone & unsent)) - kept
        for name in gone - unsent - kept:
            self._forget(name)
        for name in [*(order or ()), *(cell["id"] for cell in changes["cells"])]:
            if name in self._waiting and name not in {cell["id"] for cell in self.cells}:
                self._insert(name, order or [])
        self._order = self._order if order is None else order
        self._take_order()
        self._take_waiting()
        shown = {
            cell["id"] for cell in self.cells
        }  # what others typed into a cell that was deleted here was never seen
        for name in self._base_order:
            if name in shown and name not in self._waiting and name not in self._gone:
                self._text_from[name] = self.version

    def _take_order(self) -> None:
        """Take over the order of others, once this page has sent its own."""
        order = self._order
        if order is None or [cell["id"] for cell in self.cells] != self._base_order:
            return
        self._order = None
        place = {name: number for number, name in enumerate(order)}
        known = iter(sorted((cell for cell in self.cells if cell["id"] in place), key=lambda c: place[c["id"]]))
        # Cells that others have deleted, and somebody edits here, stay where they are.
        self.cells[:] = [next(known) if cell["id"] in place else cell for cell in self.cells]
        self._base_order = [cell["id"] for cell in self.cells if cell["id"] in self._base]

    def _is_exchanged(self, cell: CellJson) -> bool:
        base = self._base.get(cell["id"])
        return base is not None and base["source"] == cell["source"] and base["cell_type"] == cell["cell_type"]

    def _take_waiting(self) -> None:
        for cell in self.cells:
            change = self._waiting.get(cell["id"])
            if change is None or not (self._is_exchanged(cell) or cell["id"] not in self._base):
                continue
            del self._waiting[cell["id"]]
            self._set(cell, change)
            self._base[cell["id"]] = plain(cell)
            self._text_from[cell["id"]] = self.version
        for name in self._waiting.keys() - {cell["id"] for cell in self.cells}:
            del self._waiting[name]

    def _set(self, cell: CellJson, change: CellJson) -> None:
        if cell["cell_type"] != change["cell_type"]:
            self._on_removed(cell)
            cell["cell_type"] = change["cell_type"]
            if change["cell_type"] == "code":
                cell |= {"outputs": [], "execution_count": None}
            else:
                cell.pop("outputs", None)
                cell.pop("execution_count", None)
            self._on_added(cell)
        kept = {name: value for name, value in cell["metadata"].items() if name in NOT_SENT}
        cell["source"], cell["metadata"] = change["source"], {**change["metadata"], **kept}
        if "outputs" in change and cell["cell_type"] == "code":
            self.areas[cell["id"]].outputs.load(change["outputs"]["outputs"])
            cell["execution_count"] = change["outputs"]["execution_count"]

    def _insert(self, name: str, order: list[str]) -> None:
        """A cell that this page does not have: behind the cell that it follows."""
        change = self._waiting[name]
        cell: CellJson = {"id": name, "cell_type": "raw", "metadata": {}, "source": ""}
        before = order[: order.index(name)] if name in order else [each["id"] for each in self.cells]
        places = {each["id"]: number for number, each in enumerate(self.cells)}
        place = next((places[each] + 1 for each in reversed(before) if each in places), 0)
        self.cells.insert(place, cell)
        self._set(cell, change)
        self._base[name] = plain(cell)
        behind = next((self._base_order.index(each) + 1 for each in reversed(before) if each in self._base_order), 0)
        if name not in self._base_order:
            self._base_order.insert(behind, name)
        self._text_from[name] = self.version
        self._waiting.pop(name)

    def _forget(self, name: str) -> None:
        for cell in [cell for cell in self.cells if cell["id"] == name]:
            self.cells.remove(cell)
            self._on_removed(cell)
        self._base.pop(name, None)
        self._waiting.pop(name, None)
        if name in self._base_order:
            self._base_order.remove(name)


def plain(cell: CellJson) -> CellJson:
    """What a patch is about."""
    metadata = {name: value for name, value in cell["metadata"].items() if name not in NOT_SENT}
    return {
        "id": cell["id"],
        "cell_type": cell["cell_type"],
        "source": cell["source"],
        "metadata": copy.deepcopy(metadata),
    }


def _abandon(request: asyncio.Task[httpx.Response]) -> None:
    request.add_done_callback(lambda done: done.cancelled() or done.exception())
    request.cancel()

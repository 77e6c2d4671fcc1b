"""The routes for *Disconnect and delete runtime* and *Factory reset*: what would be deleted, and its deletion."""

from __future__ import annotations

import asyncio
from functools import partial
from logging import Logger, LoggerAdapter
from typing import Any

from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from tornado import web

from ownlab.lab.runtimes.runtime_removal import (
    delete_content_after_end,
    find_removable,
    measure_content,
    remove_packages,
)
from ownlab.lab.server.routes import RouteHandler, parse_body

__all__ = ["LeftoversHandler", "PackagesHandler", "delete_content"]

_tasks: set[asyncio.Task[None]] = set()  # kept, so that they are not garbage collected


class NotebookPackages(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /ownlab/api/packages/…: a runtime type, and the packages that a notebook has installed there."""

    type: str
    pip: tuple[str, ...] = ()


class LeftoversHandler(RouteHandler):
    """GET /ownlab/api/runtimes/ID/leftovers."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """Return what would be deleted with a runtime."""
        await self.answer(asyncio.to_thread(measure_content, runtime))


class PackagesHandler(RouteHandler):
    """POST /ownlab/api/packages/removable, and /ownlab/api/packages/remove."""

    @web.authenticated
    @authorized
    async def post(self, action: str) -> None:
        """Return which packages of a notebook could be uninstalled, or uninstall them."""
        await self.answer(self._answer(action))

    async def _answer(self, action: str) -> Struct:
        request = parse_body(self.request.body, NotebookPackages)
        types = (await self.snapshots.snapshot()).types
        work = remove_packages if action == "remove" else find_removable
        return await asyncio.to_thread(partial(work, types, request.type, request.pip))


def delete_content(runtime: str, log: Logger | LoggerAdapter[Any]) -> None:
    """Begin to delete the /content of a runtime that is ending."""

    async def delete() -> None:
        try:
            if await asyncio.to_thread(delete_content_after_end, runtime):
                log.info("Removed /content of runtime %s, as requested.", runtime)
        except Exception:  # of a background task: nobody waits for it
            log.exception("Cannot remove /content of runtime %s.", runtime)

    task = asyncio.create_task(delete())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)

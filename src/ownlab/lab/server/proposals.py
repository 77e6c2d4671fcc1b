"""POST /ownlab/api/proposal: what a notebook that is opened was made for, and the runtime type that fits it."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from tornado import web

from ownlab.errors import UsageError
from ownlab.lab.runtimes.accelerator import Proposal, propose
from ownlab.lab.server.routes import RouteHandler

__all__ = ["ProposalHandler", "Proposed"]


# Seconds. A runtime that is older was there before the page, and has something to lose; it was decided about, too.
_NEW = 60.0


class Question(Struct, frozen=True):
    """The body."""

    metadata: dict[str, Any]  # the notebook's, as the page has it
    runtime: str  # the one that it has
    type: str  # the name of its type


class Proposed(Struct, frozen=True):
    """What is proposed; null where nothing is."""

    proposal: Proposal | None


class ProposalHandler(RouteHandler):
    """POST /ownlab/api/proposal."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Propose."""
        await self.answer(self._propose())

    async def _propose(self) -> Proposed:
        try:
            asked = msgspec.json.decode(self.request.body, type=Question)
        except msgspec.DecodeError as exc:
            raise UsageError(f"the body of the request cannot be used: {exc}") from exc
        seen = await self.lookout.snapshot()
        if any(one.id == asked.runtime and time.time() - one.queued_at > _NEW for one in seen.runtimes):
            return Proposed(None)
        return Proposed(propose({"metadata": asked.metadata}, seen.types, asked.type))

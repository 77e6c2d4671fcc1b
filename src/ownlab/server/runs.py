"""Notebooks that are run without a page: a lab in whose folder one lies shows it, as if it had been started there."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from jupyter_server.services.sessions.sessionmanager import ModelName

from ownlab.lab.runtimes.folders import all_plans, is_run_in
from ownlab.server.survivors import Survivor, living

if TYPE_CHECKING:
    from ownlab.server.kernels import OwnlabKernelManager
    from ownlab.server.sessions import OwnlabSessionManager

__all__ = ["Runs"]


class Runs:
    """One for a server. It looks where somebody asks for sessions, or opens a notebook."""

    def __init__(self, folder: str, kernels: OwnlabKernelManager, sessions: OwnlabSessionManager) -> None:
        self._folder = os.path.realpath(folder)
        self._kernels, self._sessions = kernels, sessions
        self._looking = asyncio.Lock()

    async def look(self) -> None:
        """Adopt what was started since the last look; each gets the session that its notebook is opened with."""
        async with self._looking:
            self._kernels.check_not_leaving()
            for one in await asyncio.to_thread(_found, self._folder, set(self._kernels.list_kernel_ids())):
                path = os.path.relpath(os.path.realpath(one.plan.notebook), self._folder).replace(os.sep, "/")
                if not await self._sessions.has(path):  # else it is open here with a kernel of its own
                    self._kernels.adopt(one)
                    await self._sessions.create_session(
                        path=path, name=ModelName(os.path.basename(path)), type="notebook", kernel_id=one.plan.runtime
                    )


def _found(folder: str, known: Collection[str]) -> list[Survivor]:
    return living([plan for plan in all_plans() if plan.runtime not in known and is_run_in(plan, folder)])

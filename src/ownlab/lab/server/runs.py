"""Runtimes that a server finds beside those it started: runs of notebooks in its folder, and what a killed server left."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from jupyter_server.services.sessions.sessionmanager import ModelName

from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.runtimes.state import all_plans, is_run_below
from ownlab.lab.server.adoption import Survivor, living

if TYPE_CHECKING:
    from ownlab.lab.server.kernels import OwnlabKernelManager
    from ownlab.lab.server.sessions import OwnlabSessionManager

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
            found = await asyncio.to_thread(_found, self._folder, self._kernels.ownlab_lab, self._kernels.known())
            self._kernels.check_not_leaving()
            for one in found:
                # A notebook that is open here with a kernel of its own keeps that.
                wanted = one.plan.lab or not await self._sessions.has(self._path(one.plan))
                if wanted and one.plan.runtime not in self._kernels.known():  # it may have been started meanwhile
                    self._kernels.adopt(one)
            while self._kernels.adopted:
                await self._give_session(self._kernels.adopted.pop())

    async def _give_session(self, plan: Plan) -> None:
        """A run has none; nor has a runtime whose server was killed between its start and that of its session.

        Whoever asked for that one asks again, and gets it.
        """
        path = self._path(plan)
        if not path.endswith(".ipynb") or self._sessions.has_kernel(plan.runtime) or await self._sessions.has(path):
            return
        name = ModelName(os.path.basename(path))
        await self._sessions.create_session(path=path, name=name, type="notebook", kernel_id=plan.runtime)

    def _path(self, plan: Plan) -> str:
        """As sessions know it; "" where it is elsewhere."""
        real = os.path.realpath(plan.notebook) if plan.notebook else ""
        if not real.startswith(os.path.join(self._folder, "")):
            return ""
        return os.path.relpath(real, self._folder).replace(os.sep, "/")


def _found(folder: str, lab: str | None, known: Collection[str]) -> list[Survivor]:
    plans = all_plans(but=known)  # asked every few seconds: those that are known are not read again
    return living([plan for plan in plans if (lab and plan.lab == lab) or is_run_below(plan, folder)])

"""Terminals on the node of a runtime: beside its kernel, in its job."""

from __future__ import annotations

import asyncio
import os
import pwd
from typing import TYPE_CHECKING

from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from tornado import web

from ownlab.errors import LabError
from ownlab.lab.engines.interface import Job
from ownlab.lab.engines.registry import find_engine
from ownlab.lab.runtimes.state import plan_of, read_state
from ownlab.lab.server.routes import RouteHandler
from ownlab.lab.server.terminals import PROGRAMS, shell_command
from ownlab.text import text

if TYPE_CHECKING:
    from jupyter_server_terminals.terminalmanager import TerminalManager

__all__ = ["NodeTerminalHandler", "terminal_command"]


class OpenedTerminal(Struct, frozen=True):
    """The result of POST …/terminal."""

    name: str  # as JupyterLab's terminals have


class NodeTerminalHandler(RouteHandler):
    """POST /ownlab/api/runtimes/ID/terminal."""

    auth_resource = "terminals"

    @web.authenticated
    @authorized
    async def post(self, runtime: str) -> None:
        """Open a terminal where the kernel is."""
        await self.answer(self._open(runtime))

    async def _open(self, runtime: str) -> OpenedTerminal:
        manager: TerminalManager | None = self.settings.get("terminal_manager")
        if manager is None:
            raise LabError(text("This server has no terminals."))
        command = await asyncio.to_thread(terminal_command, runtime)
        return OpenedTerminal(manager.create(shell_command=command)["name"])


def terminal_command(runtime: str) -> list[str]:
    """The command of a terminal on the node of a runtime: the user's shell, in the folder and with the Python of its notebook."""
    plan = plan_of(runtime)
    if plan is None or plan.node is None:
        raise LabError(text("Runtime {id} is not on a node of a cluster.", id=runtime))
    node = (read_state(plan.home) or {}).get("node") or {}
    if not node.get("kernel"):
        raise LabError(text("Its job does not run yet."), hint=text("A terminal needs the job of the runtime."))
    programs = os.pathsep.join((str(PROGRAMS), os.path.dirname(plan.node.argv[0])))
    shell = pwd.getpwuid(os.geteuid()).pw_shell or "/bin/sh"
    engine = find_engine(plan.node.engine)
    job = engine.find_job(Job(plan.runtime, plan.home))
    if job is None:
        raise LabError(text("Its job has ended."))
    return engine.terminal_command(job, plan.cwd, shell_command(shell, programs))

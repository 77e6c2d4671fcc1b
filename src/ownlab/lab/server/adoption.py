"""Adoption: finds runtimes that outlived their server, and runs of notebooks, and takes them over."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jupyter_server.services.sessions.sessionmanager import ModelName

from ownlab.errors import LabError
from ownlab.lab.runtimes.end_request import may_have_job
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.operations import remove_folders
from ownlab.lab.runtimes.state import all_plans, is_locked, is_run_below, is_runtime_alive, read_state
from ownlab.lab.transport.control import send_command

if TYPE_CHECKING:
    from ownlab.lab.server.kernels import OwnlabKernelManager
    from ownlab.lab.server.sessions import OwnlabSessionManager

__all__ = ["AdoptableRuntime", "RuntimeAdopter", "find_adoptable", "remove_dead", "select_running"]

# Seconds to wait for a supervisor. It answers within milliseconds, unless it is suspended or the machine is swapping.
_STATUS_SECONDS = 2.0
# States that can be adopted. A runtime whose kernel just died is restarted, as by a server that kept running.
_ADOPTABLE = ("waiting", "starting", "running", "dead")


class AdoptableRuntime(NamedTuple):
    """A runtime that runs without a server."""

    plan: Plan
    status: dict[str, Any]  # the supervisor's answer; only the content of state.json if it does not answer


def find_adoptable(lab: str, folder: str) -> tuple[list[AdoptableRuntime], list[Plan]]:
    """Return the runtimes of a lab that can be adopted, and the plans of dead ones.

    The caller must hold the lab's lock.

    Runs of notebooks in the lab's folder are adopted too. They are never listed as dead: one that is just starting
    looks dead.
    """
    # Runtimes of another host that shares this home folder cannot be checked here, and must not be cleaned up.
    plans = [plan for plan in all_plans() if plan.lab == lab or is_run_below(plan, folder)]
    if any(plan.node is not None and not _is_here(plan) for plan in plans):
        from ownlab.lab.runtimes.start import take_over  # rarely needed, and somebody waits for the page

        plans = [take_over(plan, os.environ) for plan in plans]
    plans = [plan for plan in plans if _is_here(plan)]
    statuses = _read_statuses(plans)
    dead = [plan for plan in plans if plan.lab and statuses[plan.runtime] is None]
    return _adoptable(plans, statuses), dead


def select_running(plans: Sequence[Plan]) -> list[AdoptableRuntime]:
    """Return those runtimes on this host that a running server can adopt. A kernel that died stays dead."""
    plans = [plan for plan in plans if _is_here(plan)]
    return [runtime for runtime in _adoptable(plans, _read_statuses(plans)) if runtime.status["state"] != "dead"]


def _adoptable(plans: Sequence[Plan], statuses: Mapping[str, dict[str, Any] | None]) -> list[AdoptableRuntime]:
    runtimes = []
    for plan in plans:
        status = statuses[plan.runtime]
        if not status or not status.get("connection") or status["state"] not in _ADOPTABLE:
            continue
        if plan.lab or status["state"] != "dead":  # a run whose kernel died is over and is not restarted
            runtimes.append(AdoptableRuntime(plan, status))
    return runtimes


def _is_here(plan: Plan) -> bool:
    return plan.host in ("", os.uname().nodename)


def _read_statuses(plans: Sequence[Plan]) -> dict[str, dict[str, Any] | None]:
    """Return the status of each runtime; None if it is dead."""
    if not plans:  # skip the import: somebody waits for the page
        return {}
    from ownlab.processes.background import call_each

    return {plan.runtime: status for plan, status in zip(plans, call_each(_read_status, plans), strict=True)}


def remove_dead(plans: Iterable[Plan]) -> None:
    """Remove what dead runtimes left behind: folders, rows in the store, locks, processes."""
    from ownlab.lab.store.locks_only import open_any

    plans = list(plans)
    for folder in {plan.store for plan in plans}:
        with open_any(folder, create=False) as store:
            store.reap()
    for plan in plans:
        if not may_have_job(plan):  # the next start finds it again
            remove_folders(plan)


def _read_status(plan: Plan) -> dict[str, Any] | None:
    """Return the status of a runtime; None if it is dead."""
    try:
        return send_command(plan.control_endpoint, "status", timeout=_STATUS_SECONDS)
    except LabError:
        # Not while the server starts, unless a runtime does not answer.
        from ownlab.lab.runtimes.start import revive

        if revive(plan, os.environ):  # the machine was restarted, but not the node
            return read_state(plan.home)
        # Suspended or gone: its lock tells which.
        return read_state(plan.home) if is_runtime_alive(plan.runtime) or is_locked(plan) else None


class RuntimeAdopter:
    """Adopts runtimes while the server runs.

    It looks for them when sessions are listed and when a notebook is opened.
    """

    def __init__(self, folder: str, kernels: OwnlabKernelManager, sessions: OwnlabSessionManager) -> None:
        self._folder = os.path.realpath(folder)
        self._kernels, self._sessions = kernels, sessions
        self._lock = asyncio.Lock()

    async def adopt_new(self) -> None:
        """Adopt runtimes that were started since the last call, and create the sessions of their notebooks."""
        async with self._lock:
            known = self._kernels.known_ids()
            runtimes = await asyncio.to_thread(_new_runtimes, self._folder, self._kernels.ownlab_lab, known)
            self._kernels.check_not_stopping()
            for runtime in runtimes:
                # A notebook that is open here with its own kernel keeps that kernel.
                wanted = runtime.plan.lab or not await self._sessions.has_session(self._path(runtime.plan))
                # Check again: it may have been started in the meantime.
                if wanted and runtime.plan.runtime not in self._kernels.known_ids():
                    self._kernels.adopt(runtime)
            while self._kernels.adopted:
                await self._create_session(self._kernels.adopted.pop())

    async def _create_session(self, plan: Plan) -> None:
        """Create the session of an adopted runtime, if it has none.

        A run has none; neither has a runtime whose server was killed before it created the session. The page that
        requested that session retries, and gets this one.
        """
        path = self._path(plan)
        if (
            not path.endswith(".ipynb")
            or self._sessions.has_kernel(plan.runtime)
            or await self._sessions.has_session(path)
        ):
            return
        name = ModelName(os.path.basename(path))
        await self._sessions.create_session(path=path, name=name, type="notebook", kernel_id=plan.runtime)

    def _path(self, plan: Plan) -> str:
        """Return the notebook's path as sessions know it; "" if it is outside the folder."""
        real = os.path.realpath(plan.notebook) if plan.notebook else ""
        if not real.startswith(os.path.join(self._folder, "")):
            return ""
        return os.path.relpath(real, self._folder).replace(os.sep, "/")


def _new_runtimes(folder: str, lab: str | None, known: Collection[str]) -> list[AdoptableRuntime]:
    plans = all_plans(but=known)  # called every few seconds, so known plans are not read again
    return select_running([plan for plan in plans if (lab and plan.lab == lab) or is_run_below(plan, folder)])

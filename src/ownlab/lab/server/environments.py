"""The environments of the start page: listed with their progress, created from a preset, cancelled and removed.

A build is a process of its own with its state on disk: nothing here is lost when the page or the server goes away.
"""

from __future__ import annotations

import asyncio

from jupyter_server.auth.decorator import authorized
from tornado import web

from ownlab.lab.environments.records import EnvironmentPlan, Environments, NewEnvironment
from ownlab.lab.server.routes import RouteHandler, parse_body

__all__ = ["environment_handlers"]

# What builds environments is imported by the first request that needs it, not while the server starts.


class EnvironmentsHandler(RouteHandler):
    """/ownlab/api/environments. Every method returns the list of environments."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """List the environments, with the progress of those that are being built."""
        await self.answer(asyncio.to_thread(_list))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Start to build an environment, or continue an interrupted build."""
        await self.answer(asyncio.to_thread(_start, self.request.body))


class PlanHandler(RouteHandler):
    """POST /ownlab/api/environment-plan."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Return what a request would install, and how large that is."""
        await self.answer(asyncio.to_thread(_plan, self.request.body))


class CancelHandler(RouteHandler):
    """POST /ownlab/api/environments/NAME/cancel."""

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        """Stop a build. What was downloaded is kept."""
        await self.answer(asyncio.to_thread(_cancel, name))


class EnvironmentHandler(RouteHandler):
    """DELETE /ownlab/api/environments/NAME."""

    @web.authenticated
    @authorized
    async def delete(self, name: str) -> None:
        """Remove an environment. The files of one that ownlab created are deleted."""
        await self.answer(asyncio.to_thread(_remove, name))


def environment_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return pairs of route and handler. Names have no other characters, so none can leave the folder."""
    name = r"/ownlab/api/environments/(?P<name>[a-z0-9][a-z0-9-]{0,39})"
    return [
        (r"/ownlab/api/environments", EnvironmentsHandler),
        (rf"{name}/cancel", CancelHandler),
        (r"/ownlab/api/environment-plan", PlanHandler),
        (name, EnvironmentHandler),
    ]


def _list() -> Environments:
    from ownlab.lab.environments.builds import environment_states

    return environment_states()


def _start(body: bytes) -> Environments:
    from ownlab.lab.environments.builds import start_build

    start_build(parse_body(body, NewEnvironment))
    return _list()


def _plan(body: bytes) -> EnvironmentPlan:
    from ownlab.lab.environments.builder import plan_environment
    from ownlab.lab.environments.builds import complete_request

    return plan_environment(complete_request(parse_body(body, NewEnvironment)))


def _cancel(name: str) -> Environments:
    from ownlab.lab.environments.builds import cancel_build

    cancel_build(name)
    return _list()


def _remove(name: str) -> Environments:
    from ownlab.lab.environments.builds import remove_environment_or_build
    from ownlab.lab.runtimes.runtime_types import refresh_specs

    remove_environment_or_build(name)
    refresh_specs()
    return _list()

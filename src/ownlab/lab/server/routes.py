"""What the page asks for: parse, call, answer; here alone our errors become HTTP statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from msgspec import Struct
from tornado import web

from ownlab.errors import OwnlabError, UsageError
from ownlab.lab.runtimes.journals import Journals
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.lab.server.snapshot_service import Lookout
from ownlab.lab.server.snapshot_stream import StreamHandler, document_of

if TYPE_CHECKING:
    from ownlab.lab.store.store import Store

__all__ = ["handlers"]


class Types(Struct, frozen=True):
    """GET /ownlab/api/types."""

    types: tuple[RuntimeType, ...]


class Stop(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/stop."""

    now: bool = False  # without the seconds that `on_end` functions have to save


class Done(Struct, frozen=True):
    """What was done."""

    runtime: str
    ends_at: float | None = None  # when a limit will end it, after an extension


class RouteHandler(APIHandler):
    """Every route asks for the token, checks the origin, and on POST the XSRF cookie, as Jupyter's own do."""

    auth_resource = "kernels"

    @property
    def lookout(self) -> Lookout:
        """The one of this server."""
        found: Lookout = self.settings["ownlab_lookout"]
        return found

    async def answer(self, work: Awaitable[Struct]) -> None:
        """The result of a call, or its failure."""
        try:
            found: Struct | OwnlabError = await work
        except OwnlabError as exc:
            self.set_status(exc.http_status)
            found = exc
        self.finish(document_of(found))


class SnapshotHandler(RouteHandler):
    """GET /ownlab/api/snapshot."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """All that the panel shows."""
        await self.answer(self.lookout.snapshot())


class TypesHandler(RouteHandler):
    """GET /ownlab/api/types."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """What can be started, and whether it would have to wait."""
        await self.answer(self._types())

    async def _types(self) -> Types:
        return Types((await self.lookout.snapshot()).types)


class StopHandler(RouteHandler):
    """POST /ownlab/api/runtimes/ID/stop."""

    @web.authenticated
    @authorized
    async def post(self, runtime: str) -> None:
        """Begin to end a runtime; the stream tells when it is gone."""
        await self.answer(self._stop(runtime))

    async def _stop(self, runtime: str) -> Done:
        given = _body(self.request.body, Stop)

        from ownlab.lab.runtimes.operations import stop_runtime

        def stop(store: Store) -> Done:
            return Done(stop_runtime(store, runtime, now=given.now, why="it was stopped in the lab").id)

        return await _act(stop)


class ExtendHandler(RouteHandler):
    """POST /ownlab/api/runtimes/ID/extend."""

    @web.authenticated
    @authorized
    async def post(self, runtime: str) -> None:
        """Give a runtime more time."""
        await self.answer(self._extend(runtime))

    async def _extend(self, runtime: str) -> Done:
        from ownlab.lab.runtimes.operations import extend_runtime

        def extend(store: Store) -> Done:
            return Done(runtime, extend_runtime(store, runtime).get("ends_at"))

        return await _act(extend)


class AttachHandler(RouteHandler):
    """GET /ownlab/api/runtimes/ID/attach?after=N."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """What a page needs to go on showing the cells of a runtime; it shows already what came up to `after`."""
        from ownlab.lab.server.attachment import attachment

        try:
            after = int(self.get_query_argument("after", "0"))
        except ValueError as exc:
            raise web.HTTPError(400, "after is no number") from exc
        journals: Journals = self.settings["ownlab_journals"]
        try:
            found = await journals.query(runtime, partial(attachment, after=after))
        except OwnlabError as exc:
            self.set_status(exc.http_status)
            found = document_of(exc)
        self.finish(found)


def handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Address below the server's base address -> handler."""
    from ownlab.lab.server.colab import colab_handlers  # these are made of what stands here
    from ownlab.lab.server.forms import FormsHandler
    from ownlab.lab.server.metrics import MetricsHandler
    from ownlab.lab.server.proposals import ProposalHandler
    from ownlab.lab.server.secrets import SecretsHandler

    runtime = r"/ownlab/api/runtimes/(?P<runtime>[\w-]+)"
    return [
        (r"/ownlab/api/snapshot", SnapshotHandler),
        (r"/ownlab/api/types", TypesHandler),
        (r"/ownlab/api/stream", StreamHandler),
        (r"/ownlab/api/forms", FormsHandler),
        (r"/ownlab/metrics", MetricsHandler),
        (r"/ownlab/api/proposal", ProposalHandler),
        (r"/ownlab/api/secrets", SecretsHandler),
        (rf"{runtime}/stop", StopHandler),
        (rf"{runtime}/extend", ExtendHandler),
        (rf"{runtime}/attach", AttachHandler),
        *colab_handlers(runtime),
    ]


async def _act(do: Callable[[Store], Done]) -> Done:
    """Through a store of its own: the lookout may be in the middle of a slow look."""

    from ownlab.lab.server.machine_reader import open_store

    def work() -> Done:
        with open_store() as store:
            return do(store)

    return await asyncio.to_thread(work)


def _body(given: bytes, kind: type[Stop]) -> Stop:
    try:
        return msgspec.json.decode(given or b"{}", type=kind)
    except msgspec.DecodeError as exc:
        raise UsageError(f"the body of the request cannot be used: {exc}") from exc

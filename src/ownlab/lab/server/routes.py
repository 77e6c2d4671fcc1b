"""The routes of the page: parse the request, call, answer. Only here do errors become HTTP statuses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import allow_unauthenticated, authorized
from jupyter_server.base.handlers import APIHandler
from msgspec import Struct
from tornado import web

from ownlab.config.loader import resolve_lab_options
from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab.lab.journal.storage import RUNTIME_ID
from ownlab.lab.runtimes.accelerator import Proposal, propose
from ownlab.lab.runtimes.end_reasons import STOPPED_IN_LAB
from ownlab.lab.runtimes.journals import Journals
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.lab.runtimes.state import plan_of
from ownlab.lab.server.page_errors import InPageLanguage, PageError
from ownlab.lab.server.snapshot_service import SnapshotService, StreamHandler, encode_document
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.lab.store.locks_only import AnyStore

__all__ = ["MetricsHandler", "ProposalHandler", "Proposed", "RouteHandler", "handlers", "parse_body"]

T = TypeVar("T", bound=Struct)


class Types(Struct, frozen=True):
    """GET /ownlab/api/types."""

    types: tuple[RuntimeType, ...]


class Stop(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/stop."""

    now: bool = False  # skip the time that `on_end` functions have to save
    delete_content: bool = False  # remove its /content when it has ended


class Done(Struct, frozen=True):
    """The result of an action."""

    runtime: str
    ends_at: float | None = None  # when a limit will end it, after an extension


class RouteHandler(InPageLanguage, APIHandler):
    """Base of all routes.

    It requires the token, checks the origin and, for POST, the XSRF cookie, like Jupyter's own routes.
    """

    auth_resource = "kernels"

    @property
    def snapshots(self) -> SnapshotService:
        """The snapshot service of this server."""
        service: SnapshotService = self.settings["ownlab_snapshots"]
        return service

    async def answer(self, work: Awaitable[Struct]) -> None:
        """Send the result of a call, or its error."""
        try:
            result: Struct | OwnlabError = await work
        except OwnlabError as exc:
            self.set_status(exc.http_status)
            result = exc
        self.finish(self.encode(result))

    def encode(self, result: Struct | OwnlabError) -> bytes:
        """Return a result or an error as JSON, in the language of the page."""
        return encode_document(result, self.translate)


class SnapshotHandler(RouteHandler):
    """GET /ownlab/api/snapshot."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return everything that the panel shows."""
        await self.answer(self.snapshots.snapshot())


class TypesHandler(RouteHandler):
    """GET /ownlab/api/types."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return what can be started, and whether it would have to wait."""
        await self.answer(self._types())

    async def _types(self) -> Types:
        return Types((await self.snapshots.snapshot()).types)


class StopHandler(RouteHandler):
    """POST /ownlab/api/runtimes/ID/stop."""

    @web.authenticated
    @authorized
    async def post(self, runtime: str) -> None:
        """Begin to stop a runtime; the snapshot stream shows when it is gone."""
        await self.answer(self._stop(runtime))

    async def _stop(self, runtime: str) -> Done:
        request = parse_body(self.request.body, Stop)

        from ownlab.lab.runtimes.operations import stop_runtime

        def stop(store: AnyStore) -> Done:
            return Done(stop_runtime(store, runtime, now=request.now, why=STOPPED_IN_LAB.fill()).id)

        done = await _with_store(stop)
        if request.delete_content:
            from ownlab.lab.server.runtime_removal import delete_content

            delete_content(runtime, self.log)
        return done


class ExtendHandler(RouteHandler):
    """POST /ownlab/api/runtimes/ID/extend."""

    @web.authenticated
    @authorized
    async def post(self, runtime: str) -> None:
        """Extend the time limit of a runtime."""
        await self.answer(self._extend(runtime))

    async def _extend(self, runtime: str) -> Done:
        from ownlab.lab.runtimes.operations import extend_runtime

        def extend(store: AnyStore) -> Done:
            return Done(runtime, extend_runtime(store, runtime).get("ends_at"))

        return await _with_store(extend)


class AttachHandler(RouteHandler):
    """GET /ownlab/api/runtimes/ID/attach?after=N."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """Return what a page needs to continue showing the cells of a runtime.

        It already shows records up to `after`.
        """
        from ownlab.lab.server.attachment import attachment
        from ownlab.lab.transport.outbox import read_outbox

        try:
            after = int(self.get_query_argument("after", "0"))
        except ValueError as exc:
            raise PageError(400, text("The query parameter {name} is not a number.", name="after")) from exc
        journals: Journals = self.settings["ownlab_journals"]
        plan = plan_of(runtime)
        outbox = await asyncio.to_thread(read_outbox, plan.home) if plan is not None and plan.node is not None else []
        try:
            document = await journals.query(
                runtime, partial(attachment, after=after, outbox=outbox, translate=self.translate)
            )
        except OwnlabError as exc:
            self.set_status(exc.http_status)
            document = self.encode(exc)
        self.finish(document)


# Seconds. An older runtime existed before the page, has a state to lose, and its type was chosen on purpose.
_NEW_SECONDS = 60.0


class Question(Struct, frozen=True):
    """The body of POST /ownlab/api/proposal."""

    metadata: dict[str, Any]  # of the notebook
    runtime: str  # its current runtime
    type: str  # the name of that runtime's type


class Proposed(Struct, frozen=True):
    """The proposed runtime type; null if none is proposed."""

    proposal: Proposal | None


class ProposalHandler(RouteHandler):
    """POST /ownlab/api/proposal: the runtime type that suits a notebook that was opened."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Propose a runtime type for a notebook."""
        await self.answer(self._propose())

    async def _propose(self) -> Proposed:
        question = parse_body(self.request.body, Question)
        snapshot = await self.snapshots.snapshot()
        now = time.time()
        if any(each.id == question.runtime and now - each.queued_at > _NEW_SECONDS for each in snapshot.runtimes):
            return Proposed(None)
        return Proposed(propose({"metadata": question.metadata}, snapshot.types, question.type))


class MetricsHandler(APIHandler):
    """GET /ownlab/metrics, for Prometheus.

    Requires access to the lab, or the token in the file `metrics.token_file`.
    """

    auth_resource = "kernels"
    _track_activity = False  # a scraper is not a user

    @allow_unauthenticated
    async def get(self) -> None:
        """Return the metrics. Scrapers request them every few seconds; one request costs one snapshot."""
        if not await self._is_allowed():
            raise web.HTTPError(403)
        from ownlab.instruments.top.prometheus import CONTENT_TYPE

        snapshots: SnapshotService = self.settings["ownlab_snapshots"]
        try:
            metrics = await snapshots.metrics()
        except OwnlabError as exc:
            raise PageError(exc.http_status, exc.message) from exc
        self.finish(metrics, set_content_type=CONTENT_TYPE)

    async def _is_allowed(self) -> bool:
        if self.current_user is not None:
            allowed = self.authorizer.is_authorized(self, self.current_user, "read", self.auth_resource)
            return bool(await ensure_async(allowed))
        header = self.request.headers.get("Authorization", "")
        return bool(header) and self._has_token(header)

    def _has_token(self, header: str) -> bool:
        from ownlab.instruments.top.metrics_server import has_token, read_token

        try:
            # Read each time, so that the token can be changed without a restart.
            file = resolve_lab_options().metrics_token_file
            return file is not None and has_token(header, read_token(Path(file)))
        except InputError as exc:
            self.log.warning("ownlab: %s %s", exc.message, exc.hint)
            return False


def handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return pairs of route (below the server's base URL) and handler."""
    from ownlab.lab.server.colab import colab_handlers  # these modules import this one
    from ownlab.lab.server.disk import DiskHandler
    from ownlab.lab.server.environments import environment_handlers
    from ownlab.lab.server.forms import FormsHandler
    from ownlab.lab.server.node_terminals import NodeTerminalHandler
    from ownlab.lab.server.page_extensions import extension_handlers
    from ownlab.lab.server.runtime_removal import LeftoversHandler, PackagesHandler
    from ownlab.lab.server.secrets import SecretsHandler

    runtime = rf"/ownlab/api/runtimes/(?P<runtime>{RUNTIME_ID})"
    return [
        (r"/ownlab/api/snapshot", SnapshotHandler),
        (r"/ownlab/api/types", TypesHandler),
        (r"/ownlab/api/disk", DiskHandler),
        (r"/ownlab/api/stream", StreamHandler),
        (r"/ownlab/api/forms", FormsHandler),
        (r"/ownlab/metrics", MetricsHandler),
        (r"/ownlab/api/proposal", ProposalHandler),
        (r"/ownlab/api/secrets", SecretsHandler),
        (rf"{runtime}/stop", StopHandler),
        (rf"{runtime}/extend", ExtendHandler),
        (rf"{runtime}/attach", AttachHandler),
        (rf"{runtime}/terminal", NodeTerminalHandler),
        (rf"{runtime}/leftovers", LeftoversHandler),
        (r"/ownlab/api/packages/(?P<action>removable|remove)", PackagesHandler),
        *environment_handlers(),
        *extension_handlers(),
        *colab_handlers(runtime),
    ]


async def _with_store(do: Callable[[AnyStore], Done]) -> Done:
    """Call with a store of its own: the snapshot service may be in the middle of a slow read."""

    from ownlab.lab.server.machine_reader import open_store

    def work() -> Done:
        with open_store() as store:
            return do(store)

    return await asyncio.to_thread(work)


def parse_body(body: bytes, kind: type[T]) -> T:
    """Return the body of a request as a record. UsageError if it is not one."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise UsageError(text("The request body is invalid: {reason}.", reason=str(exc))) from exc

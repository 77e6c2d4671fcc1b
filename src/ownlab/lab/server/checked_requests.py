"""Malformed requests to Jupyter's own routes: answered with what is wrong with them, not with an internal error."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import unquote_to_bytes

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import allow_unauthenticated, authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.services.contents.handlers import CheckpointsHandler
from jupyter_server.services.kernels.handlers import KernelActionHandler, MainKernelHandler
from jupyter_server.services.kernels.handlers import default_handlers as kernel_handlers
from jupyter_server.services.sessions.handlers import SessionHandler, SessionRootHandler
from jupyter_server.services.sessions.handlers import default_handlers as session_handlers
from tornado import web
from tornado.httputil import HTTPServerRequest
from tornado.routing import Matcher, Rule

from ownlab.lab.server.page_errors import InPageLanguage, PageError
from ownlab.text import text

__all__ = ["CheckedBody", "CheckedCheckpoints", "checked_handlers", "refuse_malformed_paths"]

# Bytes of one name in a path: NAME_MAX of Linux' file systems.
_MAX_NAME = 255


class CheckedBody(InPageLanguage, APIHandler):
    """A route whose body is one JSON object."""

    # Fields and what they must be if they are there.
    fields: ClassVar[dict[str, type]] = {}

    def get_json_body(self) -> dict[str, Any] | None:
        """Return the body. HTTPError 400 if it is invalid."""
        try:
            body = super().get_json_body()
        except (UnicodeDecodeError, RecursionError) as exc:
            raise PageError(400, text("The request body is not JSON.")) from exc
        if body is not None and not isinstance(body, dict):
            raise PageError(400, text("The request body is not a JSON object."))
        for name, kind in self.fields.items():
            if body is not None and not isinstance(body.get(name), (kind, type(None))):
                raise PageError(400, text("The field {name} of the request body is invalid.", name=name))
        return body


class _Sessions(CheckedBody, SessionRootHandler):
    """POST /api/sessions."""

    fields: ClassVar = {"path": str, "name": str, "type": str, "kernel": dict, "notebook": dict}

    def get_json_body(self) -> dict[str, Any] | None:
        """Return the body. HTTPError if the kernel that it names cannot exist."""
        body = super().get_json_body()
        kernel = (body or {}).get("kernel") or {}
        name, identifier = kernel.get("name"), kernel.get("id")
        if not isinstance(name, (str, type(None))) or not isinstance(identifier, (str, type(None))):
            raise PageError(400, text("The field {name} of the request body is invalid.", name="kernel"))
        if identifier and identifier not in self.kernel_manager:
            raise PageError(404, text("There is no kernel {id}.", id=identifier))
        return body


class _Session(CheckedBody, SessionHandler):
    """PATCH /api/sessions/ID."""

    fields: ClassVar = {"path": str, "name": str, "type": str, "kernel": dict, "notebook": dict}


class _Kernels(CheckedBody, MainKernelHandler):
    """POST /api/kernels."""

    fields: ClassVar = {"name": str, "path": str, "env": dict}


class _KernelAction(InPageLanguage, KernelActionHandler):
    """POST /api/kernels/ID/restart."""

    @web.authenticated
    @authorized
    async def post(self, kernel_id: str, action: str) -> None:
        """Interrupt or restart a kernel that exists."""
        if kernel_id not in self.kernel_manager:
            raise PageError(404, text("There is no kernel {id}.", id=kernel_id))
        await ensure_async(super().post(kernel_id, action))


class CheckedCheckpoints(InPageLanguage, CheckpointsHandler):
    """POST /api/contents/PATH/checkpoints."""

    @web.authenticated
    @authorized
    async def post(self, path: str = "") -> None:
        """Create a checkpoint of a file that exists."""
        if not await ensure_async(self.contents_manager.file_exists(path)):
            raise PageError(404, text("There is no file {path}.", path=path))
        await ensure_async(super().post(path))


_CHECKED: dict[Any, type[web.RequestHandler]] = {
    SessionRootHandler: _Sessions,
    SessionHandler: _Session,
    MainKernelHandler: _Kernels,
    KernelActionHandler: _KernelAction,
}


class _MalformedPath(Matcher):
    """Matches addresses that no file, kernel or page can have."""

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Called by tornado for every request. None: the request is passed on."""
        names = unquote_to_bytes(request.path).split(b"/")
        return {} if any(b"\0" in name or len(name) > _MAX_NAME for name in names) else None


class _Refused(InPageLanguage, JupyterHandler):
    """The answer to such a request, whoever sends it."""

    @allow_unauthenticated
    def prepare(self) -> None:  # type: ignore[override]  # nothing to wait for
        """Called for every method."""
        self.set_status(400)
        self.set_header("Content-Type", "text/plain; charset=utf-8")  # Jupyter's page would show who is logged in
        self.finish(self.rendered(text("A name in this address is too long or contains a zero byte.")))


def refuse_malformed_paths(app: web.Application) -> None:
    """Refuse malformed addresses before any other route."""
    router = app.default_router
    rule = router.process_rule(Rule(_MalformedPath(), _Refused))
    assert rule is not None
    router.rules.insert(0, rule)


def checked_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return Jupyter's routes of kernels and sessions with checks. They precede Jupyter's own in the server's table."""
    own = [*session_handlers, *kernel_handlers]
    return [(address, _CHECKED[handler]) for address, handler in own if handler in _CHECKED]

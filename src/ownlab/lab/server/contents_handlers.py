"""Notebooks over HTTP: Jupyter's own routes, with two additional headers.

`X-Ownlab-Position: RUNTIME/NUMBER` in the response to an open request: the notebook includes the runtime's records up
to this number. `X-Ownlab-Seen: RUNTIME/NUMBER` in a save request: the page had shown the records up to this number.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.services.contents.handlers import ContentsHandler, default_handlers
from msgspec import Struct
from tornado import web

from ownlab.json_encoding import encode_json
from ownlab.lab.notebooks.merging import SeenPosition
from ownlab.lab.server.contents import OwnlabContents, RequestPositions, request_positions
from ownlab.text import text

__all__ = ["POSITION", "SEEN", "OwnlabContentsHandler", "contents_handlers"]

POSITION = "X-Ownlab-Position"
SEEN = "X-Ownlab-Seen"
_POSITION_PATTERN = re.compile(r"([\w-]{1,100})/(\d{1,19})", re.ASCII)


class OwnlabContentsHandler(ContentsHandler):
    """/api/contents/PATH."""

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Called by tornado before the request's method, in the same task."""
        self._positions = RequestPositions(_parse_seen(self.request.headers.get(SEEN, "")))
        request_positions.set(self._positions)
        await super().prepare(*args, **kwargs)

    def _finish_model(self, model: dict[str, Any], location: bool = True) -> None:
        """Called by Jupyter's methods with their result."""
        if self._positions.position is not None and self.request.method == "GET":
            runtime, number = self._positions.position
            self.set_header(POSITION, f"{runtime}/{number}")
        try:
            answer = encode_json(model)
        except (
            TypeError,
            ValueError,
            msgspec.MsgspecError,
        ):  # lone surrogates, and other values that only Python accepts
            super()._finish_model(model, location)  # type: ignore[no-untyped-call]
            return
        # Same result as Jupyter's method in a third of the time: a notebook may contain 50 MB of images.
        if location:
            self.set_header("Location", self.location_url(model["path"]))  # type: ignore[no-untyped-call]
        self.set_header("Last-Modified", model["last_modified"])
        self.set_header("Content-Type", "application/json")
        self.finish(answer)


class CatchUp(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /ownlab/api/notebooks/catch-up."""

    notebook: str  # absolute


class CatchUpHandler(APIHandler):
    """POST /ownlab/api/notebooks/catch-up: sent by a run that was started outside the lab, when it ends."""

    auth_resource = "contents"

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Write the outputs of its runtimes into a notebook file."""
        try:
            request = msgspec.json.decode(self.request.body, type=CatchUp)
        except msgspec.DecodeError as exc:
            raise web.HTTPError(400, text("The request body is invalid: {reason}", reason=str(exc))) from exc
        contents = self.contents_manager
        assert isinstance(contents, OwnlabContents)
        if not await contents.update_file(request.notebook):
            message = text("{notebook} is not in this lab's folder, or cannot be updated.", notebook=request.notebook)
            raise web.HTTPError(409, message)
        self.finish("{}")


def contents_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return Jupyter's routes with our contents handler. They precede Jupyter's own in the server's table."""
    own = [
        (address, OwnlabContentsHandler if handler is ContentsHandler else handler)
        for address, handler in default_handlers
        if address.startswith("/api/contents")
    ]
    return [*own, ("/ownlab/api/notebooks/catch-up", CatchUpHandler)]


def _parse_seen(header: str) -> SeenPosition | None:
    match = _POSITION_PATTERN.fullmatch(header.strip())
    return SeenPosition(match[1], int(match[2])) if match else None

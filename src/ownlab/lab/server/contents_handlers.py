"""Notebooks over HTTP: Jupyter's own routes, with three additional headers.

`X-Ownlab-Version: NUMBER` in the response to an open request: the notebook includes the edits up to this version.
`X-Ownlab-Position: RUNTIME/NUMBER` in the response to an open request: the notebook includes the runtime's records up
to this number. `X-Ownlab-Seen: RUNTIME/NUMBER` in a save request: the page had shown the records up to this number.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, AuthenticatedFileHandler
from jupyter_server.services.contents.handlers import CheckpointsHandler, ContentsHandler, default_handlers
from msgspec import Struct
from tornado import web

from ownlab.errors import OwnlabError
from ownlab.json_encoding import encode_json
from ownlab.lab.notebooks.merging import SeenPosition
from ownlab.lab.server.checked_requests import CheckedBody, CheckedCheckpoints
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.server.loaded_notebook import RequestPositions, request_positions
from ownlab.lab.server.page_errors import InPageLanguage, PageError
from ownlab.text import text

__all__ = ["POSITION", "SEEN", "VERSION", "CurrentFileHandler", "OwnlabContentsHandler", "contents_handlers"]

POSITION = "X-Ownlab-Position"
SEEN = "X-Ownlab-Seen"
VERSION = "X-Ownlab-Version"
_POSITION_PATTERN = re.compile(r"([\w-]{1,100})/(\d{1,19})", re.ASCII)


class OwnlabContentsHandler(CheckedBody, ContentsHandler):
    """/api/contents/PATH."""

    fields: ClassVar = {"path": str, "name": str, "type": str, "format": str, "copy_from": str, "ext": str}

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Called by tornado before the request's method, in the same task."""
        self._positions = RequestPositions(_parse_seen(self.request.headers.get(SEEN, "")))
        request_positions.set(self._positions)
        await super().prepare(*args, **kwargs)

    def get_json_body(self) -> dict[str, Any] | None:
        """Called by Jupyter's methods. HTTPError 400 if a notebook is none."""
        body = super().get_json_body()
        if body is not None and body.get("type") == "notebook" and "content" in body:
            cells = body["content"].get("cells", []) if isinstance(body["content"], dict) else None
            if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
                raise PageError(400, text("The content of a notebook must have a list of cells."))
        return body

    def _finish_model(self, model: dict[str, Any], location: bool = True) -> None:
        """Called by Jupyter's methods with their result."""
        if self._positions.version is not None and self.request.method == "GET":
            self.set_header(VERSION, str(self._positions.version))
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


class CurrentFileHandler(InPageLanguage, AuthenticatedFileHandler):
    """/files/PATH: the raw file, for downloads. A notebook contains everything that was typed."""

    @web.authenticated
    @authorized
    async def get(self, path: str, **kwargs: Any) -> None:  # type: ignore[override]
        """Send a file."""
        contents = self.contents_manager
        if path.endswith(".ipynb") and isinstance(contents, OwnlabContents):
            try:
                await contents.write_unsaved(path)
            except (web.HTTPError, OwnlabError, OSError) as exc:
                self.log.warning("%s cannot be written before it is downloaded: %s", path, exc)
        await ensure_async(super().get(path, **kwargs))


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
        except (msgspec.DecodeError, RecursionError) as exc:
            raise PageError(400, text("The request body is invalid: {reason}", reason=str(exc))) from exc
        contents = self.contents_manager
        assert isinstance(contents, OwnlabContents)
        if not await contents.update_file(request.notebook):
            message = text("{notebook} is not in this lab's folder, or cannot be updated.", notebook=request.notebook)
            raise PageError(409, message)
        self.finish("{}")


def contents_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return Jupyter's routes with our contents handler. They precede Jupyter's own in the server's table."""
    replaced: dict[Any, type[web.RequestHandler]] = {
        ContentsHandler: OwnlabContentsHandler,
        CheckpointsHandler: CheckedCheckpoints,
    }
    own = [
        (address, replaced.get(handler, handler))
        for address, handler in default_handlers
        if address.startswith("/api/contents")
    ]
    return [*own, ("/ownlab/api/notebooks/catch-up", CatchUpHandler)]


def _parse_seen(header: str) -> SeenPosition | None:
    match = _POSITION_PATTERN.fullmatch(header.strip())
    return SeenPosition(match[1], int(match[2])) if match else None

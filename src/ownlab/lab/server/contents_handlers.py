"""Notebooks over HTTP: Jupyter's own addresses, with two headers of ours.

`X-Ownlab-Position: RUNTIME/NUMBER`, in the answer to an opening: everything that the runtime said up to this number is in
the notebook. `X-Ownlab-Seen: RUNTIME/NUMBER`, in the request to save: up to here the page had shown it.
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
from ownlab.lab.server.contents import Exchange, OwnlabContents, exchange

__all__ = ["POSITION", "SEEN", "OwnlabContentsHandler", "contents_handlers"]

POSITION = "X-Ownlab-Position"
SEEN = "X-Ownlab-Seen"
_PLACE = re.compile(r"([\w-]{1,100})/(\d{1,19})", re.ASCII)


class OwnlabContentsHandler(ContentsHandler):
    """/api/contents/PATH."""

    async def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Called by tornado before the request's method, in the same task."""
        self._exchange = Exchange(_seen(self.request.headers.get(SEEN, "")))
        exchange.set(self._exchange)
        await super().prepare(*args, **kwargs)

    def _finish_model(self, model: dict[str, Any], location: bool = True) -> None:
        """Called by Jupyter's own methods with their answer."""
        if self._exchange.position is not None and self.request.method == "GET":
            runtime, number = self._exchange.position
            self.set_header(POSITION, f"{runtime}/{number}")
        try:
            answer = encode_json(model)
        except (TypeError, ValueError, msgspec.MsgspecError):  # half a character, and what else Python lets pass
            super()._finish_model(model, location)  # type: ignore[no-untyped-call]
            return
        # As Jupyter's own, in a third of the time, and of the page's: a notebook may have 50 MB of pictures.
        if location:
            self.set_header("Location", self.location_url(model["path"]))  # type: ignore[no-untyped-call]
        self.set_header("Last-Modified", model["last_modified"])
        self.set_header("Content-Type", "application/json")
        self.finish(answer)


class CatchUp(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /ownlab/api/notebooks/catch-up."""

    notebook: str  # absolute


class CatchUpHandler(APIHandler):
    """POST /ownlab/api/notebooks/catch-up: asked by a run that was begun outside of the lab, when it is done."""

    auth_resource = "contents"

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Write into a notebook's file what its runtimes said."""
        try:
            given = msgspec.json.decode(self.request.body, type=CatchUp)
        except msgspec.DecodeError as exc:
            raise web.HTTPError(400, f"the body of the request cannot be used: {exc}") from exc
        contents = self.contents_manager
        assert isinstance(contents, OwnlabContents)
        if not await contents.catch_up(given.notebook):
            raise web.HTTPError(409, f"{given.notebook} is not in this lab's folder, or cannot be brought up to date")
        self.finish("{}")


def contents_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Jupyter's own list, with our handler in the place of its own; before it in the server's table."""
    own = [
        (address, OwnlabContentsHandler if handler is ContentsHandler else handler)
        for address, handler in default_handlers
        if address.startswith("/api/contents")
    ]
    return [*own, ("/ownlab/api/notebooks/catch-up", CatchUpHandler)]


def _seen(header: str) -> SeenPosition | None:
    found = _PLACE.fullmatch(header.strip())
    return SeenPosition(found[1], int(found[2])) if found else None

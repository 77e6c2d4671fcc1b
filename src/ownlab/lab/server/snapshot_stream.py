"""The stream: a websocket on which a page gets snapshots while somebody sees it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from msgspec import Struct
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from ownlab.errors import OwnlabError
from ownlab.json_encoding import encode_json
from ownlab.lab.runtimes.records import Snapshot
from ownlab.lab.server.snapshot_service import Lookout

__all__ = ["StreamHandler", "Visibility", "document_of"]

_NOT_UNDERSTOOD = 1003  # RFC 6455, 7.4.1: data that cannot be accepted


class Visibility(Struct, frozen=True, forbid_unknown_fields=True):
    """What a page says: whether it is in the foreground."""

    visible: bool


def document_of(found: Snapshot | Struct | OwnlabError) -> bytes:
    """A result as JSON; a failure as `ownlab … --json` prints it."""
    if isinstance(found, OwnlabError):
        from ownlab.render.documents import Failure  # loads much, and is seldom needed

        return encode_json(Failure.of(found))
    return encode_json(found)


class StreamHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """GET /ownlab/api/stream."""

    auth_resource = "kernels"
    _told_at = 0.0  # the page has the history up to here

    @property
    def lookout(self) -> Lookout:
        """The one of this server."""
        found: Lookout = self.settings["ownlab_lookout"]
        return found

    def set_default_headers(self) -> None:
        """Those of JupyterHandler make no sense for a websocket."""

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Called by tornado before the websocket opens; it checks the origin."""
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", self.auth_resource)):
            raise web.HTTPError(403)
        await super().get(*args, **kwargs)

    async def open(self, *args: str, **kwargs: str) -> None:
        """Called by tornado when it is open: the page gets something to show at once."""
        super().open(*args, **kwargs)
        self.lookout.watch(self.tell)
        try:
            self.tell(await self.lookout.snapshot())
        except OwnlabError as exc:
            self.tell(exc)

    def on_message(self, message: str | bytes) -> None:
        """Called by tornado."""
        try:
            said = msgspec.json.decode(message, type=Visibility)
        except msgspec.DecodeError as exc:
            self.close(_NOT_UNDERSTOOD, str(exc)[:100])
            return
        self.lookout.show(self.tell, said.visible)

    def on_close(self) -> None:
        """Called by tornado."""
        self.lookout.forget(self.tell)

    def tell(self, found: Snapshot | OwnlabError) -> None:
        """Called by the lookout."""
        if isinstance(found, Snapshot):
            found = self._news_of(found)
        try:
            sent = self.write_message(document_of(found).decode())
        except WebSocketClosedError:
            self.lookout.forget(self.tell)
        else:
            sent.add_done_callback(_heed)

    def _news_of(self, found: Snapshot) -> Snapshot:
        """Of the history only what the page has not got; all of it where the clock was set back."""
        after = self._told_at if self._told_at <= found.at else 0.0
        self._told_at = found.at
        news = tuple(point for point in found.history if point.at > after)
        return msgspec.structs.replace(found, history=news)


def _heed(sent: asyncio.Future[None]) -> None:
    """A page that closes while it is told something is no error; `on_close` follows."""
    failure = None if sent.cancelled() else sent.exception()
    if failure is not None and not isinstance(failure, WebSocketClosedError):
        raise failure

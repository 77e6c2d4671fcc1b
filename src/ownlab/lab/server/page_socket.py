"""The base of the websockets on which this server sends news to a page."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketHandler

from ownlab.lab.server.page_errors import InPageLanguage

__all__ = ["PageSocket"]


class PageSocket(InPageLanguage, WebSocketMixin, WebSocketHandler, JupyterHandler):
    """A websocket of a person who may read `auth_resource`, which subclasses name."""

    auth_resource = ""

    def set_default_headers(self) -> None:
        """Skip the headers of JupyterHandler: they do not apply to a websocket."""

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Called by tornado before the websocket opens. The base class checks the origin."""
        if not await ensure_async(self.authorizer.is_authorized(self, self.current_user, "read", self.auth_resource)):
            raise web.HTTPError(403)
        await super().get(*args, **kwargs)

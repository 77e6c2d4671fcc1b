"""GET /ownlab/metrics: what cards, notebooks and the machine do, for Prometheus."""

from __future__ import annotations

from pathlib import Path

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.base.handlers import APIHandler
from tornado import web

from ownlab.config.loader import resolve_lab_options
from ownlab.errors import InputError, OwnlabError
from ownlab.lab.server.snapshot_service import Lookout

__all__ = ["MetricsHandler"]


class MetricsHandler(APIHandler):
    """For whoever may read the lab, and for whoever has the token in the file `metrics.token_file`."""

    auth_resource = "kernels"
    _track_activity = False  # a scraper is nobody who works here

    @allow_unauthenticated
    async def get(self) -> None:
        """Asked every few seconds, day and night; what it costs is one look at the machine."""
        if not await self._may():
            raise web.HTTPError(403)
        from ownlab.instruments.top.prometheus import CONTENT_TYPE

        lookout: Lookout = self.settings["ownlab_lookout"]
        try:
            said = await lookout.metrics()
        except OwnlabError as exc:
            raise web.HTTPError(exc.http_status, exc.message) from exc
        self.finish(said, set_content_type=CONTENT_TYPE)

    async def _may(self) -> bool:
        if self.current_user is not None:
            allowed = self.authorizer.is_authorized(self, self.current_user, "read", self.auth_resource)
            return bool(await ensure_async(allowed))
        header = self.request.headers.get("Authorization", "")
        return bool(header) and self._has_token(header)

    def _has_token(self, header: str) -> bool:
        from ownlab.instruments.top.metrics_server import has_token, read_token

        try:
            # Read anew each time: a token is changed without a restart.
            file = resolve_lab_options().metrics_token_file
            return file is not None and has_token(header, read_token(Path(file)))
        except InputError as exc:
            self.log.warning("ownlab: %s %s", exc.message, exc.hint)
            return False

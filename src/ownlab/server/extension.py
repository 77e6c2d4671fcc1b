"""The server extension: our routes in a Jupyter server, a lab's or any other (then without adoption)."""

from __future__ import annotations

from functools import partial
from typing import Any

from jupyter_server.extension.application import ExtensionApp

from ownlab.lab.runtimes.records import Snapshot
from ownlab.server.lookout import Lookout
from ownlab.server.routes import handlers
from ownlab.server.specs import OwnlabSpecManager, as_listed

__all__ = ["OwnlabExtension"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "ownlab.server.extension", "app": OwnlabExtension}]


class OwnlabExtension(ExtensionApp):
    """Runtimes, cards and types for the page."""

    name = "ownlab"

    def initialize_settings(self) -> None:
        """Called by the server before it listens: nothing is read yet."""
        assert self.serverapp is not None
        specs = self.serverapp.kernel_spec_manager
        listed = partial(as_listed, specs=specs) if isinstance(specs, OwnlabSpecManager) else _as_it_is
        self.settings["ownlab_lookout"] = Lookout(self.log, listed)

    def initialize_handlers(self) -> None:
        """Called by the server."""
        self.handlers.extend(handlers())

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        """Called once the server listens."""
        self.settings["ownlab_lookout"].start()

    async def stop_extension(self) -> None:
        """Called when the server ends."""
        await self.settings["ownlab_lookout"].close()


def _as_it_is(found: Snapshot) -> Snapshot:
    return found

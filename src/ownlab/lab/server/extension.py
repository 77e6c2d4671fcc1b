"""The server extension: our routes in a Jupyter server, a lab's or any other (then without adoption)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from tornado.web import Application

from ownlab.lab.runtimes.journals import Journals
from ownlab.lab.runtimes.records import Snapshot
from ownlab.lab.server.autosave import Scribe
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.server.contents_handlers import contents_handlers
from ownlab.lab.server.drive import Drive, drive_handlers
from ownlab.lab.server.kernels import OwnlabKernelManager
from ownlab.lab.server.kernelspecs import OwnlabSpecManager, as_listed
from ownlab.lab.server.routes import handlers
from ownlab.lab.server.snapshot_service import Lookout

__all__ = ["OwnlabExtension"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "ownlab.lab.server.extension", "app": OwnlabExtension}]


class OwnlabExtension(ExtensionApp):
    """Runtimes, cards and types for the page."""

    name = "ownlab"
    _scribe: Scribe | None = None

    def initialize_settings(self) -> None:
        """Called by the server before it listens: nothing is read yet."""
        assert self.serverapp is not None
        specs = self.serverapp.kernel_spec_manager
        listed = partial(as_listed, specs=specs) if isinstance(specs, OwnlabSpecManager) else _as_it_is
        self.settings["ownlab_lookout"] = Lookout(self.log, listed)
        contents = self.serverapp.contents_manager
        self.settings["ownlab_journals"] = contents.journals if isinstance(contents, OwnlabContents) else Journals()
        if isinstance(contents, OwnlabContents):
            self.settings["ownlab_drive"] = drive = Drive(contents)
            contents.elsewhere = drive.catch_up

    def initialize_handlers(self) -> None:
        """Called by the server."""
        assert self.serverapp is not None
        self.handlers.extend(handlers())
        if isinstance(self.serverapp.contents_manager, OwnlabContents):
            self.handlers.extend([*contents_handlers(), *drive_handlers()])

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        """Called once the server listens."""
        self.settings["ownlab_lookout"].start()
        self._scribe = _scribe(serverapp)
        if self._scribe is not None:
            self._scribe.start()
            # Of a lab's server alone: others have jupyter-server-proxy's own door, where it is installed.
            add_ports = await asyncio.to_thread(_import_ports)
            add_ports(serverapp.web_app)

    async def stop_extension(self) -> None:
        """Called when the server ends."""
        if self._scribe is not None:
            await self._scribe.close()
        self.settings["ownlab_journals"].close()
        await self.settings["ownlab_lookout"].close()


def _scribe(serverapp: Any) -> Scribe | None:
    """Only a lab's server writes into its notebooks by itself."""
    contents, kernels = serverapp.contents_manager, serverapp.kernel_manager
    if not isinstance(contents, OwnlabContents) or not isinstance(kernels, OwnlabKernelManager):
        return None
    scribe = Scribe(contents, kernels, kernels.ownlab_lab or "", serverapp.log)
    kernels.activity.changed.append(scribe.note)
    return scribe


def _import_ports() -> Callable[[Application], None]:
    """It takes a while, and nobody waits for it."""
    from ownlab.lab.server.port_proxy import add_ports

    return add_ports


def _as_it_is(found: Snapshot) -> Snapshot:
    return found

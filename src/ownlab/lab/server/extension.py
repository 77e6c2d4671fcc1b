"""The server extension: adds ownlab's routes to a Jupyter server, also to one that `ownlab up` did not start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from tornado.web import Application

from ownlab.lab.runtimes.journals import Journals
from ownlab.lab.runtimes.records import Snapshot
from ownlab.lab.server.autosave import Autosave
from ownlab.lab.server.checked_requests import checked_handlers, refuse_malformed_paths
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.server.contents_handlers import contents_handlers
from ownlab.lab.server.drive import Drive, drive_handlers
from ownlab.lab.server.edit_handlers import EditService, edit_handlers
from ownlab.lab.server.history import history_handlers
from ownlab.lab.server.kernels import OwnlabKernelManager
from ownlab.lab.server.kernelspecs import OwnlabSpecManager, as_listed
from ownlab.lab.server.page_extensions import add_to_page
from ownlab.lab.server.routes import handlers
from ownlab.lab.server.runtime_files import runtime_file_handlers
from ownlab.lab.server.snapshot_service import SnapshotService
from ownlab.lab.server.start_page import StartService, start_handlers
from ownlab.lab.server.terminals import add_terminal_route
from ownlab.lab.service.labs import labs_folder

__all__ = ["OwnlabExtension"]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": "ownlab.lab.server.extension", "app": OwnlabExtension}]


class OwnlabExtension(ExtensionApp):
    """Connects ownlab to a Jupyter server."""

    name = "ownlab"
    _autosave: Autosave | None = None

    def initialize_settings(self) -> None:
        """Called by the server before it listens. Reads nothing yet."""
        assert self.serverapp is not None
        specs = self.serverapp.kernel_spec_manager
        rename_types = partial(as_listed, specs=specs) if isinstance(specs, OwnlabSpecManager) else _unchanged
        self.settings["ownlab_snapshots"] = SnapshotService(self.log, rename_types, self.serverapp.root_dir)
        kernels = self.serverapp.kernel_manager
        if isinstance(kernels, OwnlabKernelManager) and kernels.ownlab_lab:
            folder = labs_folder() / f"{kernels.ownlab_lab}.extensions"
            self.settings["page_config_hook"] = lambda handler, page_config: _set_app_name(
                add_to_page(page_config, folder)
            )
        contents = self.serverapp.contents_manager
        self.settings["ownlab_journals"] = contents.journals if isinstance(contents, OwnlabContents) else Journals()
        if isinstance(contents, OwnlabContents):
            self.settings["ownlab_drive"] = drive = Drive(contents)
            contents.update_elsewhere = drive.update_file
            contents.refresh_elsewhere = drive.refresh
            self.settings["ownlab_edits"] = EditService(contents, drive, self.log)
            self.settings["ownlab_start_page"] = StartService(contents, self.settings["ownlab_snapshots"])

    def initialize_handlers(self) -> None:
        """Called by the server."""
        assert self.serverapp is not None
        self.handlers.extend(handlers())
        if isinstance(self.serverapp.contents_manager, OwnlabContents):
            self.handlers.extend([*contents_handlers(), *checked_handlers(), *drive_handlers(), *edit_handlers()])
            self.handlers.extend([*history_handlers(), *runtime_file_handlers(), *start_handlers()])
            if self.settings.get("terminals_available"):
                add_terminal_route(self.serverapp.web_app)
            refuse_malformed_paths(self.serverapp.web_app)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        """Called once the server listens."""
        self.settings["ownlab_snapshots"].start()
        if "ownlab_edits" in self.settings:
            self.settings["ownlab_edits"].start()
        self._autosave = _create_autosave(serverapp)
        if self._autosave is not None:
            self._autosave.start()
            # Only in a lab server: others use jupyter-server-proxy's own route, if it is installed.
            add_ports = await asyncio.to_thread(_import_ports)
            add_ports(serverapp.web_app)

    async def stop_extension(self) -> None:
        """Called when the server stops."""
        if self._autosave is not None:
            await self._autosave.close()
        if "ownlab_edits" in self.settings:
            await self.settings["ownlab_edits"].close()
        self.settings["ownlab_journals"].close()
        await self.settings["ownlab_snapshots"].close()


def _create_autosave(serverapp: Any) -> Autosave | None:
    """Only a lab server writes to its notebooks on its own."""
    contents, kernels = serverapp.contents_manager, serverapp.kernel_manager
    if not isinstance(contents, OwnlabContents) or not isinstance(kernels, OwnlabKernelManager):
        return None
    autosave = Autosave(contents, kernels, kernels.ownlab_lab or "", serverapp.log)
    kernels.activity.listeners.append(autosave.on_kernel_change)
    return autosave


def _import_ports() -> Callable[[Application], None]:
    """Import the proxy, which is slow, in a thread."""
    from ownlab.lab.server.port_proxy import add_ports

    return add_ports


def _set_app_name(page_config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a page with the product's name, which appears in the title of the browser's tab."""
    return {**page_config, "appName": "ownlab"}


def _unchanged(snapshot: Snapshot) -> Snapshot:
    return snapshot

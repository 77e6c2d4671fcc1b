"""A runtime's /content in the file browser: Jupyter's routes for files again, below /ownlab/content/RUNTIME.

The kernel sees the folder as /content, in its own mounts; here it is a folder of the state folder. No path and no link leads
out of it. What is mounted in it (the drive) is not visible here.
"""

# mypy: disable-error-code="no-untyped-call,misc,override"

from __future__ import annotations

import errno
import json
import os
import re
from datetime import datetime, timezone
from typing import Any

from jupyter_core.paths import is_hidden
from jupyter_server.base.handlers import AuthenticatedFileHandler, JupyterHandler
from jupyter_server.services.contents.checkpoints import AsyncCheckpoints
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from tornado import web
from traitlets import default

from ownlab.config.paths import content_folder
from ownlab.lab.journal.storage import RUNTIME_ID
from ownlab.lab.runtimes.drive import leaves_drive
from ownlab.lab.runtimes.state import plan_of
from ownlab.lab.server.contents_handlers import contents_handlers
from ownlab.lab.server.full_disk import reported_full_disk
from ownlab.lab.server.page_errors import InPageLanguage, PageError
from ownlab.text import text

__all__ = ["RuntimeContents", "runtime_file_handlers"]

_ADDRESS = "/ownlab/content"
_RUNTIME = re.compile(rf"{_ADDRESS}/({RUNTIME_ID})/")
# As google.colab writes it: where the drive is mounted. On this side, that folder is empty.
_DRIVE = os.path.join(".config", "drive.json")


class OutsideContent(PageError, OSError):
    """A link leads out of /content. Listings skip a file that raises an OSError with ELOOP; other requests answer 403."""

    def __init__(self, path: str) -> None:
        super().__init__(403, text("{path} leads out of the runtime's files.", path=path))
        self.errno = errno.ELOOP


class NoCheckpoints(AsyncCheckpoints):
    """None are kept: their folders would be among the data of a notebook, which reads whole folders."""

    async def create_checkpoint(self, contents_mgr: Any, path: str) -> dict[str, Any]:
        """Called by JupyterLab after each save."""
        return {"id": "none", "last_modified": datetime.now(timezone.utc)}

    async def list_checkpoints(self, path: str) -> list[dict[str, Any]]:
        """Called by JupyterLab when it opens a file, and before files are renamed or deleted."""
        return []

    async def restore_checkpoint(self, contents_mgr: Any, checkpoint_id: str, path: str) -> None:
        """Called by the REST API."""
        raise PageError(404, text("Earlier versions of a runtime's files are not kept."))

    async def delete_checkpoint(self, checkpoint_id: str, path: str) -> None:
        """Called by the REST API."""
        raise PageError(404, text("Earlier versions of a runtime's files are not kept."))

    async def rename_checkpoint(self, checkpoint_id: str, old_path: str, new_path: str) -> None:
        """There is none."""


class RuntimeContents(AsyncLargeFileManager):
    """The files of one runtime."""

    @default("checkpoints_class")
    def _own_checkpoints(self) -> type[NoCheckpoints]:
        return NoCheckpoints

    @default("delete_to_trash")
    def _delete_at_once(self) -> bool:
        return False  # as in the notebook

    def _get_os_path(self, path: str) -> str:
        """Called by everything that opens a file."""
        os_path = str(super()._get_os_path(path))
        if leaves_drive(os_path, self.root_dir):
            raise OutsideContent(path)
        return os_path

    async def _dir_model(self, path: str, content: bool = True) -> dict[str, Any]:
        """Called by `get`. The folder on which the drive is mounted is left out: on this side it is empty."""
        model: dict[str, Any] = await super()._dir_model(path, content)
        mounted = _mount_point(self.root_dir) if content else ""
        if mounted:
            model["content"] = [each for each in model["content"] if each["path"].strip("/") != mounted]
        return model

    async def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Called by the REST API, for each chunk of a large file."""
        with reported_full_disk(path):
            saved: dict[str, Any] = await super().save(model, path)
        return saved


def _mount_point(root: str) -> str:
    """Return where the drive is mounted, relative to /content; "" if it is not mounted there."""
    try:
        with open(os.path.join(root, _DRIVE), encoding="utf-8") as file:
            point = json.load(file)["place"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return str(point).removeprefix("/content/").strip("/") if str(point).startswith("/content/") else ""


class RuntimeFilesMixin(InPageLanguage, JupyterHandler):
    """Makes one of Jupyter's handlers work on the files of the runtime that the address names."""

    @property
    def contents_manager(self) -> RuntimeContents:
        """Called by all methods of the handlers."""
        runtime = self._runtime()
        folder = str(content_folder(runtime))
        if plan_of(runtime) is None:
            raise PageError(404, text("This runtime has ended."))
        if not os.path.isdir(folder):
            raise PageError(404, text("This runtime has no folder /content, because it is not in Colab mode."))
        known: dict[str, RuntimeContents] = self.settings.setdefault("ownlab_runtime_files", {})
        if folder not in known:
            # Without a parent: none of the server's settings for its own folder applies here.
            known[folder] = RuntimeContents(root_dir=folder)
        return known[folder]

    def location_url(self, path: str) -> str:
        """Called after a file was created."""
        return f"{self.base_url.rstrip('/')}{_ADDRESS}/{self._runtime()}/api/contents/{path}"

    def _runtime(self) -> str:
        match = _RUNTIME.search(self.request.path)
        assert match is not None  # the routes have it
        return match[1]


class RuntimeFiles(RuntimeFilesMixin, AuthenticatedFileHandler):
    """/ownlab/content/RUNTIME/files/PATH: the raw file, for downloads and images."""

    def initialize(self) -> None:
        """Called by tornado before authentication. The folder is determined later."""
        super().initialize(path="")

    def validate_absolute_path(self, root: str, absolute_path: str) -> str:
        """Called by tornado before it opens the file."""
        contents = self.contents_manager
        os_path = contents._get_os_path(self.path)
        if is_hidden(os_path, contents.root_dir) or not os.path.isfile(os_path):
            raise web.HTTPError(404)
        return os_path


def runtime_file_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return pairs of route (below the server's base URL) and handler."""
    variants: dict[type, type[web.RequestHandler]] = {}
    for _, handler in contents_handlers():
        variants.setdefault(handler, type(f"Runtime{handler.__name__}", (RuntimeFilesMixin, handler), {}))
    runtime = f"{_ADDRESS}/{RUNTIME_ID}"
    own = [
        (f"{runtime}{address}", variants[handler])
        for address, handler in contents_handlers()
        if "/api/contents" in address
    ]
    return [*own, (rf"{runtime}/files/(.*)", RuntimeFiles)]

"""The user's drive in the file browser: Jupyter's routes for files again, below /ownlab/drive.

In JupyterLab its paths begin with "drive:". Notebooks in the drive work like those in the lab's folder: they have
journals, and their kernels start in their folder. No path and no link leads out of the drive.
"""

# mypy: disable-error-code="no-untyped-call,misc,override"

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Any

from jupyter_core.paths import is_hidden
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.services.contents.filecheckpoints import AsyncFileCheckpoints
from tornado import web
from traitlets import default

from ownlab.errors import LabError
from ownlab.lab.runtimes.drive import MY_DRIVE, PREFIX, drive_root, is_drive_path, leaves_drive, path_in_drive
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.server.contents_handlers import CurrentFileHandler, contents_handlers
from ownlab.lab.server.page_errors import PageError
from ownlab.text import sentence, sentences, text

__all__ = ["Drive", "DriveContents", "drive_handlers", "file_of"]

_ADDRESS = "/ownlab/drive"


class OutsideDrive(PageError, OSError):
    """A link leads out of the drive.

    Listings skip a file that raises an OSError with ELOOP; other requests answer 403.
    """

    def __init__(self, path: str) -> None:
        super().__init__(403, text("{path} leads out of the drive.", path=path))
        self.errno = errno.ELOOP


class DriveCheckpoints(AsyncFileCheckpoints):
    """Checkpoints next to the files, as elsewhere, with the same path resolution."""

    def _get_os_path(self, path: str) -> str:
        assert self.parent is not None
        return str(self.parent._get_os_path(path))


class DriveContents(OwnlabContents):
    """The files of the drive."""

    @default("checkpoints_class")
    def _own_checkpoints(self) -> type[DriveCheckpoints]:
        return DriveCheckpoints

    def _get_os_path(self, path: str) -> str:
        """Called by everything that opens a file. The top level is not a folder: it only contains MyDrive."""
        inside = path_in_drive(path) if path.strip("/") else ""
        if inside is None:
            raise PageError(403, text("Files can be created only inside {folder}.", folder=MY_DRIVE))
        os_path = str(super()._get_os_path(inside))
        if leaves_drive(os_path, self.root_dir):
            raise OutsideDrive(path)
        return os_path

    def _api_path(self, notebook: str) -> str | None:
        """Called by `update_file`."""
        path = super()._api_path(notebook)
        return None if path is None else f"{MY_DRIVE}/{path}"

    async def _dir_model(self, path: str, content: bool = True) -> dict[str, Any]:
        """Called by `get`."""
        if path.strip("/") or not content:
            model: dict[str, Any] = await super()._dir_model(path, content)
            return model
        top = self._base_model("")
        mine = await super()._dir_model(MY_DRIVE, content=False)
        return {**top, "type": "directory", "size": None, "format": "json", "writable": False, "content": [mine]}

    async def rename(self, old_path: str, new_path: str) -> None:
        """Called by the REST API."""
        self._refuse_top_level(old_path)
        await super().rename(old_path, new_path)

    async def delete(self, path: str) -> None:
        """Called by the REST API."""
        self._refuse_top_level(path)
        await super().delete(path)

    def _refuse_top_level(self, path: str) -> None:
        if not path_in_drive(path):
            raise PageError(403, text("The drive itself cannot be renamed or deleted here."))


class Drive:
    """The drive of one server."""

    def __init__(self, lab_contents: OwnlabContents) -> None:
        self._lab_contents = lab_contents
        self._contents: DriveContents | None = None

    def contents(self) -> DriveContents:
        """Return the contents manager of the drive's current folder.

        Raises LabError for a remote that is not mounted.
        """
        root = drive_root()
        if self._contents is None or self._contents.root_dir != root:
            self._contents = DriveContents(self._lab_contents, parent=self._lab_contents.parent, root_dir=root)
            self._contents.on_new_version = self._lab_contents.on_new_version
            self._contents.on_renamed = self._on_renamed
        return self._contents

    def _on_renamed(self, old: str, new: str) -> None:
        if self._lab_contents.on_renamed is not None:
            self._lab_contents.on_renamed(PREFIX + old, PREFIX + new)

    async def refresh(self, notebook: str) -> None:
        """Same as `refresh` of the lab's contents manager."""
        with suppress(LabError):  # not mounted now
            await self.contents().refresh(notebook)

    async def update_file(self, notebook: str) -> bool:
        """Same as `update_file` of the lab's contents manager."""
        try:
            contents = self.contents()
        except LabError:
            return False
        return await contents.update_file(notebook)


class DriveHandlerMixin(JupyterHandler):
    """Makes one of Jupyter's handlers work on the drive's files."""

    @property
    def contents_manager(self) -> DriveContents:
        """Called by all methods of the handlers."""
        return _contents(self.settings)

    def location_url(self, path: str) -> str:
        """Called after a file was created."""
        return f"{self.base_url.rstrip('/')}{_ADDRESS}/api/contents/{path}"


class DriveFiles(DriveHandlerMixin, CurrentFileHandler):
    """/ownlab/drive/files/PATH: the raw file, for downloads and images."""

    def initialize(self) -> None:
        """Called by tornado before authentication. The location of the drive is determined later."""
        super().initialize(path="")

    def validate_absolute_path(self, root: str, absolute_path: str) -> str:
        """Called by tornado before it opens the file. The base class would look for a remote's files in our mounts."""
        contents = self.contents_manager
        os_path = contents._get_os_path(f"{MY_DRIVE}/{self.path}")
        if is_hidden(os_path, contents.root_dir) or not os.path.isfile(os_path):
            raise web.HTTPError(404)
        return os_path


def drive_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return pairs of route (below the server's base URL) and handler."""
    variants: dict[type, type[web.RequestHandler]] = {}
    for _, handler in contents_handlers():
        variants.setdefault(handler, type(f"Drive{handler.__name__}", (DriveHandlerMixin, handler), {}))
    own = [
        (f"{_ADDRESS}{address}", variants[handler])
        for address, handler in contents_handlers()
        if "/api/contents" in address
    ]
    return [*own, (rf"{_ADDRESS}/files/{MY_DRIVE}/(.*)", DriveFiles)]


def file_of(handler: JupyterHandler, path: str) -> str | None:
    """Return the file that a JupyterLab path means; None if there is none on this server."""
    try:
        if is_drive_path(path):
            return _contents(handler.settings)._get_os_path(path)
        contents = handler.contents_manager
        return str(contents._get_os_path(path)) if isinstance(contents, OwnlabContents) else None
    except web.HTTPError:
        return None


def _contents(settings: dict[str, Any]) -> DriveContents:
    drive: Drive | None = settings.get("ownlab_drive")
    if drive is None:
        raise PageError(404, text("This server has no drive, because it was not started by `ownlab up`."))
    try:
        return drive.contents()
    except LabError as exc:
        raise PageError(exc.http_status, sentences(sentence(exc.message), exc.hint)) from exc

"""The person's drive for the file browser: Jupyter's addresses for files once more, below /ownlab/drive.

In JupyterLab its paths begin with "drive:". Notebooks in it are as those of the lab's folder: with journals, and kernels
that work in their folder. No path and no link leads out of it.
"""

# mypy: disable-error-code="no-untyped-call,misc,override"

from __future__ import annotations

import errno
import os
from typing import Any

from jupyter_core.paths import is_hidden
from jupyter_server.base.handlers import AuthenticatedFileHandler, JupyterHandler
from jupyter_server.services.contents.filecheckpoints import AsyncFileCheckpoints
from tornado import web
from traitlets import default

from ownlab.errors import LabError
from ownlab.lab.runtimes.drive import MY_DRIVE, drive_root, is_drive_path, leaves_drive, path_in_drive
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.server.contents_handlers import contents_handlers

__all__ = ["Drive", "DriveContents", "drive_handlers", "file_of"]

_ADDRESS = "/ownlab/drive"


class LeadsOut(web.HTTPError, OSError):
    """Of a link out of the drive. Listings pass over a file that raises an OSError with ELOOP, others answer 403."""

    def __init__(self, path: str) -> None:
        super().__init__(403, f"{path} leads out of the drive")
        self.errno = errno.ELOOP


class DriveCheckpoints(AsyncFileCheckpoints):
    """BackgroundCall the files, as everywhere; found by the same way."""

    def _get_os_path(self, path: str) -> str:
        assert self.parent is not None
        return str(self.parent._get_os_path(path))


class DriveContents(OwnlabContents):
    """The files of the drive."""

    @default("checkpoints_class")
    def _own_checkpoints(self) -> type[DriveCheckpoints]:
        return DriveCheckpoints

    def _get_os_path(self, path: str) -> str:
        """Called by everything that opens a file. The top is no folder of its own: it shows MyDrive, and takes nothing."""
        inside = path_in_drive(path) if path.strip("/") else ""
        if inside is None:
            raise web.HTTPError(403, f"BackgroundCall {MY_DRIVE} nothing can be made.")
        os_path = str(super()._get_os_path(inside))
        if leaves_drive(os_path, self.root_dir):
            raise LeadsOut(path)
        return os_path

    def _api_path(self, notebook: str) -> str | None:
        """Called to catch up."""
        path = super()._api_path(notebook)
        return None if path is None else f"{MY_DRIVE}/{path}"

    async def _dir_model(self, path: str, content: bool = True) -> dict[str, Any]:
        """Called by `get`."""
        if path.strip("/") or not content:
            found: dict[str, Any] = await super()._dir_model(path, content)
            return found
        model = self._base_model("")
        mine = await super()._dir_model(MY_DRIVE, content=False)
        return {**model, "type": "directory", "size": None, "format": "json", "writable": False, "content": [mine]}

    async def rename(self, old_path: str, new_path: str) -> None:
        """Called by REST."""
        self._refuse_the_whole(old_path)
        await super().rename(old_path, new_path)

    async def delete(self, path: str) -> None:
        """Called by REST."""
        self._refuse_the_whole(path)
        await super().delete(path)

    def _refuse_the_whole(self, path: str) -> None:
        if not path_in_drive(path):
            raise web.HTTPError(403, "The drive itself can be neither moved nor removed here.")


class Drive:
    """One for a server."""

    def __init__(self, beside: OwnlabContents) -> None:
        self._beside = beside
        self._contents: DriveContents | None = None

    def contents(self) -> DriveContents:
        """Its files, where they are now. LabError where it is a remote that is not mounted."""
        root = drive_root()
        if self._contents is None or self._contents.root_dir != root:
            self._contents = DriveContents(self._beside, parent=self._beside.parent, root_dir=root)
        return self._contents

    async def catch_up(self, notebook: str) -> bool:
        """As that of the lab's own contents."""
        try:
            contents = self.contents()
        except LabError:
            return False
        return await contents.catch_up(notebook)


class DriveDoor(JupyterHandler):
    """Before a handler of Jupyter's: it is the drive's files that are meant."""

    @property
    def contents_manager(self) -> DriveContents:
        """Called by every method of theirs."""
        return _contents(self.settings)

    def location_url(self, path: str) -> str:
        """Called where a file was made."""
        return f"{self.base_url.rstrip('/')}{_ADDRESS}/api/contents/{path}"


class DriveFiles(DriveDoor, AuthenticatedFileHandler):
    """/ownlab/drive/files/PATH: a file as it is, for downloads and pictures."""

    def initialize(self) -> None:
        """Called by tornado, before it is known who asks: where the drive is, is found out later."""
        super().initialize(path="")

    def validate_absolute_path(self, root: str, absolute_path: str) -> str:
        """Called by tornado before it opens the file. Its own would look for a remote's files in our mounts."""
        contents = self.contents_manager
        os_path = contents._get_os_path(f"{MY_DRIVE}/{self.path}")
        if is_hidden(os_path, contents.root_dir) or not os.path.isfile(os_path):
            raise web.HTTPError(404)
        return os_path


def drive_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Address below the server's base address -> handler."""
    doors: dict[type, type[web.RequestHandler]] = {}
    for _, handler in contents_handlers():
        doors.setdefault(handler, type(f"Drive{handler.__name__}", (DriveDoor, handler), {}))
    own = [
        (f"{_ADDRESS}{address}", doors[handler])
        for address, handler in contents_handlers()
        if "/api/contents" in address
    ]
    return [*own, (rf"{_ADDRESS}/files/{MY_DRIVE}/(.*)", DriveFiles)]


def file_of(handler: JupyterHandler, path: str) -> str | None:
    """The file that JupyterLab means by a path; None where it means none here."""
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
        raise web.HTTPError(404, "This server was not started by `ownlab up`: it has no drive.")
    try:
        return drive.contents()
    except LabError as exc:
        raise web.HTTPError(exc.http_status, f"{exc.message[0].upper()}{exc.message[1:]}. {exc.hint}") from exc

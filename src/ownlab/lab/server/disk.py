"""How full the disk with the lab's folder is, and which folder the drive is: for the file browser and a warning."""

from __future__ import annotations

import asyncio
import os
import shutil

from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from tornado import web

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import drive_folder
from ownlab.errors import LabError
from ownlab.lab.server.routes import RouteHandler
from ownlab.text import text

__all__ = ["DiskHandler", "DiskUse", "is_nearly_full"]

_GB = 1e9
# Of small disks, and the least that is worth a warning.
_LOW_SHARE, _LOW_BYTES = 0.05, 2 * _GB


class DiskUse(Struct, frozen=True):
    """The file system with the lab's folder. Sizes are in bytes."""

    folder: str
    total: int
    free: int  # for this user
    nearly_full: bool
    drive: str | None  # the folder that notebooks mount as their drive; None: a remote


class DiskHandler(RouteHandler):
    """GET /ownlab/api/disk."""

    _track_activity = False  # pages ask by themselves

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return how full the disk is."""
        folder = os.path.expanduser(self.settings["server_root_dir"])
        await self.answer(asyncio.to_thread(_read, folder))


def _read(folder: str) -> DiskUse:
    try:
        usage = shutil.disk_usage(folder)
    except OSError as exc:
        message = text("The free space of {folder} cannot be read: {reason}.", folder=folder, reason=exc.strerror)
        raise LabError(message) from exc
    options = resolve_lab_options()
    nearly_full = is_nearly_full(usage.total, usage.free, options.disk_warning_gb)
    drive = None if options.drive_remote else options.drive_folder or str(drive_folder())
    return DiskUse(folder, usage.total, usage.free, nearly_full, drive)


def is_nearly_full(total: int, free: int, warning_gb: float) -> bool:
    """Whether to warn: below the setting; of a small disk below a twentieth of it, but never later than at 2 GB."""
    return free < min(warning_gb * _GB, max(_LOW_BYTES, _LOW_SHARE * total))

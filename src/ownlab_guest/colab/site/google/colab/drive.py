"""google.colab.drive: the user's own files, mounted as Colab mounts Google Drive.

`MyDrive` is a folder that outlives every runtime, or an rclone remote. No sign-in is needed.
"""

import importlib
import importlib.util
import os
import sys
from typing import Any

__all__ = ["flush_and_unmount", "mount"]


def _load() -> Any:
    """Import drive_mounts; a script that a notebook started has to find it by its path."""
    if "ownlab_guest" not in sys.modules:
        folder = os.path.abspath(__file__)
        for _ in range(5):  # …/ownlab_guest/colab/site/google/colab/drive.py
            folder = os.path.dirname(folder)
        path = os.path.join(folder, "__init__.py")
        spec = importlib.util.spec_from_file_location("ownlab_guest", path, submodule_search_locations=[folder])
        if spec is None:
            raise ImportError("no guest package in " + folder)
        sys.modules["ownlab_guest"] = importlib.util.module_from_spec(spec)
    return importlib.import_module("ownlab_guest.colab.drive_mounts")


def mount(mountpoint: str, force_remount: bool = False, timeout_ms: int = 120000, readonly: bool = False) -> None:
    """Mount the drive as `<mountpoint>/MyDrive`."""
    drives = _load()
    mountpoint = os.path.expanduser(os.fspath(mountpoint))
    if " " in mountpoint:
        raise ValueError("Mountpoint must not contain a space")
    place = drives.resolve(mountpoint)
    if drives.is_mounted(place):
        if not force_remount:
            print(
                f"Drive already mounted at {mountpoint}; to attempt to forcibly remount, "
                f'call drive.mount("{mountpoint}", force_remount=True).'
            )
            return
        _unmount(drives, place, timeout_ms)
    drives.remove_stale_links(place)
    _check(place)
    note = drives.mount(place, readonly, timeout_ms / 1000)
    print(f"Mounted at {mountpoint if not note else place}")
    if note:
        print(note)


def flush_and_unmount(timeout_ms: int = 24 * 60 * 60 * 1000) -> None:
    """Wait until everything is written, then unmount the drive."""
    drives = _load()
    places = drives.mounted()
    if not places:
        print("Drive not mounted, so nothing to flush and unmount.")
    for place in places:
        _unmount(drives, place, timeout_ms)


def _unmount(drives: Any, place: str, timeout_ms: int) -> None:
    try:
        drives.unmount(place, timeout_ms / 1000)
    except OSError as exc:
        raise ValueError(f"unmount failed: {exc}") from exc


def _check(place: str) -> None:
    if os.path.islink(place):
        raise ValueError("Mountpoint must not be a symlink")
    if os.path.isdir(place) and os.listdir(place):
        raise ValueError("Mountpoint must not already contain files")
    if os.path.exists(place) and not os.path.isdir(place):
        raise ValueError("Mountpoint must either be a directory or not exist")
    if not os.path.isdir(os.path.dirname(place)):
        raise ValueError("Mountpoint must be in a directory that exists")

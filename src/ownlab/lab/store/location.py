"""Which store is used: the one that was named, the machine's shared one, or the user's own on a local disk."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ownlab.config.loader import DEFAULT
from ownlab.config.paths import state_folder
from ownlab.config.settings import LabOptions
from ownlab.errors import StoreError
from ownlab.lab.store.layout import read_layout
from ownlab.machine.facts import value_of
from ownlab.machine.host.disks import Mount, is_remote, read_mounts
from ownlab.text import sentences, text

__all__ = ["SHARED_FOLDER", "StoreChoice", "StoreRepair", "StoreView", "choose_store", "mount_of", "view_store"]


class StoreChoice(Struct, frozen=True):
    """A store's folder and the reason for choosing it."""

    folder: str
    shared: bool
    origin: str  # "named by OWNLAB_STORE", "this machine has a shared store"
    notice: str = ""  # a warning for people


class StoreView(Struct, frozen=True):
    """`ownlab store --json`."""

    folder: str
    shared: bool
    origin: str
    notice: str
    made: bool  # False: the first runtime creates it
    filesystem: str | None
    network: bool | None  # None: unknown
    owner: str | None
    group: str | None
    mode: str | None  # "drwxrws---"
    limits: dict[str, float | None] | None  # in seconds, for everyone who shares it


class StoreRepair(Struct, frozen=True):
    """`ownlab store repair --json`."""

    folder: str
    old: str | None  # the new path of what was replaced; None: nothing was wrong


SHARED_FOLDER = "/var/lib/ownlab"


def choose_store(
    options: LabOptions, environ: Mapping[str, str] = os.environ, *, root: Path = Path("/")
) -> StoreChoice:
    """Choose the store. A folder under /var/tmp is created here, so that nobody else can create it first."""
    if options.store_folder is not None:
        folder, origin = options.store_folder, options.origins.get("store.folder", DEFAULT)
        origin_text = text("named by {origin}", origin=origin)
        return StoreChoice(folder, _is_shared(folder), origin_text, _warn(folder, root))
    machines = str(root / SHARED_FOLDER[1:])
    notice = ""
    if _is_shared(machines):
        if os.access(os.path.join(machines, "db"), os.W_OK | os.X_OK):
            return StoreChoice(machines, True, text("this machine has a shared store"), _warn(machines, root))
        notice = text(
            "You may not use this machine's shared store {folder}, so others cannot see which cards you hold."
            " Ask its administrator to add you to its group.",
            folder=machines,
        )
    own = state_folder(environ, make=False)
    mount = mount_of(str(own), root)
    if mount is None or not is_remote(mount):
        return StoreChoice(str(own / "store"), False, text("this machine has no shared store that you may use"), notice)
    local = _make_local(root)
    moved = text(
        "Your home is on a network file system ({filesystem}), where locks may fail: the store is in {folder}.",
        filesystem=mount.filesystem,
        folder=local,
    )
    return StoreChoice(local, False, text("your home is on a network file system"), sentences(notice, moved))


def mount_of(path: str, root: Path = Path("/")) -> Mount | None:
    """Return the mount that holds a path, or would hold it; None if that is unknown."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    real = os.path.realpath(path)
    if root != Path("/"):
        real = "/" + os.path.relpath(real, os.path.realpath(root))
    above = [
        mount
        for mount in value_of(read_mounts(root)) or ()
        if mount.point == "/" or real == mount.point or real.startswith(f"{mount.point}/")
    ]
    # The longest mount point; of several mounts on the same point, the last one covers the others.
    return max(enumerate(above), key=lambda pair: (len(pair[1].point), pair[0]))[1] if above else None


def _is_shared(folder: str) -> bool:
    """Whether an administrator created it for a group: only such a store has a policy."""
    return os.path.lexists(os.path.join(folder, "policy.json"))


def _warn(folder: str, root: Path) -> str:
    mount = mount_of(folder, root)
    if mount is None or not is_remote(mount):
        return ""
    return text(
        "The store {folder} is on a network file system ({filesystem}), where locks may fail: a card could be leased to"
        " two runtimes. Use a local disk.",
        folder=folder,
        filesystem=mount.filesystem,
    )


def _make_local(root: Path) -> str:
    """Create a folder in /var/tmp, which survives a reboot. Anybody may write there, also a folder that looks like ours."""
    path = str(root / "var" / "tmp" / f"ownlab-{os.geteuid()}")
    hint = text("Set OWNLAB_STORE to a folder of your own on a local disk.")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # created by us or by somebody else: checked below
    except OSError as exc:
        raise StoreError(
            text("{path} cannot be created: {reason}.", path=path, reason=exc.strerror), hint=hint
        ) from exc
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        message = text("{path} is not private: another user may have created it, or may write to it.", path=path)
        raise StoreError(message, hint=hint)
    return path


def view_store(choice: StoreChoice) -> StoreView:
    """Describe a store's folder without changing anything."""
    mount = mount_of(choice.folder)
    try:
        layout = read_layout(choice.folder)
        status = os.stat(choice.folder)
    except FileNotFoundError:
        layout, status = None, None
    except OSError as exc:
        message = text("The store {folder} cannot be read: {reason}.", folder=choice.folder, reason=exc.strerror)
        raise StoreError(message) from exc
    return StoreView(
        folder=choice.folder,
        shared=choice.shared,
        origin=choice.origin,
        notice=choice.notice,
        made=layout is not None,
        filesystem=mount.filesystem if mount else None,
        network=is_remote(mount) if mount else None,
        owner=_name(pwd.getpwuid, status.st_uid) if status else None,
        group=_name(grp.getgrgid, status.st_gid) if status else None,
        mode=stat.filemode(status.st_mode) if status else None,
        limits=layout.limits() if layout and layout.shared else None,
    )


def _name(look_up: Callable[[int], Sequence[Any]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:  # an id without a name, as in containers
        return str(number)

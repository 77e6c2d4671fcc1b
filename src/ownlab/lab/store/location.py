"""Which store is used, as records: what `ownlab store --json` prints."""

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

__all__ = ["SHARED_FOLDER", "StoreChoice", "StoreView", "choose_store", "mount_of", "view_store"]


class StoreChoice(Struct, frozen=True):
    """A store's folder, and why it is this one."""

    folder: str
    shared: bool
    origin: str  # in words: "named by OWNLAB_STORE", "this machine has a shared store"
    notice: str = ""  # what people should know


class StoreView(Struct, frozen=True):
    """`ownlab store --json`."""

    folder: str
    shared: bool
    origin: str
    notice: str
    made: bool  # False: the first runtime makes it
    filesystem: str | None
    network: bool | None  # None: it cannot be told
    owner: str | None
    group: str | None
    mode: str | None  # "drwxrws---"
    limits: dict[str, float | None] | None  # in seconds: what holds for everyone who shares it


SHARED_FOLDER = "/var/lib/ownlab"


def choose_store(
    options: LabOptions, environ: Mapping[str, str] = os.environ, *, root: Path = Path("/")
) -> StoreChoice:
    """Where runtimes and leases are recorded. A folder under /var/tmp is made here, so that nobody else makes it."""
    if options.store_folder is not None:
        folder, origin = options.store_folder, options.origins.get("store.folder", DEFAULT)
        return StoreChoice(folder, _is_shared(folder), f"named by {origin}", _warn(folder, root))
    machines = str(root / SHARED_FOLDER[1:])
    notice = ""
    if _is_shared(machines):
        if os.access(os.path.join(machines, "db"), os.W_OK | os.X_OK):
            return StoreChoice(machines, True, "this machine has a shared store", _warn(machines, root))
        notice = (
            f"This machine's shared store {machines} is not open to you, so that others do not see which cards you hold."
            " Ask its administrator to put you into its group."
        )
    own = state_folder(environ, make=False)
    mount = mount_of(str(own), root)
    if mount is None or not is_remote(mount):
        return StoreChoice(str(own / "store"), False, "this machine has no shared store that you may use", notice)
    local = _make_local(root)
    said = f"Your home is on a network file system ({mount.filesystem}), where locks may not hold: the store is in {local}."
    return StoreChoice(local, False, "your home is on a network file system", f"{notice} {said}".strip())


def mount_of(path: str, root: Path = Path("/")) -> Mount | None:
    """The mount on which a path lies, or would lie; None where that cannot be told."""
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
    # The longest path; of several mounts on one point, the last covers the others.
    return max(enumerate(above), key=lambda pair: (len(pair[1].point), pair[0]))[1] if above else None


def _is_shared(folder: str) -> bool:
    """Whether an administrator made it for a group: such a store has a policy."""
    return os.path.lexists(os.path.join(folder, "policy.json"))


def _warn(folder: str, root: Path) -> str:
    mount = mount_of(folder, root)
    if mount is None or not is_remote(mount):
        return ""
    return (
        f"The store {folder} is on a network file system ({mount.filesystem}), where locks may not hold: a card could be"
        " given to two runtimes. A local disk is safe."
    )


def _make_local(root: Path) -> str:
    """In /var/tmp, which outlives a restart. Anybody may write there: also a folder that looks like ours."""
    path = str(root / "var" / "tmp" / f"ownlab-{os.geteuid()}")
    hint = "Set OWNLAB_STORE to a folder of your own on a local disk."
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # made by us or by somebody else: that is looked at below
    except OSError as exc:
        raise StoreError(f"{path} cannot be made: {exc.strerror}", hint=hint) from exc
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise StoreError(f"{path} is not ours alone: somebody else may have made it, or may write in it", hint=hint)
    return path


def view_store(choice: StoreChoice) -> StoreView:
    """All that there is to know of a store's folder, without changing anything."""
    mount = mount_of(choice.folder)
    try:
        layout = read_layout(choice.folder)
        found = os.stat(choice.folder)
    except FileNotFoundError:
        layout, found = None, None
    except OSError as exc:
        raise StoreError(f"The store {choice.folder} cannot be looked at: {exc.strerror}") from exc
    return StoreView(
        folder=choice.folder,
        shared=choice.shared,
        origin=choice.origin,
        notice=choice.notice,
        made=layout is not None,
        filesystem=mount.filesystem if mount else None,
        network=is_remote(mount) if mount else None,
        owner=_name(pwd.getpwuid, found.st_uid) if found else None,
        group=_name(grp.getgrgid, found.st_gid) if found else None,
        mode=stat.filemode(found.st_mode) if found else None,
        limits=layout.limits() if layout and layout.shared else None,
    )


def _name(look_up: Callable[[int], Sequence[Any]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:  # a number without a name, as containers have them
        return str(number)

"""The mounts of google.colab.drive: the user's own folder (OWNLAB_DRIVE), or an rclone remote (OWNLAB_DRIVE_REMOTE).

In a private /content these are real mounts, so that `find`, `du` and os.path.ismount behave as on Colab; elsewhere links.
"""

import contextlib
import errno
import json
import os
from typing import TYPE_CHECKING, Dict, Optional, Tuple

from ownlab_guest.colab import content_folder
from ownlab_guest.text import sentences, shown, text

if TYPE_CHECKING:
    from ownlab_guest.colab.rclone import Rclone

__all__ = ["is_mounted", "mount", "mounted", "remove_stale_links", "resolve", "restore", "unmount"]

MINE, MINE_AS_WELL = "MyDrive", "My Drive"
NOTEBOOKS = "Colab Notebooks"  # in it; notebooks change into this folder without creating it
# Notebooks list them, and on Colab nothing can be created next to them.
OTHERS = ("Shareddrives", ".shortcut-targets-by-id", ".file-revisions-by-id", ".Trash-0")

_mounted: "Dict[str, Optional[Rclone]]" = {}  # mount point -> the rclone process, if any


def mounted() -> Tuple[str, ...]:
    """Return the current mount points of this process."""
    return tuple(place for place in _mounted if is_mounted(place))


def resolve(mountpoint: str) -> str:
    """Return the absolute mount point; ValueError where mounting is not possible."""
    path = os.path.abspath(os.path.expanduser(mountpoint))
    if not content_folder.unavailable_reason():
        return path
    folder = os.path.realpath(os.environ.get("OWNLAB_CONTENT") or os.curdir)
    if path == content_folder.CONTENT or path.startswith(content_folder.CONTENT + os.sep):
        path = folder + path[len(content_folder.CONTENT) :]
    # Links outlive the kernel: allow them only in a folder that is removed with the runtime.
    if not os.path.realpath(path).startswith(folder + os.sep):
        reason = content_folder.unavailable_reason()
        raise ValueError(shown(text("Mountpoint must be inside {folder}: {reason}", folder=folder, reason=reason)))
    return path


def is_mounted(place: str) -> bool:
    """Return whether the drive is mounted there."""
    mine = os.path.join(place, MINE)
    if content_folder.unavailable_reason():
        return os.path.ismount(mine) or (os.path.islink(mine) and os.path.realpath(mine) == os.path.realpath(_folder()))
    return os.path.ismount(place) and os.path.isdir(mine)


def remove_stale_links(place: str) -> None:
    """Remove links to the drive that an earlier kernel left there."""
    if (
        content_folder.unavailable_reason()
        and os.path.isdir(place)
        and {*os.listdir(place)} <= {MINE, MINE_AS_WELL, *OTHERS}
    ):
        _unlink(place, None)


def mount(place: str, readonly: bool, seconds: float) -> str:
    """Mount the drive on a folder that is empty or missing. Return a note for the user, or "".

    ValueError with the reason where that fails. `seconds`: how long a remote may take.
    """
    rclone = None
    if os.environ.get("OWNLAB_DRIVE_REMOTE"):
        from ownlab_guest.colab.rclone import Rclone

        rclone = Rclone(os.environ["OWNLAB_DRIVE_REMOTE"], readonly, seconds)
    _mounted[place] = rclone  # before mounting: an interrupt does not undo it
    try:
        if content_folder.unavailable_reason():
            return _link(place, readonly, rclone)
        _mount(place, readonly, rclone)
    except OSError as exc:
        if exc.errno == errno.EPERM:
            message = text(
                "mount failed: {reason} (only the kernel's own process can mount: call drive.mount in a cell)",
                reason=exc,
            )
        else:
            message = text("mount failed: {reason}", reason=exc)
        raise ValueError(shown(message)) from exc
    if not rclone:
        _remember(place, readonly)
    return ""


def unmount(place: str, seconds: float) -> None:
    """Write everything to the disk or remote, then unmount the drive.

    TimeoutError where a remote does not have everything after so many seconds; then the drive stays mounted.
    """
    rclone = _mounted.get(place)
    if rclone:
        rclone.flush(seconds)
    else:
        _sync()
    _leave(place)
    if content_folder.unavailable_reason():
        _unlink(place, rclone)
    else:
        from ownlab_guest.colab import mount_namespace

        mount_namespace.privileged(lambda: mount_namespace.umount(place))
    if rclone:
        rclone.end()
    _mounted.pop(place, None)
    _forget()


def restore() -> None:
    """Mount the drive where the runtime's last kernel had it: on Colab it outlives a restart of the kernel."""
    try:
        with open(os.path.join(content_folder.CONTENT, content_folder.DRIVE)) as file:
            record = json.load(file)
        place, readonly = str(record["place"]), bool(record["readonly"])
    except (OSError, ValueError, KeyError, TypeError):
        return  # no record, or not ours
    if not os.environ.get("OWNLAB_DRIVE_REMOTE") and os.path.isdir(place) and not os.listdir(place):
        # drive.mount reports the problem when it is called.
        with contextlib.suppress(ValueError):
            mount(place, readonly, 0)


def _folder() -> str:
    """Return the user's folder; create it if it is missing."""
    folder = os.environ.get("OWNLAB_DRIVE", "")
    if not folder:
        raise ValueError(shown(text("mount failed: this kernel has no drive folder (OWNLAB_DRIVE is not set)")))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with contextlib.suppress(OSError):  # a folder that this user can only read
        os.makedirs(os.path.join(folder, NOTEBOOKS), exist_ok=True)
    return folder


def _leave(place: str) -> None:
    """Leave the mount point if the working folder is in it."""
    with contextlib.suppress(FileNotFoundError):  # the working folder does not exist any more
        if os.path.commonpath([os.getcwd(), os.path.realpath(place)]) == os.path.realpath(place):
            os.chdir(os.path.dirname(place))


def _mount(place: str, readonly: bool, rclone: "Optional[Rclone]") -> None:
    from ownlab_guest.colab import mount_namespace

    folder, mine = "" if rclone else os.path.realpath(_folder()), os.path.join(place, MINE)

    def work() -> None:
        _make(place)
        mount_namespace.mount("ownlab-drive", place, "tmpfs", data="mode=755,size=64k")
        try:
            _add_folders(place)
            os.mkdir(mine)
            if rclone:
                rclone.mount(mine)
            else:
                mount_namespace.bind(folder, mine)
                for point in mount_namespace.mounts_below(mine) if readonly else ():
                    mount_namespace.set_read_only(point)
            # Otherwise files written next to MyDrive would be kept in memory, and lost.
            mount_namespace.set_read_only(place)
        except BaseException:
            mount_namespace.umount(place)
            if rclone:
                rclone.end()
            raise

    mount_namespace.privileged(work)


def _make(place: str) -> None:
    """Create the mount point. Notebooks also use one in /, which an ordinary user can create only in a private root."""
    if os.path.isdir(place):
        return
    if os.path.dirname(place) != "/" or not content_folder.has_private_root():
        os.mkdir(place)
        return
    from ownlab_guest.colab import mount_namespace

    mount_namespace.set_read_only("/", False)
    try:
        os.mkdir(place)
    finally:
        mount_namespace.set_read_only("/")


def _add_folders(place: str) -> None:
    os.symlink(MINE, os.path.join(place, MINE_AS_WELL))
    for name in OTHERS:
        os.mkdir(os.path.join(place, name))


def _link(place: str, readonly: bool, rclone: "Optional[Rclone]") -> str:
    mine = os.path.join(place, MINE)
    folder = "" if rclone else os.path.realpath(_folder())
    os.makedirs(place, exist_ok=True)
    _add_folders(place)
    try:
        if rclone:
            os.mkdir(mine)
            rclone.mount(mine)
        else:
            os.symlink(folder, mine)
    except BaseException:
        _unlink(place, rclone)
        raise
    note = text(
        "/content is not available ({reason}). Use paths that begin with {place}.",
        reason=content_folder.unavailable_reason(),
        place=place,
    )
    if readonly and not rclone:
        return shown(sentences([note, text("The drive is writable: read-only mounts are not available either.")]))
    return shown(note)


def _unlink(place: str, rclone: "Optional[Rclone]") -> None:
    if rclone:
        rclone.end()  # it unmounts itself
    for name in (MINE_AS_WELL, MINE):
        path = os.path.join(place, name)
        if os.path.islink(path):
            os.unlink(path)
    for name in (MINE, *OTHERS):
        # It may contain files.
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(place, name))


def _sync() -> None:
    """Write everything to the disk of the folder."""
    with contextlib.suppress(ImportError, AttributeError):  # not Linux: use the slower os.sync
        import ctypes

        descriptor = os.open(_folder(), os.O_RDONLY | os.O_CLOEXEC)
        try:
            ctypes.CDLL(None).syncfs(descriptor)
        finally:
            os.close(descriptor)
        return
    os.sync()


def _remember(place: str, readonly: bool) -> None:
    path = os.path.join(content_folder.CONTENT, content_folder.DRIVE)
    with contextlib.suppress(OSError):  # a full disk: then the next kernel does not mount it by itself
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            json.dump({"place": place, "readonly": readonly}, file)


def _forget() -> None:
    with contextlib.suppress(OSError):  # it does not exist
        os.unlink(os.path.join(content_folder.CONTENT, content_folder.DRIVE))

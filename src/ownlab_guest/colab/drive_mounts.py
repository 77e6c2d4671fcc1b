"""What google.colab.drive shows: the person's own folder (OWNLAB_DRIVE), or a remote of rclone (OWNLAB_DRIVE_REMOTE).

In a private /content these are real mounts, so that `find`, `du` and os.path.ismount answer as on Colab; elsewhere links.
"""

import contextlib
import errno
import json
import os
from typing import TYPE_CHECKING, Dict, Optional, Tuple

from ownlab_guest.colab import content_folder

if TYPE_CHECKING:
    from ownlab_guest.colab.rclone import Rclone

__all__ = ["hide", "is_shown", "place_of", "restore", "show", "shown", "tidy"]

MINE, MINE_AS_WELL = "MyDrive", "My Drive"
# Notebooks list them, and on Colab nothing can be made beside them.
OTHERS = ("Shareddrives", ".shortcut-targets-by-id", ".file-revisions-by-id", ".Trash-0")

_shown: "Dict[str, Optional[Rclone]]" = {}  # where this process has shown it, and who fills it


def shown() -> Tuple[str, ...]:
    """Where the drive is seen now, by this process."""
    return tuple(place for place in _shown if is_shown(place))


def place_of(mountpoint: str) -> str:
    """The folder that is meant; ValueError where nothing may be put there."""
    path = os.path.abspath(os.path.expanduser(mountpoint))
    if not content_folder.obstacle():
        return path
    folder = os.path.realpath(os.environ.get("OWNLAB_CONTENT") or os.curdir)
    if path == content_folder.CONTENT or path.startswith(content_folder.CONTENT + os.sep):
        path = folder + path[len(content_folder.CONTENT) :]
    # Links stay on the disk when the kernel has ended: only in a folder that ends with the runtime.
    if not os.path.realpath(path).startswith(folder + os.sep):
        raise ValueError(f"Mountpoint must be inside {folder}: {content_folder.obstacle()}")
    return path


def is_shown(place: str) -> bool:
    """Whether the drive is seen there."""
    mine = os.path.join(place, MINE)
    if content_folder.obstacle():
        return os.path.ismount(mine) or (os.path.islink(mine) and os.path.realpath(mine) == os.path.realpath(_folder()))
    return os.path.ismount(place) and os.path.isdir(mine)


def tidy(place: str) -> None:
    """Take away links that an earlier kernel has left there, to what was its drive."""
    if content_folder.obstacle() and os.path.isdir(place) and {*os.listdir(place)} <= {MINE, MINE_AS_WELL, *OTHERS}:
        _unlink(place, None)


def show(place: str, readonly: bool, seconds: float) -> str:
    """Show the drive in a folder that is empty or not there; what has to be said about it, or "".

    ValueError with the reason where it cannot be. seconds is how long a remote may take.
    """
    rclone = None
    if os.environ.get("OWNLAB_DRIVE_REMOTE"):
        from ownlab_guest.colab.rclone import Rclone

        rclone = Rclone(os.environ["OWNLAB_DRIVE_REMOTE"], readonly, seconds)
    _shown[place] = rclone  # before: an interrupt does not stop what is under way
    try:
        if content_folder.obstacle():
            return _link(place, readonly, rclone)
        _mount(place, readonly, rclone)
    except OSError as exc:
        advice = " (only a cell's own process can mount: call drive.mount there)" if exc.errno == errno.EPERM else ""
        raise ValueError(f"mount failed: {exc}{advice}") from exc
    if not rclone:
        _remember(place, readonly)
    return ""


def hide(place: str, seconds: float) -> None:
    """What was written is on the disk, or at the remote, and the drive is not seen there any more.

    TimeoutError where a remote has not got everything after so many seconds; then it stays as it is.
    """
    rclone = _shown.get(place)
    if rclone:
        rclone.flush(seconds)
    else:
        _sync()
    _leave(place)
    if content_folder.obstacle():
        _unlink(place, rclone)
    else:
        from ownlab_guest.colab import mount_namespace

        mount_namespace.privileged(lambda: mount_namespace.umount(place))
    if rclone:
        rclone.end()
    _shown.pop(place, None)
    _forget()


def restore() -> None:
    """Show the drive again where the runtime's last kernel did: on Colab it outlives a restart of the kernel."""
    try:
        with open(os.path.join(content_folder.CONTENT, content_folder.DRIVE)) as file:
            record = json.load(file)
        place, readonly = str(record["place"]), bool(record["readonly"])
    except (OSError, ValueError, KeyError, TypeError):
        return  # none, or not ours
    if not os.environ.get("OWNLAB_DRIVE_REMOTE") and os.path.isdir(place) and not os.listdir(place):
        # drive.mount says what is the matter, when it is called.
        with contextlib.suppress(ValueError):
            show(place, readonly, 0)


def _folder() -> str:
    """The person's folder, made where it is missing."""
    folder = os.environ.get("OWNLAB_DRIVE", "")
    if not folder:
        raise ValueError("mount failed: this kernel was given no folder for it (OWNLAB_DRIVE)")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def _leave(place: str) -> None:
    """A working folder in what is taken away would be nowhere."""
    with contextlib.suppress(FileNotFoundError):  # it is nowhere already
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
            mount_namespace.set_read_only(
                place
            )  # else what is written beside MyDrive would be kept in memory, and lost
        except BaseException:
            mount_namespace.umount(place)
            if rclone:
                rclone.end()
            raise

    mount_namespace.privileged(work)


def _make(place: str) -> None:
    """The folder to mount on; notebooks also ask for one in /, which an ordinary user has in its own root alone."""
    if os.path.isdir(place):
        return
    if os.path.dirname(place) != "/" or not content_folder.has_root():
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
    note = f"There is no /content here ({content_folder.obstacle()}), so paths have to begin with {place}."
    return note + (" It can be written to: there are no read-only mounts either." if readonly and not rclone else "")


def _unlink(place: str, rclone: "Optional[Rclone]") -> None:
    if rclone:
        rclone.end()  # which unmounts it
    for name in (MINE_AS_WELL, MINE):
        path = os.path.join(place, name)
        if os.path.islink(path):
            os.unlink(path)
    for name in (MINE, *OTHERS):
        # Somebody may have put something into it.
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(place, name))


def _sync() -> None:
    """The disk that the folder is on has everything that was written."""
    with contextlib.suppress(ImportError, AttributeError):  # not Linux: the slower way
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
    with contextlib.suppress(OSError):  # a full disk: then the next kernel does not show it by itself
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            json.dump({"place": place, "readonly": readonly}, file)


def _forget() -> None:
    with contextlib.suppress(OSError):  # there is none
        os.unlink(os.path.join(content_folder.CONTENT, content_folder.DRIVE))

"""/content, as Colab's notebooks write it into their paths: a folder of the runtime's own, seen there by it alone.

The kernel gets mounts of its own before anything else is imported. Where / has a folder /content, or one can be made, the
runtime's folder is mounted on it. Else the process gets a new root, made of all that is in / and /content beside it.
"""

import contextlib
import json
import os
import select
import signal
import sys
from typing import Optional

__all__ = ["CONTENT", "DRIVE", "enter", "has_root", "obstacle"]

CONTENT = "/content"
DRIVE = os.path.join(".config", "drive.json")  # in /content: where the drive was shown, for the runtime's next kernel
TRIAL_SECONDS = 10.0  # a network disk that does not answer can hold up a mount for ever

_obstacle: Optional[str] = None  # None: not this process, but perhaps the one that started it, has called enter
_has_root = False


def obstacle() -> str:
    """Why there is no /content of the runtime's own; "" where there is one."""
    if _obstacle is not None:
        return _obstacle
    with contextlib.suppress(KeyError, OSError):
        if os.path.samefile(CONTENT, os.environ["OWNLAB_CONTENT"]):
            return ""
    return "this process does not run as on Colab"


def has_root() -> bool:
    """Whether / is of this process's own making, and holds nothing but mounts."""
    return _has_root


def enter() -> str:
    """Make the folder OWNLAB_CONTENT this process's /content, and the working folder; "", or why it cannot be.

    Called before other threads are started. Where it cannot be, the working folder is OWNLAB_CONTENT itself.
    """
    global _obstacle
    given = os.environ.get("OWNLAB_CONTENT", "")
    if not given:
        return obstacle()
    folder = os.path.realpath(given)
    try:
        _obstacle = _make(folder) or _unusable(folder) or _try_in_child(folder)
        if not _obstacle:
            _enter(folder)
        _work_in(folder if _obstacle else CONTENT)
    except OSError as exc:
        _obstacle = _obstacle or str(exc)
    if _obstacle:
        return f"There is no /content here: {_obstacle}. The notebook works in {os.environ.get('PWD', folder)} instead."
    if os.path.exists(os.path.join(CONTENT, DRIVE)):
        from ownlab_guest.colab import drive_mounts

        drive_mounts.restore()
    return ""


def _make(folder: str) -> str:
    """Make the folder, with samples where it is new; "", or why it cannot be."""
    try:
        os.makedirs(folder, exist_ok=True)
        if not os.listdir(folder):
            _add_samples(folder)
    except OSError as exc:
        return f"{exc.strerror}: {exc.filename}"
    return ""


def _work_in(folder: str) -> None:
    os.chdir(folder)
    os.environ["PWD"] = folder


def _unusable(folder: str) -> str:
    """What speaks against it before anything is tried."""
    if not sys.platform.startswith("linux"):
        return "only Linux lets a program have mounts of its own"
    try:
        import ctypes  # noqa: F401
    except ImportError as exc:
        return f"this Python has no ctypes ({exc})"
    if folder == CONTENT or not _is_folder(CONTENT):
        return ""
    needed = [sys.prefix, sys.base_prefix, sys.executable, __file__, os.path.expanduser("~"), folder]
    needed += [os.environ.get("OWNLAB_" + name, "") for name in ("DRIVE", "HOST", "UPLOADS", "OUTPUTS")]
    hidden = [path for path in needed if os.path.realpath(path).startswith(CONTENT + os.sep) and path]
    return f"this machine's own /content holds {hidden[0]}, which would be hidden" if hidden else ""


def _enter(folder: str) -> None:
    from ownlab_guest.colab import mount_namespace

    with_user = mount_namespace.separate()
    _show(folder)
    if with_user and os.geteuid() != 0:
        mount_namespace.keep_mounting()


def _show(folder: str) -> None:
    """Mount the folder at /content, of the machine's root or of a new one."""
    from ownlab_guest.colab import mount_namespace

    if not os.path.lexists(CONTENT) and os.access("/", os.W_OK):
        os.mkdir(CONTENT)
    if _is_folder(CONTENT):
        mount_namespace.bind(folder, CONTENT)
    else:
        _make_root(folder)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _make_root(folder: str) -> None:
    """A root in memory, read-only as the old one is for this user, into which everything of the old one is mounted."""
    global _has_root
    from ownlab_guest.colab import mount_namespace

    old, disk = "/.ownlab-old", os.statvfs("/")
    # The size takes nothing, and is what programs are told that ask how much room there is in /.
    options = f"mode=755,size={max(disk.f_bavail * disk.f_frsize, 1 << 20)}"
    mount_namespace.mount("ownlab", folder, "tmpfs", data=options)  # there only for now: it becomes the root
    os.mkdir(folder + old, 0o700)
    mount_namespace.pivot_root(folder, folder + old)
    os.chdir("/")
    with os.scandir(old) as entries:
        for entry in entries:
            if entry.path != old + CONTENT:
                _take_over(entry, "/" + entry.name)
    os.mkdir(CONTENT, 0o755)
    mount_namespace.bind(folder, CONTENT)
    mount_namespace.umount(old)
    os.rmdir(old)
    mount_namespace.set_read_only("/")
    _has_root = True


def _take_over(entry: "os.DirEntry[str]", target: str) -> None:
    from ownlab_guest.colab import mount_namespace

    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)
        return
    if entry.is_dir(follow_symlinks=False):
        os.mkdir(target, 0o755)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    try:
        mount_namespace.bind(entry.path, target)
    except OSError:
        try:
            entry.stat()
        except OSError:
            return  # a broken mount: of no use outside either
        raise


def _try_in_child(folder: str) -> str:
    """Why it cannot be done, or "": a step that fails half-way would leave this process nobody, or without its files."""
    hear, tell = os.pipe()
    child = os.fork()
    if child == 0:
        answer = {"call": "", "error": "ended"}
        try:
            _enter(folder)
            answer = {}
        except BaseException as exc:
            answer = {
                "call": str(getattr(exc, "filename", "") or ""),
                "error": getattr(exc, "strerror", "") or str(exc),
            }
        finally:
            os.write(tell, json.dumps(answer).encode())
            os._exit(0)
    os.close(tell)
    try:
        ready = select.select([hear], [], [], TRIAL_SECONDS)[0]
        said = os.read(hear, 65536).decode() if ready else ""
    finally:
        os.close(hear)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not said:
        return "it took too long" if not ready else _reason("a process that tried it was killed")
    failed = json.loads(said)
    return _reason("{call}: {error}".format(**failed)) if failed else ""


def _reason(failure: str) -> str:
    """What forbids it, and what an administrator can do; else what the system said."""
    of_users = (
        ("kernel.apparmor_restrict_unprivileged_userns", "1", 0),
        ("kernel.unprivileged_userns_clone", "0", 1),
    )
    of_all = (("user.max_user_namespaces", "0", 15000),)
    for name, forbids, allows in of_all if os.geteuid() == 0 else of_users + of_all:
        if _setting(name) == forbids:
            return f"this system keeps users from mounting ({failure}); `sysctl {name}={allows}` allows it"
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv") or "KUBERNETES_SERVICE_HOST" in os.environ:
        right = "--cap-add SYS_ADMIN" if os.geteuid() == 0 else "--security-opt seccomp=unconfined"
        advice = f"`{right} --security-opt apparmor=unconfined`"
        return f"this container may not mount ({failure}); Docker and Podman allow it by {advice}"
    return f"this system does not let us mount ({failure})"


def _setting(name: str) -> str:
    try:
        with open("/proc/sys/" + name.replace(".", "/")) as file:
            return file.read().strip()
    except OSError:
        return ""  # not every system has it


_README = """This folder holds small sample data for trying things out, as Colab's notebooks expect it.

- `anscombe.json`: four series of eleven points that share their means, variances and correlation, and look quite
  different when they are drawn (F. J. Anscombe, "Graphs in Statistical Analysis", The American Statistician 27, 1973).
"""
_X = (10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5)
_SERIES = {
    "I": (_X, (8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68)),
    "II": (_X, (9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74)),
    "III": (_X, (7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73)),
    "IV": ((8, 8, 8, 8, 8, 8, 8, 19, 8, 8, 8), (6.58, 5.76, 7.71, 8.84, 8.47, 7.04, 5.25, 12.50, 5.56, 7.91, 6.89)),
}


def _add_samples(folder: str) -> None:
    """sample_data, as a new runtime of Colab has it."""
    samples = os.path.join(folder, "sample_data")
    os.mkdir(samples)
    points = [{"Series": name, "X": float(x), "Y": y} for name, (xs, ys) in _SERIES.items() for x, y in zip(xs, ys)]
    for name, text in (("README.md", _README), ("anscombe.json", json.dumps(points, indent=2) + "\n")):
        with open(os.path.join(samples, name), "w") as file:
            file.write(text)

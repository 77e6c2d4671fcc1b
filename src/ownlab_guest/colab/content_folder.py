"""A private /content, which Colab notebooks hard-code in their paths: a folder of the runtime that only its kernel sees there.

The kernel gets its own mount namespace before anything else is imported. Where / has a folder /content, or one can be
created, the runtime's folder is mounted on it. Otherwise the process gets a new root that contains everything in / and
/content in addition.
"""

import contextlib
import json
import os
import select
import signal
import sys
from typing import Callable, Optional

from ownlab_guest.colab import system_overlay
from ownlab_guest.text import text

__all__ = ["CONTENT", "DRIVE", "enter", "has_private_root", "unavailable_reason"]

CONTENT = "/content"
DRIVE = os.path.join(".config", "drive.json")  # in /content: where the drive is mounted, for the runtime's next kernel
TRIAL_SECONDS = 10.0  # a network disk that does not answer can block a mount for ever

_reason_unavailable: Optional[str] = None  # None: this process did not call enter; its parent may have
_has_private_root = False


def unavailable_reason() -> str:
    """Return why the runtime has no /content of its own; "" where it has one."""
    if _reason_unavailable is not None:
        return _reason_unavailable
    with contextlib.suppress(KeyError, OSError):
        if os.path.samefile(CONTENT, os.environ["OWNLAB_CONTENT"]):
            return ""
    return text("this process does not run in Colab mode")


def has_private_root() -> bool:
    """Return whether / was made by this process and contains only mounts."""
    return _has_private_root


def enter() -> str:
    """Make the folder OWNLAB_CONTENT this process's /content and working folder. Return "", or a message if that fails.

    Called before other threads start. If it fails, the working folder is OWNLAB_CONTENT itself.
    """
    global _reason_unavailable
    given = os.environ.get("OWNLAB_CONTENT", "")
    if not given:
        return unavailable_reason()
    folder = os.path.realpath(given)
    try:
        _reason_unavailable = _make(folder) or _unusable(folder) or _enter_if_possible(folder)
        if _reason_unavailable and system_overlay.is_wanted():
            system_overlay.refuse(_reason_unavailable)
        _work_in(folder if _reason_unavailable else CONTENT)
    except OSError as exc:
        _reason_unavailable = _reason_unavailable or str(exc)
    if _reason_unavailable:
        working_folder = os.environ.get("PWD", folder)
        return text(
            "/content is not available: {reason}. The notebook works in {folder} instead.",
            reason=_reason_unavailable,
            folder=working_folder,
        )
    if os.path.exists(os.path.join(CONTENT, DRIVE)):
        from ownlab_guest.colab import drive_mounts

        drive_mounts.restore()
    return ""


def _make(folder: str) -> str:
    """Create the folder, with sample data where it is new. Return "", or why that fails."""
    try:
        os.makedirs(folder, exist_ok=True)
        if not os.listdir(folder):
            _add_samples(folder)
    except OSError as exc:
        return text("{reason}: {file}", reason=exc.strerror, file=exc.filename)
    return ""


def _work_in(folder: str) -> None:
    os.chdir(folder)
    os.environ["PWD"] = folder


def _unusable(folder: str) -> str:
    """Return what prevents /content, checked before anything is tried; "" if nothing does."""
    if not sys.platform.startswith("linux"):
        return text("private mounts need Linux")
    try:
        import ctypes  # noqa: F401
    except ImportError as exc:
        return text("this Python has no ctypes ({reason})", reason=exc)
    if folder == CONTENT or not _is_folder(CONTENT):
        return ""
    needed = [sys.prefix, sys.base_prefix, sys.executable, __file__, os.path.expanduser("~"), folder]
    needed += [os.environ.get("OWNLAB_" + name, "") for name in ("DRIVE", "HOST", "UPLOADS", "OUTPUTS")]
    hidden = [path for path in needed if os.path.realpath(path).startswith(CONTENT + os.sep) and path]
    return text("this machine's own /content contains {path}, which would be hidden", path=hidden[0]) if hidden else ""


def _enter_if_possible(folder: str) -> str:
    """Mount what works here: /content, for root with a private copy of the system's folders. Return why it fails, or ""."""
    wanted = system_overlay.is_wanted()
    failure = _try_in_child(lambda: _enter(folder, True)) if wanted else ""
    with_overlay = wanted and not failure
    if not with_overlay:
        unavailable = _try_in_child(lambda: _enter(folder, False))
        if unavailable:
            return _reason(unavailable)
        if failure:
            system_overlay.refuse(text("an overlay cannot be mounted here ({failure})", failure=failure))
    _enter(folder, with_overlay)
    return ""


def _enter(folder: str, with_overlay: bool) -> None:
    from ownlab_guest.colab import mount_namespace, opt_folder

    with_user = mount_namespace.separate()
    if with_overlay:
        system_overlay.enter()
    opt_folder.add_nvidia_smi(folder, is_private=with_overlay)
    _show(folder)
    if with_user and os.geteuid() != 0:
        mount_namespace.keep_mounting()


def _show(folder: str) -> None:
    """Mount the folder at /content, in the machine's root or in a new one."""
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
    """Make a root in memory, read-only as the old one is for this user, and mount everything of the old one into it."""
    global _has_private_root
    from ownlab_guest.colab import mount_namespace

    old, disk = "/.ownlab-old", os.statvfs("/")
    # The size takes no memory; programs see it as the free space in /.
    options = f"mode=755,size={max(disk.f_bavail * disk.f_frsize, 1 << 20)}"
    mount_namespace.mount("ownlab", folder, "tmpfs", data=options)  # temporary place: it becomes the root
    os.mkdir(folder + old, 0o700)
    mount_namespace.pivot_root(folder, folder + old)
    os.chdir("/")
    with os.scandir(old) as entries:
        for entry in entries:
            if entry.path != old + CONTENT:
                mount_namespace.bind_entry(entry, "/" + entry.name)
    os.mkdir(CONTENT, 0o755)
    mount_namespace.bind(folder, CONTENT)
    mount_namespace.umount(old)
    os.rmdir(old)
    mount_namespace.set_read_only("/")
    _has_private_root = True


def _try_in_child(attempt: Callable[[], None]) -> str:
    """Try it in a child process, since a half-done attempt would leave this one without its files. Return why it fails, or ""."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        failure = {"call": "", "error": "ended"}
        try:
            attempt()
            failure = {}
        except BaseException as exc:
            failure = {
                "call": str(getattr(exc, "filename", "") or ""),
                "error": getattr(exc, "strerror", "") or str(exc),
            }
        finally:
            os.write(writer, json.dumps(failure).encode())
            os._exit(0)
    os.close(writer)
    try:
        ready = select.select([reader], [], [], TRIAL_SECONDS)[0]
        result = os.read(reader, 65536).decode() if ready else ""
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not result:
        return text("the process that tried it was killed") if ready else text("mounting took too long")
    failed = json.loads(result)
    return "{call}: {error}".format(**failed) if failed else ""


def _reason(failure: str) -> str:
    """Explain a failure: what forbids mounting and how an administrator can allow it; else the system's message."""
    of_users = (
        ("kernel.apparmor_restrict_unprivileged_userns", "1", 0),
        ("kernel.unprivileged_userns_clone", "0", 1),
    )
    of_all = (("user.max_user_namespaces", "0", 15000),)
    for name, forbids, allows in of_all if os.geteuid() == 0 else of_users + of_all:
        if _setting(name) == forbids:
            return text(
                "this system does not let users mount ({failure}); `sysctl {setting}` allows it",
                failure=failure,
                setting=f"{name}={allows}",
            )
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv") or "KUBERNETES_SERVICE_HOST" in os.environ:
        right = "--cap-add SYS_ADMIN" if os.geteuid() == 0 else "--security-opt seccomp=unconfined"
        return text(
            "this container may not mount ({failure}); start it with `{options}` in Docker or Podman",
            failure=failure,
            options=f"{right} --security-opt apparmor=unconfined",
        )
    return text("mounting failed ({failure})", failure=failure)


def _setting(name: str) -> str:
    try:
        with open("/proc/sys/" + name.replace(".", "/")) as file:
            return file.read().strip()
    except OSError:
        return ""  # not every system has it


_README = """This folder contains small sample data, as Colab notebooks expect it.

- `anscombe.json`: four series of eleven points with equal means, variances and correlation that look very
  different when plotted (F. J. Anscombe, "Graphs in Statistical Analysis", The American Statistician 27, 1973).
"""
_X = (10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5)
_SERIES = {
    "I": (_X, (8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68)),
    "II": (_X, (9.14, 8.14, 8.74, 8.77, 9.26, 8.10, 6.13, 3.10, 9.13, 7.26, 4.74)),
    "III": (_X, (7.46, 6.77, 12.74, 7.11, 7.81, 8.84, 6.08, 5.39, 8.15, 6.42, 5.73)),
    "IV": ((8, 8, 8, 8, 8, 8, 8, 19, 8, 8, 8), (6.58, 5.76, 7.71, 8.84, 8.47, 7.04, 5.25, 12.50, 5.56, 7.91, 6.89)),
}


def _add_samples(folder: str) -> None:
    """Add sample_data, as a new Colab runtime has it."""
    samples = os.path.join(folder, "sample_data")
    os.mkdir(samples)
    points = [{"Series": name, "X": float(x), "Y": y} for name, (xs, ys) in _SERIES.items() for x, y in zip(xs, ys)]
    for name, content in (("README.md", _README), ("anscombe.json", json.dumps(points, indent=2) + "\n")):
        with open(os.path.join(samples, name), "w") as file:
            file.write(content)

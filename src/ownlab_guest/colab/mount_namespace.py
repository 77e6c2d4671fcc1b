"""Linux mounts that only this process and its children see, for root and for ordinary users.

An ordinary user may mount in its own user namespace, where it keeps its user id. There this thread drops all capabilities:
with them it could write to files that it made read-only, and its children could not inspect it (debuggers, shared GPU
memory). One thread keeps the capability to mount, for later mounts: `privileged`.
"""

import ctypes
import os
import queue
import signal
import threading
from typing import Any, Callable, List, Optional, Tuple

from ownlab_guest.text import text

__all__ = [
    "MS_MOVE",
    "MS_REC",
    "bind",
    "bind_entry",
    "keep_mounting",
    "mount",
    "mounts_below",
    "pivot_root",
    "privileged",
    "separate",
    "set_read_only",
    "terminate_with_parent",
    "umount",
]

# linux/mount.h, linux/sched.h, linux/prctl.h, linux/capability.h
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_MOVE, MS_REC, MS_SLAVE = 1024, 2048, 4096, 8192, 16384, 1 << 19
MNT_DETACH = 2
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
PR_SET_PDEATHSIG, PR_GET_PDEATHSIG = 1, 2
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
CAP_VERSION, CAP_SYS_ADMIN = 0x20080522, 21

# A mount in a user namespace must keep these flags of the original mount.
_KEPT = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME  # statvfs uses the same numbers

_libc: Any = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> int:
    """Call a function of the C library; OSError where it fails."""
    result: int = getattr(_libc, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return result


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    texts = [text.encode() if text else None for text in (source, target, kind, data)]
    _call("mount", texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])


def bind(source: str, target: str) -> None:
    """Bind-mount source at target, with everything that is mounted below it."""
    mount(source, target, flags=MS_BIND | MS_REC)


def bind_entry(entry: "os.DirEntry[str]", target: str) -> None:
    """Make target the same as a folder's entry: links are copied, everything else is bound."""
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), target)
        return
    if entry.is_dir(follow_symlinks=False):
        os.mkdir(target, 0o755)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    try:
        bind(entry.path, target)
    except OSError:
        try:
            entry.stat()
        except OSError:
            return  # a broken mount, which is useless outside as well
        raise


def umount(target: str) -> None:
    """Unmount lazily: invisible at once, released when nothing uses it any more."""
    _call("umount2", target.encode(), MNT_DETACH)


def pivot_root(root: str, old: str) -> None:
    """pivot_root(2)."""
    _call("pivot_root", root.encode(), old.encode())


def set_read_only(target: str, read_only: bool = True) -> None:
    """Make an existing mount read-only or writable, without the mounts below it."""
    flags = os.statvfs(target).f_flag & _KEPT
    mount("", target, flags=MS_REMOUNT | MS_BIND | flags | (MS_RDONLY if read_only else 0))


def mounts_below(folder: str) -> List[str]:
    """Return the mount points at and below a folder, the outermost first."""
    with open("/proc/self/mountinfo", "rb") as file:
        written = [line.split()[4] for line in file]
    # Spaces and the like are written as \040.
    points = [os.fsdecode(point.decode("unicode_escape").encode("latin-1")) for point in written]
    return sorted({point for point in points if point == folder or point.startswith(folder.rstrip("/") + "/")})


def separate() -> bool:
    """Give this process its own mount namespace. Return whether that needed a user namespace.

    Its mounts are not visible outside; later mounts outside become visible here.
    """
    parent, last_signal = os.getppid(), ctypes.c_int()
    _call("prctl", PR_GET_PDEATHSIG, ctypes.byref(last_signal), 0, 0, 0)
    with_user = False
    try:
        _call("unshare", CLONE_NEWNS)
    except PermissionError:
        _separate_user()
        with_user = True
    mount("", "/", flags=MS_REC | MS_SLAVE)
    if last_signal.value:
        # A change of credentials may clear the parent-death signal.
        _call("prctl", PR_SET_PDEATHSIG, last_signal.value, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    return with_user


def _separate_user() -> None:
    """Enter a user namespace in which all ids are the same as outside.

    Only a process outside may map more than one id, so a child does it.
    """
    reader, writer = os.pipe()
    pid = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(writer)
        written = False
        try:
            written = os.read(reader, 1) == b"1" and _write_id_maps(pid)
        finally:
            os._exit(0 if written else 1)
    os.close(reader)
    try:
        _call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
        os.write(writer, b"1")
    finally:
        os.close(writer)
        _, status = os.waitpid(child, 0)
    if status != 0:
        raise PermissionError(1, text("user and group ids cannot be mapped"), "uid_map")


def _write_id_maps(pid: int) -> bool:
    """Write the id maps of a process's user namespace; False where that is refused."""
    folder = f"/proc/{pid}/"
    if os.geteuid() == 0:
        try:
            for name in ("uid_map", "gid_map"):
                _write(folder + name, _identity_map("/proc/self/" + name))
        except OSError:
            pass  # root without this right: map as an ordinary user
        else:
            return True
    try:
        _write(folder + "setgroups", "deny")  # required before gid_map
        _write(folder + "uid_map", "{0} {0} 1".format(os.geteuid()))
        _write(folder + "gid_map", "{0} {0} 1".format(os.getegid()))
    except OSError:
        return False
    return True


def _identity_map(path: str) -> str:
    with open(path) as file:
        ranges = [line.split() for line in file]
    return "".join(f"{inside} {inside} {count}\n" for inside, _, count in ranges)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())  # in one call, or the kernel refuses it
    finally:
        os.close(descriptor)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def _keep(*capabilities: int) -> None:
    """Keep only these capabilities (numbers below 32) in this thread."""
    bits = sum(1 << each for each in capabilities)
    sets = (_Sets * 2)(_Sets(bits, bits, bits), _Sets(0, 0, 0))
    _call("capset", ctypes.byref(_Header(CAP_VERSION, 0)), ctypes.byref(sets))


_Task = Tuple[Callable[[], Any], "queue.SimpleQueue[Tuple[Any, Optional[BaseException]]]"]
_tasks: "Optional[queue.SimpleQueue[_Task]]" = None
_owner = 0  # the pid of the process with the thread; a forked child does not have it


def keep_mounting() -> None:
    """Start a thread that keeps the capability to mount; this thread and its children drop what the namespace gave."""
    global _tasks, _owner
    _tasks, _owner, ready = queue.SimpleQueue(), os.getpid(), threading.Event()
    threading.Thread(target=_serve, args=(_tasks, ready), name="ownlab-mounts", daemon=True).start()
    ready.wait()
    _keep()


def _serve(tasks: "queue.SimpleQueue[_Task]", ready: threading.Event) -> None:
    _keep(CAP_SYS_ADMIN)
    # For programs that it starts: fusermount cannot mount here in any other way.
    _call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0)
    ready.set()
    while True:
        function, results = tasks.get()
        try:
            results.put((function(), None))
        except BaseException as exc:
            results.put((None, exc))


def privileged(function: Callable[[], Any]) -> Any:
    """Call a function where mounting is allowed, and return or raise its result."""
    if _tasks is None or _owner != os.getpid():
        return function()
    results: "queue.SimpleQueue[Tuple[Any, Optional[BaseException]]]" = queue.SimpleQueue()
    _tasks.put((function, results))
    value, exc = results.get()
    if exc is not None:
        raise exc
    return value


def terminate_with_parent() -> None:
    """In a child before exec: request SIGTERM when the thread that started it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

"""Mounts that only this process and what it starts can see, for root and for an ordinary user.

An ordinary user may mount in a user namespace of its own, in which it stays who it is. There this thread gives up every
capability: with them it would write to files that it has made read-only, and its own children could not look at it
(debuggers, shared GPU memory). One thread keeps the right to mount, for what is mounted later: `privileged`.
"""

import ctypes
import os
import queue
import signal
import threading
from typing import Any, Callable, List, Optional, Tuple

__all__ = [
    "MS_REC",
    "bind",
    "end_with_us",
    "keep_mounting",
    "mount",
    "mounts_below",
    "pivot_root",
    "privileged",
    "separate",
    "set_read_only",
    "umount",
]

# linux/mount.h, linux/sched.h, linux/prctl.h, linux/capability.h
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC, MS_SLAVE = 1024, 2048, 4096, 16384, 1 << 19
MNT_DETACH = 2
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
PR_SET_PDEATHSIG, PR_GET_PDEATHSIG = 1, 2
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
CAP_VERSION, CAP_SYS_ADMIN = 0x20080522, 21

# A mount in a user namespace keeps these of the mount that it comes from; to leave one out is refused.
_KEPT = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME  # as statvfs numbers them, too

_libc: Any = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> int:
    """A function of the C library; OSError where it fails."""
    answer: int = getattr(_libc, name)(*arguments)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return answer


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    texts = [text.encode() if text else None for text in (source, target, kind, data)]
    _call("mount", texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])


def bind(source: str, target: str) -> None:
    """What is at source, with all that is mounted below it, is seen at target as well."""
    mount(source, target, flags=MS_BIND | MS_REC)


def umount(target: str) -> None:
    """Gone from sight at once; gone when nobody uses it any more."""
    _call("umount2", target.encode(), MNT_DETACH)


def pivot_root(root: str, old: str) -> None:
    """pivot_root(2)."""
    _call("pivot_root", root.encode(), old.encode())


def set_read_only(target: str, only: bool = True) -> None:
    """A mount that is there already, without the ones below it."""
    flags = os.statvfs(target).f_flag & _KEPT
    mount("", target, flags=MS_REMOUNT | MS_BIND | flags | (MS_RDONLY if only else 0))


def mounts_below(folder: str) -> List[str]:
    """Where something is mounted at or below a folder, the outermost first."""
    with open("/proc/self/mountinfo", "rb") as file:
        written = [line.split()[4] for line in file]
    # Spaces and such stand there as \040.
    points = [os.fsdecode(point.decode("unicode_escape").encode("latin-1")) for point in written]
    return sorted({point for point in points if point == folder or point.startswith(folder.rstrip("/") + "/")})


def separate() -> bool:
    """From here on this process has mounts of its own; whether it needed a user namespace for that.

    Nothing that it mounts gets out, what is mounted outside later still comes in.
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
        # A change of credentials may clear it.
        _call("prctl", PR_SET_PDEATHSIG, last_signal.value, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    return with_user


def _separate_user() -> None:
    """A user namespace in which everybody has the number that they have outside.

    Only a process outside may write more than one number, so a child does it.
    """
    hear, tell = os.pipe()
    me = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(tell)
        written = False
        try:
            written = os.read(hear, 1) == b"1" and _write_numbers(me)
        finally:
            os._exit(0 if written else 1)
    os.close(hear)
    try:
        _call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
        os.write(tell, b"1")
    finally:
        os.close(tell)
        _, status = os.waitpid(child, 0)
    if status != 0:
        raise PermissionError(1, "user and group numbers cannot be given", "uid_map")


def _write_numbers(pid: int) -> bool:
    """Who is who in the user namespace of a process; false where it is refused."""
    folder = f"/proc/{pid}/"
    if os.geteuid() == 0:
        try:
            for name in ("uid_map", "gid_map"):
                _write(folder + name, _same_numbers("/proc/self/" + name))
        except OSError:
            pass  # a root that may not: then as anybody else
        else:
            return True
    try:
        _write(folder + "setgroups", "deny")  # the condition for gid_map
        _write(folder + "uid_map", "{0} {0} 1".format(os.geteuid()))
        _write(folder + "gid_map", "{0} {0} 1".format(os.getegid()))
    except OSError:
        return False
    return True


def _same_numbers(path: str) -> str:
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
    """This thread keeps these capabilities (numbers below 32) and no others."""
    bits = sum(1 << each for each in capabilities)
    sets = (_Sets * 2)(_Sets(bits, bits, bits), _Sets(0, 0, 0))
    _call("capset", ctypes.byref(_Header(CAP_VERSION, 0)), ctypes.byref(sets))


_Task = Tuple[Callable[[], Any], "queue.SimpleQueue[Tuple[Any, Optional[BaseException]]]"]
_tasks: "Optional[queue.SimpleQueue[_Task]]" = None
_owner = 0  # the process that has the thread; one forked from it has not


def keep_mounting() -> None:
    """One thread keeps the right to mount; this one, and all that it starts, gives up what the namespace gave."""
    global _tasks, _owner
    _tasks, _owner, ready = queue.SimpleQueue(), os.getpid(), threading.Event()
    threading.Thread(target=_serve, args=(_tasks, ready), name="ownlab-mounts", daemon=True).start()
    ready.wait()
    _keep()


def _serve(tasks: "queue.SimpleQueue[_Task]", ready: threading.Event) -> None:
    _keep(CAP_SYS_ADMIN)
    # For programs that it starts: fusermount has no other way to mount here.
    _call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0)
    ready.set()
    while True:
        function, answers = tasks.get()
        try:
            answers.put((function(), None))
        except BaseException as exc:
            answers.put((None, exc))


def privileged(function: Callable[[], Any]) -> Any:
    """What function returns or raises, called where mounting is allowed."""
    if _tasks is None or _owner != os.getpid():
        return function()
    answers: "queue.SimpleQueue[Tuple[Any, Optional[BaseException]]]" = queue.SimpleQueue()
    _tasks.put((function, answers))
    value, exc = answers.get()
    if exc is not None:
        raise exc
    return value


def end_with_us() -> None:
    """For a child, before it becomes a program: SIGTERM when the thread that started it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

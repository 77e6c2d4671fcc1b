"""A root in which everything can be written and nothing stays: each writable file system is the lower layer of an overlay in memory.

What the script of a trial writes goes into a tmpfs that is gone with its last process. This prevents traces, it is no sandbox: sockets
of the machine, the network and devices are as outside. Folders that hold mount points are made anew, entry by entry, since an ordinary
user's namespace must not look below its mounts. What cannot be covered becomes read-only.
"""

import contextlib
import os
import shutil
import stat
import tempfile
from typing import Dict, List, NamedTuple, Sequence

from ownlab_guest.colab import mount_namespace

__all__ = ["enter"]

# File systems that are interfaces of the kernel: nothing is kept in them.
_INTERFACES = frozenset(
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs"),
        *("fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs"),
        "tracefs",
    )
)
# Overlays have no sockets of the layer below. Without this one CUDA does not start where MPS runs.
_PIPES = "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"  # noqa: S108  # NVIDIA's default
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a mount of the system
# A file beside mount points is copied, so that it can be changed; a larger one is only shown.
_MOST_COPIED = 16 << 20
# With redirect_dir, folders of the lower layer can be renamed. In a user namespace attributes are the user's.
_OPTIONS = ("index=off,redirect_dir=on", "index=off", "index=off,userxattr")


class _Mount(NamedTuple):
    kind: str
    read_only: bool


def enter(place: str, kept: Sequence[str]) -> None:
    """Move this process into such a root. `place` is an empty folder for it; those of `kept` stay real. OSError where it fails."""
    here = os.getcwd()
    needed = _needed_folders()
    with_user = mount_namespace.separate()
    mounts = _read_mounts()
    mount_namespace.mount("ownlab", place, "tmpfs", data="mode=755")
    _Root(place, kept, mounts, needed if with_user else []).build()
    root = os.path.join(place, "root")
    os.mkdir(root + "/.ownlab-old", 0o700)
    mount_namespace.pivot_root(root, root + "/.ownlab-old")
    os.chdir("/")
    mount_namespace.umount("/.ownlab-old")
    os.rmdir("/.ownlab-old")
    for folder in needed:
        _check(folder)
    os.chdir(here)


def _needed_folders() -> List[str]:
    """The folders that scripts write to, as far as this user can."""
    named = (os.getcwd(), os.path.expanduser("~"), tempfile.gettempdir())
    folders = {os.path.realpath(path) for path in named}
    return sorted(path for path in folders if os.path.isdir(path) and os.access(path, os.W_OK))


def _check(folder: str) -> None:
    """Write a file and remove it: some file systems can be mounted as a layer, but not written."""
    descriptor, path = tempfile.mkstemp(prefix=".ownlab-check-", dir=folder)
    os.close(descriptor)
    os.unlink(path)


class _Root:
    """The root while it is built."""

    def __init__(self, place: str, kept: Sequence[str], mounts: Dict[str, _Mount], needed: Sequence[str]) -> None:
        self._place, self._root = place, os.path.join(place, "root")
        self._mounts, self._needed = mounts, needed
        pipes = os.environ.get(_PIPES[0], _PIPES[1])
        self._kept = {os.path.realpath(path) for path in (*kept, pipes) if os.path.isdir(path)}
        self._layers = 0

    def build(self) -> None:
        """Mount everything that the old root has."""
        os.mkdir(self._root, 0o755)
        mount_namespace.bind(self._root, self._root)  # pivot_root wants a mount
        self._enter_folder("/")
        memory = self._root + _SHARED_MEMORY
        if os.path.isdir(memory):
            disk = os.statvfs(_SHARED_MEMORY)
            mount_namespace.mount("ownlab", memory, "tmpfs", data=f"mode=1777,size={disk.f_blocks * disk.f_frsize}")
        for path in sorted(self._kept):
            mount_namespace.bind(path, self._root + path)

    def _enter_folder(self, folder: str) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(PermissionError, FileNotFoundError):
                    self._show(entry)

    def _show(self, entry: "os.DirEntry[str]") -> None:
        path, target = entry.path, self._root + entry.path
        if entry.is_symlink():
            os.symlink(os.readlink(path), target)
        elif entry.is_dir(follow_symlinks=False):
            self._show_folder(path, target)
        elif entry.is_file(follow_symlinks=False) and entry.stat().st_size <= _MOST_COPIED and path not in self._mounts:
            shutil.copy2(path, target)
        else:
            mount_namespace.bind_entry(entry, target)
            if entry.is_file(follow_symlinks=False):
                mount_namespace.set_read_only(target)

    def _show_folder(self, path: str, target: str) -> None:
        if path == self._place:
            return
        os.mkdir(target)
        mounted = self._mount_of(path)
        inner = any(point.startswith(path + os.sep) for point in self._mounts) or self._is_foreign(path)
        if mounted.kind in _INTERFACES or (mounted.read_only and not inner):
            mount_namespace.bind(path, target)
        elif inner:
            status = os.stat(path)
            with contextlib.suppress(OSError):  # an owner that a user namespace does not know
                os.chown(target, status.st_uid, status.st_gid)
            self._enter_folder(path)
            os.chmod(target, stat.S_IMODE(status.st_mode))
        else:
            self._cover(path, target)

    def _is_foreign(self, path: str) -> bool:
        """Whether a folder above one that is needed belongs to an owner that the user namespace does not know: it cannot be copied."""
        above = any(folder.startswith(path + os.sep) for folder in self._needed)
        return above and os.stat(path).st_uid != os.geteuid()

    def _mount_of(self, path: str) -> _Mount:
        while path not in self._mounts and path != os.sep:
            path = os.path.dirname(path)
        return self._mounts[path]

    def _cover(self, path: str, target: str) -> None:
        """Mount an overlay of one folder; where that is refused, the folder itself, read-only."""
        self._layers += 1
        base = os.path.join(self._place, "layers", str(self._layers))
        status = os.stat(path)
        for name in ("upper", "work"):
            os.makedirs(os.path.join(base, name))
        with contextlib.suppress(OSError):
            os.chown(base + "/upper", status.st_uid, status.st_gid)
        os.chmod(base + "/upper", stat.S_IMODE(status.st_mode))
        lower = os.open(path, os.O_PATH | os.O_CLOEXEC)
        os.chdir(base)  # names without commas and colons, which the options would divide
        try:
            layers = f"lowerdir=/proc/self/fd/{lower},upperdir=upper,workdir=work"
            if not any(_mounts_overlay(target, f"{layers},{options}") for options in _OPTIONS):
                mount_namespace.bind(path, target)
                mount_namespace.set_read_only(target)
        finally:
            os.chdir("/")
            os.close(lower)


def _mounts_overlay(target: str, data: str) -> bool:
    try:
        mount_namespace.mount("overlay", target, "overlay", data=data)
    except OSError:
        return False
    return True


def _read_mounts() -> Dict[str, _Mount]:
    """Every mount point of this process; of several at one point the last one, which hides the others."""
    mounts: Dict[str, _Mount] = {}
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            own, _, shared = line.partition(b" - ")
            point = os.fsdecode(own.split()[4].decode("unicode_escape").encode("latin-1"))
            kind, _, options = shared.split()[:3]
            flags: List[bytes] = [own.split()[5], options]
            mounts[point] = _Mount(kind.decode(), any(each.split(b",")[0] == b"ro" for each in flags))
    return mounts

"""A private copy of the system's folders, for kernels of root in Colab mode.

Notebooks for Colab install Debian packages, link other programs into /usr/bin and edit /etc: they expect a machine that is
deleted afterwards. Here each of these folders becomes an overlay: what the kernel and its commands write goes into the
runtime's folder (OWNLAB_OVERLAY), survives a restart of the kernel, and is deleted with the runtime. This prevents
accidents. It is no sandbox: root can leave a mount namespace.
"""

import contextlib
import os
import shutil
import stat
import sys
from typing import List, NamedTuple, Sequence, Tuple

from ownlab_guest.text import listing, text

__all__ = ["enter", "is_active", "is_wanted", "refusal", "refuse"]

# Those that are folders: on most systems /bin, /sbin and /lib are links into /usr.
FOLDERS = ("/usr", "/etc", "/var", "/opt", "/bin", "/sbin", "/lib", "/lib64")
# Below them, but shared with the machine: sockets do not work through an overlay, and stores belong to all runtimes.
SHARED = ("/var/run", "/var/lib/sss", "/var/lib/ownlab")
# Python's own folder is shared too, so that packages stay in an environment; but not if the system itself is that folder.
SYSTEM_PREFIXES = ("/usr", "/usr/local")
APT_SETTING = "/etc/apt/apt.conf.d/99-ownlab"  # for sudo, which does not pass APT_CONFIG on

_refusal = ""
_is_active = False


class _Kept(NamedTuple):
    """A path below an overlay that stays as it is: a mount, or a folder that others use."""

    path: str
    descriptor: int


def is_wanted() -> bool:
    """Return whether this kernel should have an overlay: only root can change the system's folders."""
    return bool(os.environ.get("OWNLAB_OVERLAY")) and os.geteuid() == 0


def is_active() -> bool:
    """Return whether this process has its own copy of the system's folders."""
    return _is_active


def refusal() -> str:
    """Return what the notebook changes on the machine, where it has no overlay; "" where it changes nothing."""
    return _refusal


def refuse(reason: str) -> None:
    """Remember why there is no overlay, and which folders a notebook can therefore change."""
    global _refusal
    writable = [folder for folder in _folders() if os.access(folder, os.W_OK)]
    if writable:
        _refusal = text(
            "This notebook runs as root without a private copy of the system: {reason}. What it changes in {folders}, for "
            "example with `apt install`, changes this machine and stays.",
            reason=reason,
            folders=listing(writable),
        )


def enter() -> None:
    """Mount the overlays, in a mount namespace of this process. OSError where one fails."""
    global _is_active
    base = os.path.realpath(os.environ["OWNLAB_OVERLAY"])
    os.makedirs(base, mode=0o700, exist_ok=True)
    shared = _shared_paths(base)
    for folder in _folders():
        if folder not in shared:
            _cover(folder, base, _kept_below(folder, shared))
    _set_up_apt()
    _is_active = True


def _folders() -> List[str]:
    return [folder for folder in FOLDERS if os.path.isdir(folder) and not os.path.islink(folder)]


def _shared_paths(base: str) -> List[str]:
    """Return the real paths of folders that the kernel shares with the lab and with other runtimes."""
    names = (
        "HOME",
        "OWNLAB_HOME",
        "OWNLAB_STORE",
        "OWNLAB_CONTENT",
        "OWNLAB_DRIVE",
        "OWNLAB_UPLOADS",
        "OWNLAB_OUTPUTS",
    )
    paths = [os.environ.get(name, "") for name in (*names, "OWNLAB_KERNELS", "TMPDIR")]
    paths += [os.path.dirname(os.environ.get(name, "")) for name in ("JPY_SESSION_NAME", "OWNLAB_NOTEBOOK")]
    paths += [*SHARED, os.path.dirname(base), os.getcwd(), "" if sys.prefix in SYSTEM_PREFIXES else sys.prefix]
    return sorted({os.path.realpath(path) for path in paths if path and os.path.isdir(path)})


def _kept_below(folder: str, shared: Sequence[str]) -> List[str]:
    """Return the outermost mounts and shared folders below a folder, which an overlay would hide or copy."""
    from ownlab_guest.colab import mount_namespace

    kept: List[str] = []
    for path in sorted({*mount_namespace.mounts_below(folder), *shared}):
        if path.startswith(folder + os.sep) and not any(path.startswith(other + os.sep) for other in kept):
            kept.append(path)
    return kept


def _cover(folder: str, base: str, kept_paths: Sequence[str]) -> None:
    """Mount an overlay on a folder; then show again in it what is kept."""

    kept = _open(kept_paths)
    upper, work = _layers(folder, base)
    here = os.open(os.curdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.chdir(base)  # relative paths: commas and colons would have a meaning in the options
        _mount(f"lowerdir={folder},upperdir={upper},workdir={work}", folder)
        for each in kept:
            _keep(each)
        _check(folder)
    finally:
        os.fchdir(here)
        for descriptor in (here, *(each.descriptor for each in kept)):
            os.close(descriptor)


def _keep(kept: _Kept) -> None:
    """Mount something again that the overlay covers."""
    from ownlab_guest.colab import mount_namespace

    source = f"/proc/self/fd/{kept.descriptor}"
    try:
        mount_namespace.bind(source, kept.path)
    except FileNotFoundError:
        # A mounted file was replaced where it came from, as container runtimes do: only its content can be used.
        if not os.path.isfile(source):
            raise
        shutil.copyfile(source, kept.path)


def _open(paths: Sequence[str]) -> List[_Kept]:
    """Open what an overlay will cover. What cannot be opened is a broken mount, which is useless outside as well."""
    kept = []
    for path in paths:
        with contextlib.suppress(OSError):
            kept.append(_Kept(path, os.open(path, os.O_PATH | os.O_CLOEXEC)))
    return kept


def _layers(folder: str, base: str) -> Tuple[str, str]:
    """Create the layers of a folder, relative to the base. The upper one has the folder's owner and mode."""
    name = folder.strip("/").replace("/", "-")
    upper, work = os.path.join(name, "upper"), os.path.join(name, "work")
    for each in (upper, work):
        os.makedirs(os.path.join(base, each), exist_ok=True)
    status = os.stat(folder)
    os.chown(os.path.join(base, upper), status.st_uid, status.st_gid)
    os.chmod(os.path.join(base, upper), stat.S_IMODE(status.st_mode))
    return upper, work


def _mount(layers: str, folder: str) -> None:
    from ownlab_guest.colab import mount_namespace

    # index: a process of the runtime's last kernel may still use the same layer.
    options = f"{layers},index=off"
    try:
        mount_namespace.mount("overlay", folder, "overlay", data=options)
    except OSError:  # in a user namespace
        mount_namespace.mount("overlay", folder, "overlay", data=f"{options},userxattr")


def _check(folder: str) -> None:
    """Write a file and remove it: some file systems can be mounted as a layer, but not written."""
    path = os.path.join(folder, ".ownlab-check")
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    os.unlink(path)


def _set_up_apt() -> None:
    """Let apt install without a question, as on Colab, also through sudo."""
    from ownlab_guest.shell.apt import SETTING

    if os.path.isdir(os.path.dirname(APT_SETTING)):
        with open(APT_SETTING, "w") as file:
            file.write(SETTING)

"""Disks: which file systems are mounted, how full they are, on what device; and software RAID."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.files import call_all, names_in, read_text
from ownlab.machine.records import Disk, RaidArray
from ownlab.text import text

__all__ = [
    "Mount",
    "is_remote",
    "parse_mdstat",
    "read_disks",
    "read_mounts",
    "read_raid",
    "root_mount",
    "without_credentials",
]

_OCTAL = re.compile(r"\\([0-7]{3})")
_LOGIN = re.compile(r"([\w.+#-]*://|//|)(.*@|)(.*)", re.DOTALL)


class Mount(Struct, frozen=True):
    point: str
    filesystem: str
    source: str  # /dev/sda1, server:/export, overlay
    numbers: str  # "8:1", major and minor; "" where only /proc/mounts could be read
    folder: str  # which folder of the file system is mounted: "/", unless it is a bind mount
    options: str


def read_mounts(root: Path) -> Fact[tuple[Mount, ...]]:
    """Read every mount of this process's namespace, in the order they were made.

    The source is /proc/self/mountinfo or, without it, /proc/mounts.
    """
    fact = read_text(root / "proc/self/mountinfo", root)
    if isinstance(fact, Known):
        return Known(tuple(filter(None, map(_from_mountinfo, fact.value.splitlines()))), source=fact.source)
    older = read_text(root / "proc/mounts", root)
    if isinstance(older, Unknown):
        return fact
    return Known(tuple(filter(None, map(_from_mounts, older.value.splitlines()))), source=older.source)


def root_mount(mounts: Fact[tuple[Mount, ...]]) -> Mount | None:
    """Return what is mounted at /: the last mount there, since it covers the others."""
    if isinstance(mounts, Unknown):
        return None
    return next((mount for mount in reversed(mounts.value) if mount.point == "/"), None)


def without_credentials(source: str) -> str:
    """Remove credentials from the source of a mount: https://me:secret@dav.org/x -> https://dav.org/x."""
    shown = re.sub(r"[?].*|,[\w-]+=.*", "", source)  # an address's query; rclone's ":s3,secret_access_key=…:bucket"
    head, login, rest = _LOGIN.fullmatch(shown).groups()  # type: ignore[union-attr]  # it matches everything
    # "me@server:/home" has only a name; a colon that is not followed by a path precedes a password.
    return f"{head}{rest}" if login and re.search(r":(?!/)", login) else shown


def _from_mountinfo(line: str) -> Mount | None:
    # proc_pid_mountinfo(5): a varying number of optional fields ends with " - ".
    before, dash, after = line.partition(" - ")
    left, right = before.split(" "), after.split(" ")
    if not dash or len(left) < 6 or len(right) < 2:
        return None
    return Mount(
        point=_unescape(left[4]),
        filesystem=right[0],
        source=_unescape(right[1]),
        numbers=left[2],
        folder=_unescape(left[3]),
        options=",".join([left[5], *right[2:3]]),
    )


def _from_mounts(line: str) -> Mount | None:
    fields = line.split(" ")
    if len(fields) < 4:
        return None
    return Mount(_unescape(fields[1]), fields[2], _unescape(fields[0]), numbers="", folder="/", options=fields[3])


def _unescape(content: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), content)


_DEADLINE = 2.0  # seconds, for all disks together

_REMOTE = frozenset(
    (
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "drvfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "virtiofs",
        "wekafs",
    )
)
# FUSE file systems that do not store users' files, but show something else.
_FUSE_VIEWS = frozenset(
    ("fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.portal", "fuse.snapfuse", "fuse.squashfuse", "fuse.squashfuse_ll")
)
# Local file systems whose source is not a path in /dev.
_POOLED = frozenset(("bcachefs", "btrfs", "zfs"))
# Images that are mounted to be read: snaps, AppImages, installation media.
_IMAGES = frozenset(("squashfs", "erofs", "iso9660", "udf", "cramfs"))
_WINDOWS_DRIVERS = "/usr/lib/wsl/"  # WSL mounts Windows' drivers here

# What hypervisors call their disks. The kernel considers each of them rotational unless the hypervisor says otherwise.
_VIRTUAL_DISK = re.compile(r"QEMU|VIRTUAL[- ]DISK|VBOX", re.IGNORECASE)


def read_disks(
    root: Path, *, statvfs: Callable[[Path], os.statvfs_result] = os.statvfs, deadline: float = _DEADLINE
) -> Fact[tuple[Disk, ...]]:
    """Read the file systems that can store users' files, each once, sorted by mount point.

    `statvfs` hangs on a network mount whose server is gone; such a disk has an unknown size.
    """
    mounts = read_mounts(root)
    if isinstance(mounts, Unknown):
        return mounts
    chosen = _choose(mounts.value, root)
    paths = {mount.point: root / mount.point.lstrip("/") for mount in chosen}
    answers = call_all({point: partial(statvfs, path) for point, path in paths.items()}, deadline)
    return Known(
        tuple(_disk(mount, answers.get(mount.point), deadline, root) for mount in chosen), source=mounts.source
    )


def _choose(mounts: tuple[Mount, ...], root: Path) -> list[Mount]:
    """Choose one mount for each device: preferably not a bind mount, then the one with the shortest path."""
    on_top = {mount.point: mount for mount in mounts}  # a later mount on the same point covers the earlier
    best: dict[str, Mount] = {}
    for mount in on_top.values():
        if not _holds_files(mount) or not (is_remote(mount) or os.path.isdir(root / mount.point.lstrip("/"))):
            continue  # containers bind-mount single files: /etc/hosts, libcuda.so
        # Mounts of one pool may have different device numbers, but the same source.
        key = mount.source if mount.filesystem in _POOLED or not mount.numbers else mount.numbers
        rival = best.get(key)
        if rival is None or _rank(mount) < _rank(rival):
            best[key] = mount
    return sorted(best.values(), key=lambda mount: mount.point)


def _rank(mount: Mount) -> tuple[bool, bool, int]:
    return mount.point != "/", mount.folder != "/", len(mount.point)


def _holds_files(mount: Mount) -> bool:
    if mount.point == "/":  # of any kind: in containers it is an overlay
        return True
    if mount.filesystem in _IMAGES or mount.filesystem in _FUSE_VIEWS or mount.point.startswith(_WINDOWS_DRIVERS):
        return False
    return is_remote(mount) or mount.filesystem in _POOLED or mount.source.startswith("/dev/")


def is_remote(mount: Mount) -> bool:
    """Return whether its files lie on another machine or behind a program, where file locks may not work."""
    if mount.filesystem == "fuseblk" or mount.filesystem in _FUSE_VIEWS:  # fuseblk: NTFS and exFAT on a local disk
        return False
    return mount.filesystem in _REMOTE or mount.filesystem == "fuse" or mount.filesystem.startswith("fuse.")


def _disk(mount: Mount, answer: os.statvfs_result | OSError | None, deadline: float, root: Path) -> Disk:
    total: Fact[int]
    free: Fact[int]
    if answer is None:
        total = free = Unknown(text("{path} did not answer in {seconds:g} s", path=mount.point, seconds=deadline))
    elif isinstance(answer, OSError):
        total = free = Unknown(
            text("the size of {path} cannot be read: {error}", path=mount.point, error=answer.strerror)
        )
    else:
        total = Known(answer.f_blocks * answer.f_frsize, source="statvfs", unit="B")
        free = Known(answer.f_bavail * answer.f_frsize, source="statvfs", unit="B")
    return Disk(
        mount=mount.point,
        device=without_credentials(mount.source),
        filesystem=mount.filesystem,
        total=total,
        free=free,
        rotational=_rotational(mount, root),
        remote=is_remote(mount),
    )


# --- what a disk is made of -------------------------------------------------------------------------------------------


def _rotational(mount: Mount, root: Path) -> Fact[bool]:
    if is_remote(mount):
        return Unknown(text("not known for a remote file system"))
    device = _block_device(mount, root)
    if device is None:
        return Unknown(
            text(
                "{device} is not a visible block device",
                device=without_credentials(mount.source),
            )
        )
    return _device_rotational(device, root)


def _block_device(mount: Mount, root: Path) -> Path | None:
    """Find the device's folder in sysfs: by its numbers, or by its name where the numbers are virtual (btrfs)."""
    candidates = [root / "sys/dev/block" / mount.numbers] if mount.numbers else []
    if mount.source.startswith("/dev/"):
        name = os.path.basename(os.path.realpath(root / mount.source.lstrip("/")))  # /dev/mapper/x is a link to ../dm-0
        candidates.append(root / "sys/class/block" / name)
    return next((Path(os.path.realpath(path)) for path in candidates if os.path.exists(path)), None)


def _device_rotational(device: Path, root: Path) -> Fact[bool]:
    if os.path.exists(device / "partition"):
        device = device.parent
    slaves = names_in(device / "slaves", root)
    if isinstance(slaves, Known) and slaves.value:  # RAID, LVM, encryption: as slow as the slowest disk below
        below = [_device_rotational(Path(os.path.realpath(device / "slaves" / name)), root) for name in slaves.value]
        return next(
            (fact for fact in below if isinstance(fact, Known) and fact.value),
            next((fact for fact in below if isinstance(fact, Unknown)), below[0]),
        )
    flag = read_text(device / "queue/rotational", root)
    if isinstance(flag, Unknown):
        return flag
    if flag.value == "0":
        return Known(False, source=f"/sys/class/block/{device.name}/queue/rotational")
    if flag.value != "1":
        return Unknown(
            text(
                "/sys/class/block/{name}/queue/rotational has the unexpected value {value!r}",
                name=device.name,
                value=flag.value,
            )
        )
    model = read_text(device / "device/model", root)
    if device.name.startswith(("vd", "xvd")) or (isinstance(model, Known) and _VIRTUAL_DISK.search(model.value)):
        return Unknown(text("{name} is a virtual disk, which hides the physical disk", name=device.name))
    return Known(True, source=f"/sys/class/block/{device.name}/queue/rotational")


# --- software RAID ----------------------------------------------------------------------------------------------------

_MEMBER = re.compile(r"^([^\[\]]+)\[\d+\](?:\(([A-Z])\))*$")
_LEVEL = re.compile(r"^(raid\d+|linear|multipath|faulty|container|external:.*)$")


def read_raid(root: Path) -> Fact[tuple[RaidArray, ...]]:
    """Read the arrays of the md driver."""
    content = read_text(root / "proc/mdstat", root)
    if isinstance(content, Known):
        return Known(parse_mdstat(content.value), source=content.source)
    if os.path.exists(root / "proc/self") and not os.path.lexists(root / "proc/mdstat"):
        return Known((), source=text("no /proc/mdstat: the md driver is not loaded"))
    return content


def parse_mdstat(content: str) -> tuple[RaidArray, ...]:
    """Parse /proc/mdstat. An array is degraded if a member is missing ([U_]) or failed ((F))."""
    arrays: list[RaidArray] = []
    for block in re.split(r"\n(?=\S)", content):
        head, _, rest = block.partition("\n")
        name, colon, description = head.partition(" : ")
        if not colon or not name.startswith("md"):
            continue
        words = description.split()
        members = [match for match in map(_MEMBER.match, words) if match]
        places = re.search(r"\[([U_]+)\]", rest)
        arrays.append(
            RaidArray(
                name=name,
                level=next((word for word in words if _LEVEL.match(word)), "unknown"),
                state=words[0] if words else "unknown",
                members=tuple(sorted(match.group(1) for match in members)),
                degraded="_" in (places.group(1) if places else "")
                or any("(F)" in match.group(0) for match in members),
            )
        )
    return tuple(arrays)

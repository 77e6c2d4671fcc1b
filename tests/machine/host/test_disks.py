"""Disks and software RAID, with mount tables of a workstation, a container and WSL."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.host.disks import parse_mdstat, read_disks, read_raid
from ownlab.machine.records import Disk, RaidArray

Tree = Callable[[Mapping[str, str | bytes]], Path]

WORKSTATION = """\
21 28 0:20 / /proc rw,nosuid - proc proc rw
25 28 0:23 / /run rw,nosuid - tmpfs tmpfs rw,size=6553600k
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
41 28 7:0 / /snap/core22/1122 ro,nodev - squashfs /dev/loop0 ro
52 28 259:1 / /boot/efi rw,relatime - vfat /dev/nvme0n1p1 rw
60 28 253:0 / /home rw,relatime - ext4 /dev/mapper/vg-home rw
61 28 9:0 / /data rw,relatime - xfs /dev/md0 rw
62 61 9:0 /sets /srv/my\\040sets rw,relatime - xfs /dev/md0 rw
70 28 0:61 / /mnt/nas rw,relatime - nfs4 nas:/export rw,vers=4.2
71 28 0:62 / /run/user/1000/gvfs rw,nosuid - fuse.gvfsd-fuse gvfsd-fuse rw
72 28 0:63 / /mnt/bucket rw - fuse.rclone remote:bucket rw
73 28 0:64 / /var/lib/docker/overlay2/ab/merged rw - overlay overlay rw,lowerdir=/x
"""
BLOCK = "sys/devices/pci0000:00/block"
WORKSTATION_SYS = {
    f"{BLOCK}/nvme0n1/queue/rotational": "0",
    f"{BLOCK}/nvme0n1/nvme0n1p2/partition": "2",
    f"{BLOCK}/sda/queue/rotational": "1",
    f"{BLOCK}/sda/sda1/partition": "1",
    f"{BLOCK}/sdb/queue/rotational": "0",
    f"{BLOCK}/dm-0/slaves/nvme0n1p2": "-> ../../nvme0n1/nvme0n1p2",
    f"{BLOCK}/md0/slaves/sda1": "-> ../../sda/sda1",
    f"{BLOCK}/md0/slaves/sdb": "-> ../../sdb",
    f"{BLOCK}/md0/queue/rotational": "0",
    "sys/dev/block/259:2": "-> ../../devices/pci0000:00/block/nvme0n1/nvme0n1p2",
    "sys/dev/block/253:0": "-> ../../devices/pci0000:00/block/dm-0",
    "sys/dev/block/9:0": "-> ../../devices/pci0000:00/block/md0",
    "boot/efi/": "",
    "home/": "",
    "data/": "",
    "srv/my sets/": "",
    "mnt/nas/": "",
    "mnt/bucket/": "",
}


def disks_of(root: Path) -> dict[str, Disk]:
    return {disk.mount: disk for disk in value_of(read_disks(root)) or ()}


def test_a_workstation(tree: Tree) -> None:
    disks = disks_of(tree({"proc/self/mountinfo": WORKSTATION, **WORKSTATION_SYS}))
    assert list(disks) == ["/", "/boot/efi", "/data", "/home", "/mnt/bucket", "/mnt/nas"]
    assert {mount for mount, disk in disks.items() if disk.remote} == {"/mnt/nas", "/mnt/bucket"}
    assert value_of(disks["/"].rotational) is False
    assert value_of(disks["/home"].rotational) is False
    assert disks["/data"].rotational == Known(True, source="/sys/class/block/sda/queue/rotational")
    assert isinstance(disks["/mnt/nas"].rotational, Unknown)
    assert isinstance(disks["/boot/efi"].rotational, Unknown)
    assert (value_of(disks["/"].total) or 0) > (value_of(disks["/"].free) or 0) > 0
    assert disks["/mnt/nas"].device == "nas:/export"


def test_a_container_keeps_its_layers_and_volumes_but_no_single_files(tree: Tree) -> None:
    mounts = """\
100 99 0:80 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AB,workdir=/w
101 100 8:1 /var/lib/docker/containers/4f/hostname /etc/hostname rw - ext4 /dev/sda1 rw
102 100 8:1 /usr/lib/libcuda.so.580 /usr/lib/libcuda.so.580 ro - ext4 /dev/sda1 rw
103 100 8:1 /home/me/data /data rw - ext4 /dev/sda1 rw
104 100 0:81 / /dev/shm rw - tmpfs shm rw,size=65536k
"""
    files = {"proc/self/mountinfo": mounts, "etc/hostname": "x", "usr/lib/libcuda.so.580": "", "data/": ""}
    disks = disks_of(tree(files))
    assert {mount: disk.filesystem for mount, disk in disks.items()} == {"/": "overlay", "/data": "ext4"}


def test_a_later_mount_covers_an_earlier_one(tree: Tree) -> None:
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /x rw - ext4 /dev/sda2 rw\n3 1 8:3 / /x rw - xfs /dev/sda3 rw\n"
    )
    assert disks_of(tree({"proc/self/mountinfo": mounts, "x/": ""}))["/x"].device == "/dev/sda3"


def test_wsl_drives_are_remote_and_its_drivers_are_not_a_disk(tree: Tree) -> None:
    mounts = """\
1 0 8:32 / / rw - ext4 /dev/sdc rw
2 1 0:50 / /usr/lib/wsl/drivers ro - 9p drivers ro,aname=drivers
3 1 0:60 / /mnt/c rw - 9p C:\\134 rw,aname=drvfs;path=C:\\134
"""
    disks = disks_of(tree({"proc/self/mountinfo": mounts, "mnt/c/": "", "usr/lib/wsl/drivers/": ""}))
    assert {mount: disk.remote for mount, disk in disks.items()} == {"/": False, "/mnt/c": True}
    assert disks["/mnt/c"].device == "C:\\"


def test_only_proc_mounts(tree: Tree) -> None:
    root = tree({"proc/mounts": "/dev/root / ext4 rw 0 0\nproc /proc proc rw 0 0\n"})
    assert list(disks_of(root)) == ["/"]


@pytest.mark.parametrize("model", ["QEMU HARDDISK   ", "Virtual disk    "])
def test_a_virtual_disk_hides_the_physical_disk(tree: Tree, model: str) -> None:
    mounts = "1 0 8:0 / / rw - ext4 /dev/sda rw\n"
    files = {
        "proc/self/mountinfo": mounts,
        f"{BLOCK}/sda/queue/rotational": "1",
        f"{BLOCK}/sda/device/model": model,
        "sys/dev/block/8:0": "-> ../../devices/pci0000:00/block/sda",
    }
    assert disks_of(tree(files))["/"].rotational == Unknown("sda is a virtual disk, which hides the physical disk")


def test_btrfs_is_found_by_its_name(tree: Tree) -> None:
    files = {
        "proc/self/mountinfo": "1 0 0:30 /@ / rw - btrfs /dev/mapper/root rw\n",
        "dev/mapper/root": "-> ../dm-0",
        "dev/dm-0": "",
        "sys/class/block/dm-0/queue/rotational": "0",
    }
    assert value_of(disks_of(tree(files))["/"].rotational) is False


def test_a_mount_that_does_not_answer_blocks_nothing(tree: Tree) -> None:
    root = tree({"proc/self/mountinfo": WORKSTATION, **WORKSTATION_SYS})
    server_returns = threading.Event()

    def statvfs(path: Path) -> os.statvfs_result:
        if path.name == "nas":
            server_returns.wait(60)
        if path.name == "bucket":
            raise OSError(107, "Transport endpoint is not connected")
        return os.statvfs(path)

    disks = {disk.mount: disk for disk in value_of(read_disks(root, statvfs=statvfs, deadline=0.5)) or ()}
    server_returns.set()
    assert disks["/mnt/nas"].total == Unknown("/mnt/nas did not answer in 0.5 s")
    assert disks["/mnt/bucket"].free == Unknown(
        "the size of /mnt/bucket cannot be read: Transport endpoint is not connected"
    )
    assert isinstance(disks["/home"].total, Known)


MDSTAT = """\
Personalities : [raid1] [raid6] [raid5] [raid4] [raid0]
md1 : active raid5 sdd1[3] sdc1[1](F) sdb1[0]
      3906764800 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/2] [U_U]
      [==>..................]  recovery = 12.6% (37043392/292945152) finish=127.5min speed=33440K/sec

md0 : active raid1 nvme1n1p1[1] nvme0n1p1[0]
      1953382464 blocks super 1.2 [2/2] [UU]
      bitmap: 1/15 pages [4KB], 65536KB chunk

md2 : active (auto-read-only) raid0 sdf[1] sde[0]
      7813771264 blocks super 1.2 512k chunks

md127 : inactive sdg[0](S)
      1953382488 blocks super 1.2

unused devices: <none>
"""


def test_mdstat() -> None:
    assert parse_mdstat(MDSTAT) == (
        RaidArray("md1", "raid5", "active", ("sdb1", "sdc1", "sdd1"), degraded=True),
        RaidArray("md0", "raid1", "active", ("nvme0n1p1", "nvme1n1p1"), degraded=False),
        RaidArray("md2", "raid0", "active", ("sde", "sdf"), degraded=False),
        RaidArray("md127", "unknown", "inactive", ("sdg",), degraded=False),
    )


def test_raid_without_the_driver(tree: Tree) -> None:
    assert value_of(read_raid(tree({"proc/self/status": ""}))) == ()
    assert value_of(read_raid(tree({"proc/mdstat": "Personalities :\nunused devices: <none>\n"}))) == ()


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("https://me:secret@dav.example.org/files", "https://dav.example.org/files"),
        ("https://me:se/cr@t@dav.example.org/files", "https://dav.example.org/files"),
        ("https://dav.example.org/files?token=secret", "https://dav.example.org/files"),
        ("curlftpfs#ftp://me:secret@host/", "curlftpfs#ftp://host/"),
        ("//me:secret@nas/share", "//nas/share"),
        (":s3,access_key_id=A,secret_access_key=secret:bucket", ":s3"),
        ("//me@nas/share", "//me@nas/share"),
        ("me@server:/home/me", "me@server:/home/me"),
        ("server:/data/x@y", "server:/data/x@y"),
        ("/dev/mapper/vg-home", "/dev/mapper/vg-home"),
        ("C:\\", "C:\\"),
    ],
)
def test_credentials_of_a_mount_are_removed(tree: Tree, source: str, shown: str) -> None:
    mounts = f"1 0 0:9 / / rw - ext4 /dev/sda rw\n2 1 0:10 / /mnt/x rw - fuse {source} rw\n"
    assert disks_of(tree({"proc/self/mountinfo": mounts, "mnt/x/": ""}))["/mnt/x"].device == shown

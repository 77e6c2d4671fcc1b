"""Run a program on this machine with another root: `python private_root.py CONTENT UID PROGRAM …`, as root.

CONTENT is what is at /content there: nothing, an empty folder, or a link. New files in / stay in memory, and mounts are
shared among namespaces, as with systemd.
"""

import os
import stat
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "src"))

from ownlab_guest.colab import mount_namespace

MS_SHARED = 1 << 20
OLD = "/.old"


def make_machine(content: str, uid: int) -> None:
    base = tempfile.mkdtemp()
    mount_namespace.separate()
    mount_namespace.mount("machine", base, "tmpfs", data="mode=755")
    os.mkdir(base + OLD)
    mount_namespace.pivot_root(base, base + OLD)
    os.chdir("/")
    for entry in os.scandir(OLD):
        target = "/" + entry.name
        if target == "/content":
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
            continue
        if entry.is_dir(follow_symlinks=False):
            os.mkdir(target)
        else:
            Path(target).touch()
        mount_namespace.bind(entry.path, target)
    mount_namespace.umount(OLD)
    os.rmdir(OLD)
    os.rmdir(base)
    if content == "folder":
        os.mkdir("/content")
    elif content == "link":
        os.symlink("/srv", "/content")
    if os.path.exists("/dev/fuse"):
        # Everybody may open it, as most distributions have it.
        os.mknod("/.fuse", stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
        os.chmod("/.fuse", 0o666)
        mount_namespace.bind("/.fuse", "/dev/fuse")
        os.unlink("/.fuse")
    Path("/.passwd").write_text(Path("/etc/passwd").read_text() + f"ordinary:x:{uid}:{uid}::/:/bin/sh\n" * bool(uid))
    mount_namespace.bind("/.passwd", "/etc/passwd")
    os.unlink("/.passwd")
    mount_namespace.mount("", "/", flags=mount_namespace.MS_REC | MS_SHARED)


if __name__ == "__main__":
    here = os.getcwd()
    uid = int(sys.argv[2])
    make_machine(sys.argv[1], uid)
    os.chdir(here)
    if uid:
        os.setgroups([uid])
        os.setgid(uid)
        os.setuid(uid)
    os.execvp(sys.argv[3], sys.argv[3:])

"""The person's drive as the host sees it: a folder of theirs, or a remote while a kernel of theirs has it mounted."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import drive_folder
from ownlab.errors import LabError
from ownlab.lab.runtimes.state import all_plans, read_state

__all__ = ["MINE", "NotMounted", "drive_root", "is_of_drive", "leads_out", "path_in_drive", "remote_in"]

# So begin JupyterLab's paths of what is in it: the page knows it as a drive of this name, with one folder, as Colab's.
# Without the folder JupyterLab would start the kernel of a notebook at the top as one of the lab's own folder.
PREFIX, MINE = "drive:", "MyDrive"
_OF_A_KERNEL = "/proc/"
_ESCAPED = re.compile(r"\\([0-7]{3})")


class NotMounted(LabError):
    """The drive is a remote, and no kernel shows it just now."""


def drive_root(environ: Mapping[str, str] = os.environ) -> str:
    """The folder of the drive, made where it is missing. NotMounted where it is a remote that nobody has mounted."""
    options = resolve_lab_options(environ=environ)
    if not options.drive_remote:
        folder = options.drive_folder or str(drive_folder(environ))
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as exc:
            raise LabError(f"the folder of the drive, {folder}, cannot be made: {exc.strerror}") from exc
        return folder
    for plan in all_plans():
        kernel = (read_state(plan.home) or {}).get("kernel") or {}
        if found := _mounted_by(kernel.get("pid"), options.drive_remote):
            return found
    raise NotMounted(
        f"your drive is the remote {options.drive_remote}, which is seen here while a notebook has it mounted",
        hint='Mount it in a notebook: from google.colab import drive; drive.mount("/content/drive")',
    )


def is_of_drive(path: str) -> bool:
    """Whether JupyterLab means a file of the drive."""
    return path.startswith(PREFIX)


def path_in_drive(path: str) -> str | None:
    """JupyterLab's path of a file, with or without the drive's name, as one below the drive's root; None: it is none."""
    top, _, rest = path.removeprefix(PREFIX).strip("/").partition("/")
    return rest.strip("/") if top == MINE else None


def leads_out(path: str, root: str) -> bool:
    """Whether a path below the drive's root is none, for a link in it or for its dots."""
    if root.startswith(_OF_A_KERNEL):  # where real paths would be read as ours; a remote has no links
        inside = os.path.relpath(path, root).split(os.sep)
        steps = [os.path.join(root, *inside[: number + 1]) for number in range(len(inside))]
        return inside[0] == os.pardir or any(map(os.path.islink, steps))
    real, whole = os.path.realpath(path), os.path.realpath(root)
    return real != whole and not real.startswith(os.path.join(whole, ""))


def remote_in(mounts: str, remote: str) -> str | None:
    """Where a kernel's mounts (/proc/PID/mountinfo) have this remote of rclone as MyDrive; None where they have not."""
    for line in mounts.splitlines():
        place, _, what = line.partition(" - ")
        kind, _, rest = what.partition(" ")
        fields = place.split(" ")
        if kind != "fuse.rclone" or len(fields) < 5 or _name(_plain(rest.split(" ")[0])) != _name(remote):
            continue
        point = _plain(fields[4])
        if point.endswith(f"/{MINE}"):
            return point
    return None


def _mounted_by(pid: int | None, remote: str) -> str | None:
    """As a path of ours: kernels have mounts of their own, and /proc leads into them."""
    try:
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            point = remote_in(file.read(), remote)
    except OSError:  # it has ended
        return None
    return f"/proc/{pid}/root{point}" if point else None


def _name(remote: str) -> str:
    """rclone writes its paths in its own way, and "gdrive{aB3x9}:" where variables have a say in its configuration."""
    return remote.partition(":")[0].partition("{")[0]


def _plain(word: str) -> str:
    """Without the kernel's escapes: a space is written as \\040."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), word)

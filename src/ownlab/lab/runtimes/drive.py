"""The user's drive as the host sees it: a folder, or an rclone remote while a kernel has it mounted."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import drive_folder
from ownlab.errors import LabError
from ownlab.lab.runtimes.state import all_plans, read_state
from ownlab.text import text

__all__ = [
    "MY_DRIVE",
    "PREFIX",
    "NotMounted",
    "drive_root",
    "find_mount",
    "is_drive_path",
    "leaves_drive",
    "path_in_drive",
]

# The prefix of JupyterLab's paths in the drive: the page registers a drive of this name with one folder, as in Colab.
# Without that folder, JupyterLab would start kernels of top-level notebooks in the lab's own folder.
PREFIX, MY_DRIVE = "drive:", "MyDrive"
_KERNEL_ROOT = "/proc/"
_ESCAPED = re.compile(r"\\([0-7]{3})")


class NotMounted(LabError):
    """The drive is a remote, and no kernel has it mounted."""


def drive_root(environ: Mapping[str, str] = os.environ) -> str:
    """The folder of the drive, created if necessary. NotMounted if it is a remote that no kernel has mounted."""
    options = resolve_lab_options(environ=environ)
    if not options.drive_remote:
        folder = options.drive_folder or str(drive_folder(environ))
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as exc:
            message = text(
                "The drive's folder {folder} cannot be created: {reason}.", folder=folder, reason=exc.strerror
            )
            raise LabError(message) from exc
        return folder
    for plan in all_plans():
        kernel = (read_state(plan.home) or {}).get("kernel") or {}
        if mounted := _mounted_by(kernel.get("pid"), options.drive_remote):
            return mounted
    raise NotMounted(
        text(
            "Your drive is the remote {remote}, which is accessible only while a notebook has it mounted.",
            remote=options.drive_remote,
        ),
        hint=text('Mount it in a notebook: from google.colab import drive; drive.mount("/content/drive")'),
    )


def is_drive_path(path: str) -> bool:
    """Whether a JupyterLab path is in the drive."""
    return path.startswith(PREFIX)


def path_in_drive(path: str) -> str | None:
    """Return a JupyterLab path, with or without the drive's prefix, relative to the drive's root; None if it is not in it."""
    top, _, rest = path.removeprefix(PREFIX).strip("/").partition("/")
    return rest.strip("/") if top == MY_DRIVE else None


def leaves_drive(path: str, root: str) -> bool:
    """Whether a path below the drive's root leaves it, through a link or ".."."""
    if root.startswith(_KERNEL_ROOT):  # in the kernel's mount namespace, realpath would be wrong; remotes have no links
        inside = os.path.relpath(path, root).split(os.sep)
        steps = [os.path.join(root, *inside[: number + 1]) for number in range(len(inside))]
        return inside[0] == os.pardir or any(map(os.path.islink, steps))
    real, whole = os.path.realpath(path), os.path.realpath(root)
    return real != whole and not real.startswith(os.path.join(whole, ""))


def find_mount(mounts: str, remote: str) -> str | None:
    """Find the mount point of an rclone remote as MyDrive in /proc/PID/mountinfo; None if it is not mounted."""
    for line in mounts.splitlines():
        place, _, what = line.partition(" - ")
        kind, _, rest = what.partition(" ")
        fields = place.split(" ")
        if kind != "fuse.rclone" or len(fields) < 5 or _name(_unescape(rest.split(" ")[0])) != _name(remote):
            continue
        point = _unescape(fields[4])
        if point.endswith(f"/{MY_DRIVE}"):
            return point
    return None


def _mounted_by(pid: int | None, remote: str) -> str | None:
    """Return the mount point as a host path: kernels have their own mount namespace, reachable through /proc."""
    try:
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            point = find_mount(file.read(), remote)
    except OSError:  # it has ended
        return None
    return f"/proc/{pid}/root{point}" if point else None


def _name(remote: str) -> str:
    """The remote's name. rclone appends a suffix, "gdrive{aB3x9}:", if variables override its configuration."""
    return remote.partition(":")[0].partition("{")[0]


def _unescape(word: str) -> str:
    """Decode the escapes of /proc mounts: a space is \\040."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), word)

"""What is mounted where, from /proc/self/mountinfo or, without it, /proc/mounts."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.host.files import read_text

__all__ = ["Mount", "read_mounts", "root_mount", "without_credentials"]

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
    """Every mount of this process's namespace, in the order in which they were made."""
    fact = read_text(root / "proc/self/mountinfo", root)
    if isinstance(fact, Known):
        return Known(tuple(filter(None, map(_from_mountinfo, fact.value.splitlines()))), source=fact.source)
    older = read_text(root / "proc/mounts", root)
    if isinstance(older, Unknown):
        return fact
    return Known(tuple(filter(None, map(_from_mounts, older.value.splitlines()))), source=older.source)


def root_mount(mounts: Fact[tuple[Mount, ...]]) -> Mount | None:
    """What is mounted at /: the last there, since it covers the others."""
    if isinstance(mounts, Unknown):
        return None
    return next((mount for mount in reversed(mounts.value) if mount.point == "/"), None)


def without_credentials(source: str) -> str:
    """What a file system is mounted from, without what logs in to it: https://me:secret@dav.org/x -> https://dav.org/x."""
    shown = re.sub(r"[?].*|,[\w-]+=.*", "", source)  # an address's query; rclone's ":s3,secret_access_key=…:bucket"
    head, login, rest = _LOGIN.fullmatch(shown).groups()  # type: ignore[union-attr]  # it matches everything
    # "me@server:/home" tells a name alone; a colon that no path follows stands before a password.
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


def _unescape(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), text)

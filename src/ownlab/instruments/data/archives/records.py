"""Records of unpacking."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Literal, NamedTuple

from msgspec import Struct

__all__ = ["Member", "MemberKind", "UnpackReport"]

MemberKind = Literal["file", "folder", "symlink", "hardlink", "device"]


class Member(NamedTuple):
    """One entry of an archive, as the archive has it: nothing of it can be trusted."""

    number: int
    name: str
    kind: MemberKind
    size: int  # -1: nobody knows before it has been read
    modified: float  # seconds since the epoch
    executable: bool
    link: str  # where a link leads
    open: Callable[[], BinaryIO]


class UnpackReport(Struct, frozen=True):
    """`ownlab data unpack --json`."""

    archive: str
    format: str
    folder: str
    files: int  # in the archive
    extracted: int  # of them in this run; the others were there already
    size: int  # bytes of all files
    seconds: float

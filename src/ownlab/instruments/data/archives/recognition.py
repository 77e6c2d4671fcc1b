"""What kind of archive a file is: by its content, never by its name."""

from __future__ import annotations

import re
import zipfile
from typing import BinaryIO, Literal

from ownlab.errors import InputError
from ownlab.text import text

__all__ = ["Format", "is_tar", "recognise"]

Format = Literal["zip", "tar", "gz", "bz2", "xz", "zst", "7z", "rar", "other"]

# First bytes -> format. "other" has formats that only libarchive knows (lz4, lzip, cpio, cab, ar).
_SIGNATURES: tuple[tuple[bytes, Format], ...] = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PK\x07\x08", "zip"),
    (b"\x1f\x8b", "gz"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"\x04\x22\x4d\x18", "other"),
    (b"LZIP", "other"),
    (b"MSCF", "other"),
    (b"070701", "other"),
    (b"070707", "other"),
    (b"!<arch>\n", "other"),
)
_BLOCK = 512


def recognise(file: BinaryIO, name: str) -> Format:
    """Return the format of a file, which is at its beginning again afterwards. Raises InputError if it is no archive."""
    head = file.read(_BLOCK)
    file.seek(0)
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return kind
    if 0x50 <= (head[:1] or b"\0")[0] <= 0x5F and head[1:4] == b"\x2a\x4d\x18":  # a skippable frame: RFC 8878, 3.1.2
        return "zst"
    if is_tar(head):
        return "tar"
    if zipfile.is_zipfile(file):  # behind something else, as self-extracting programs are
        file.seek(0)
        return "zip"
    file.seek(0)
    if re.match(rb"\s*<(?:!doctype|html|head|body|\?xml)", head, re.IGNORECASE):
        raise InputError(
            text("{name} is a web page, not an archive.", name=name),
            hint=text(
                "The server sent an error or a form to sign in. Open the file in a browser to see which, and download it again."
            ),
        )
    if not head:
        raise InputError(text("{name} is empty.", name=name))
    raise InputError(
        text("{name} is not an archive of a known format.", name=name),
        hint=text("It unpacks zip, tar, gz, bz2, xz, zst, and with `bsdtar` also 7z, rar and others."),
    )


def is_tar(head: bytes) -> bool:
    """Whether a block is the header of a tar archive: its checksum is right (POSIX.1-1988, ustar)."""
    if len(head) < _BLOCK:
        return False
    if head[:_BLOCK].count(0) == _BLOCK:  # an empty archive, or a file of zeros
        return False
    field = head[148:156].strip(b" \0")
    if not re.fullmatch(rb"[0-7]{1,8}", field):
        return False
    return sum(head[:148]) + 8 * 32 + sum(head[156:_BLOCK]) == int(field, 8)

"""JSON with its checksum before it: what an interrupted attempt has noted is believed only if it is whole."""

import json
import zlib
from typing import Any

from ownlab_guest.data.errors import DamagedData
from ownlab_guest.text import text

_DIGITS = 8


def seal(document: Any) -> bytes:
    """Make one line, without its newline."""
    content = json.dumps(document).encode()  # escapes what is no UTF-8
    return b"%08x " % zlib.crc32(content) + content


def unseal(line: bytes, path: str) -> Any:
    """Return the document. Raises DamagedData."""
    content = line[_DIGITS + 1 :]
    if line[: _DIGITS + 1] != b"%08x " % zlib.crc32(content):
        raise damaged_notes(path)
    return json.loads(content)


def damaged_notes(path: str) -> DamagedData:
    """Notes of another attempt cannot be used."""
    return DamagedData(text("{path} is damaged.", path=path), hint=text("Remove the folder, and pack again."))

"""Plain http(s) addresses. A checksum may stand behind the address: https://…/data.zip#sha256=…"""

from __future__ import annotations

import re
from urllib.parse import urldefrag

import msgspec

from ownlab.download import without_secrets
from ownlab.errors import UsageError
from ownlab.instruments.data.download.connection import origin_of
from ownlab.instruments.data.download.records import Collection, RemoteFile
from ownlab.instruments.data.download.sources import Context
from ownlab.text import text

__all__ = ["resolve", "with_checksum"]

_CHECKSUM = re.compile(r"(sha256|sha-256|md5)[=:]([0-9a-f]+)", re.IGNORECASE)
_LENGTHS = {"sha256": 64, "md5": 32}


def resolve(argument: str, context: Context) -> Collection:
    """Return the one file of an address."""
    origin_of(argument)
    address, fragment = urldefrag(argument)
    url = context.credentials.without_password(address)
    label = without_secrets(url)
    remote = RemoteFile(url=url, label=label, html=context.html)
    if _CHECKSUM.match(fragment):
        remote = with_checksum(remote, fragment)
    return Collection(label, (remote,))


def with_checksum(remote: RemoteFile, checksum: str) -> RemoteFile:
    """Return a file that must have this checksum ("sha256=…" or "md5=…"). Raises UsageError."""
    match = _CHECKSUM.fullmatch(checksum.strip())
    kind = match[1].lower().replace("-", "") if match else ""
    if match is None or len(match[2]) != _LENGTHS[kind]:
        raise UsageError(
            text("{checksum!r} is not a checksum.", checksum=checksum[:100]),
            hint=text("Write sha256= with 64, or md5= with 32 hexadecimal digits."),
        )
    digits = match[2].lower()
    return (
        msgspec.structs.replace(remote, sha256=digits)
        if kind == "sha256"
        else msgspec.structs.replace(remote, md5=digits)
    )

"""SHA256SUMS and MD5SUMS: the checksums that a site publishes beside its files, as sha256sum, md5sum and BSD's programs write them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from ownlab.errors import InputError
from ownlab.input_files import read_text
from ownlab.instruments.data.download.answers import check_status
from ownlab.instruments.data.download.api_requests import get_with_retries
from ownlab.instruments.data.download.connection import Client
from ownlab.instruments.data.download.records import Collection, RemoteFile
from ownlab.instruments.data.download.web_address import with_checksum
from ownlab.text import text

__all__ = ["parse", "read", "with_checksums"]

_MOST_BYTES = 64 << 20
_GNU = re.compile(r"\\?(?P<digits>[0-9a-fA-F]{64}|[0-9a-fA-F]{32}) [ *](?P<name>.+)")
_BSD = re.compile(r"(?:SHA256|MD5) \((?P<name>.+)\) = (?P<digits>[0-9a-fA-F]{64}|[0-9a-fA-F]{32})")


def read(source: str, client: Client) -> dict[str, str]:
    """Return the checksums (sha256=… or md5=…) by name, of a file or an address. Raises InputError."""
    if not source.startswith(("http://", "https://")):
        return parse(read_text(Path(source)), source)
    with get_with_retries(client, source) as response:
        check_status(response, source.partition("?")[0])
        content = response.read_all(_MOST_BYTES)
    return parse(content.decode(errors="replace"), source.partition("?")[0])


def parse(content: str, source: str) -> dict[str, str]:
    """Return the checksums by name. Raises InputError for what is no list of checksums."""
    found = {}
    for line in content.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = _GNU.fullmatch(line.rstrip()) or _BSD.fullmatch(line.rstrip())
        if match is None:
            raise InputError(
                text("{source} is not a list of checksums: {line!r}.", source=source, line=line[:100]),
                hint=text("Each line has a checksum and a name, as sha256sum and md5sum write it."),
            )
        kind = "sha256" if len(match["digits"]) == 64 else "md5"
        found[posixpath.normpath(match["name"])] = f"{kind}={match['digits'].lower()}"
    return found


def with_checksums(collections: Iterable[Collection], checksums: dict[str, str], source: str) -> list[Collection]:
    """Give each file its checksum. Raises InputError for a file that the list does not have: it could not be checked."""
    return [
        msgspec.structs.replace(each, files=tuple(_with_checksum(file, checksums, source) for file in each.files))
        for each in collections
    ]


def _with_checksum(file: RemoteFile, checksums: dict[str, str], source: str) -> RemoteFile:
    name = posixpath.basename(unquote(urlsplit(file.url).path))
    for candidate in (file.path, posixpath.basename(file.path), name):
        if candidate in checksums:
            return with_checksum(file, checksums[candidate])
    raise InputError(text("{source} has no checksum of {name}.", source=source, name=file.path or name))

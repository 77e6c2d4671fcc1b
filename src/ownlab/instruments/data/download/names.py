"""Names of downloaded files. What a server, a list or a repository calls a file is never trusted as a path."""

from __future__ import annotations

import re
from email.message import Message
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from ownlab.errors import InputError
from ownlab.text import text

__all__ = ["RESERVED", "check_relative_path", "name_of_address", "name_of_response"]

RESERVED = ".ownlab-data"  # the folder of manifests and partial files, beside the data
_LONGEST = 255  # bytes of a name, on every file system that Linux and macOS use
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_EXTENDED = re.compile(r"filename\*\s*=\s*([\w-]+)'[^']*'([^;]+)", re.IGNORECASE)
_PLAIN = re.compile(r'filename\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]+))', re.IGNORECASE)


def check_relative_path(path: str) -> str:
    """Return a path of a repository or a list if it stays below its folder. Raises InputError."""
    parts = path.split("/")
    fine = all(
        part not in ("", ".", "..") and not _CONTROL.search(part) and len(_bytes(part)) <= _LONGEST for part in parts
    )
    if not fine or parts[0] == RESERVED:
        raise InputError(
            text("The source names a file {path!r}, which is not a safe path below a folder.", path=path[:300]),
            hint=text("Nothing was written. Download the file on its own, under a name of your choice (--name)."),
        )
    return path


def name_of_response(headers: Message) -> str:
    """Return the name in a Content-Disposition header, made harmless; "" if there is none."""
    disposition = headers.get("Content-Disposition", "")
    if match := _EXTENDED.search(disposition):
        encoding, quoted = match.groups()
        try:
            return _harmless(unquote_to_bytes(quoted.strip().strip('"')).decode(encoding))
        except (LookupError, ValueError):  # an unknown encoding, or bytes that are not in it
            return _harmless(unquote(quoted.strip()))
    if match := _PLAIN.search(disposition):
        name = re.sub(r"\\(.)", r"\1", match[1]) if match[1] is not None else match[2].strip()
        if "%" in name and "/" not in name:
            name = unquote(name)
        return _harmless(_from_header(name))
    return ""


def name_of_address(url: str) -> str:
    """Return the last part of an address's path, made harmless; "download" for an address that ends with "/"."""
    path = urlsplit(url).path
    return _harmless(unquote(path.rpartition("/")[2])) or "download"


def _from_header(name: str) -> str:
    """http.client reads headers as Latin-1; most servers send UTF-8."""
    try:
        return name.encode("latin-1").decode("utf-8")
    except ValueError:
        return name


def _harmless(name: str) -> str:
    name = _CONTROL.sub("_", re.split(r"[/\\]", name)[-1]).strip()
    if name.startswith("."):  # a server must not place a .bashrc
        name = "_" + name.lstrip(".")
    name = name if name != "_" else ""
    encoded = _bytes(name)
    if len(encoded) > _LONGEST:
        stem, dot, ending = name.rpartition(".")
        ending = f"{dot}{ending}" if dot and len(_bytes(ending)) < 20 else ""
        room = _LONGEST - len(_bytes(ending))
        return _bytes(stem or name)[:room].decode(errors="ignore") + ending
    return encoded.decode()


def _bytes(name: str) -> bytes:
    return name.encode(errors="replace")

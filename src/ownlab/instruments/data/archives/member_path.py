"""Names of members as paths below a folder. An archive may name anything: absolute paths, "..", links that lead out."""

from __future__ import annotations

import codecs
import posixpath
import re

from ownlab.errors import UsageError
from ownlab.instruments.data.archives.errors import UnsafeArchive
from ownlab.instruments.data.download.names import RESERVED
from ownlab.text import text

__all__ = ["check_encoding", "decode_name", "safe_link", "safe_path"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CHINESE = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]+")
_LONGEST = 255  # bytes of a component


def safe_path(name: str) -> str:
    """Return the path of a member below its folder; "" for the folder itself. Raises UnsafeArchive."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    bad = (
        name.startswith("/")
        or ".." in parts
        or _CONTROL.search(name) is not None
        or re.match(r"[A-Za-z]:[\\/]", name) is not None
        or parts[:1] == [RESERVED]
        or any(len(part.encode(errors="replace")) > _LONGEST for part in parts)
    )
    if bad:
        raise UnsafeArchive(
            text("The archive has a member {name!r}, which is not a safe path below a folder.", name=name[:300]),
            hint=text("What came before it was unpacked; nothing was written elsewhere."),
        )
    return "/".join(parts)


def safe_link(path: str, target: str) -> str:
    """Return where a symbolic link at `path` may lead: inside of the folder. Raises UnsafeArchive."""
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if (
        not target
        or target.startswith("/")
        or resolved == ".."
        or resolved.startswith("../")
        or _CONTROL.search(target)
    ):
        raise UnsafeArchive(
            text(
                "The archive has a link {path} that leads out of its folder, to {target!r}.",
                path=path,
                target=target[:300],
            ),
            hint=text("What came before it was unpacked; the link was not made."),
        )
    return target


def check_encoding(encoding: str) -> None:
    """Raise UsageError if Python does not know an encoding."""
    try:
        codecs.lookup(encoding or "utf-8")
    except LookupError as exc:
        raise UsageError(
            text("There is no encoding {name!r}.", name=encoding[:100]),
            hint=text("For instance: gbk, shift_jis, cp1252"),
        ) from exc


def decode_name(raw: bytes, encoding: str = "") -> str:
    """Return a name as text: in the given encoding, else UTF-8, else GB 2312 if that makes Chinese, else code page 437.

    Zip archives from Windows have names in the code page of the machine that made them, and do not say which.
    """
    for candidate in (encoding,) if encoding else ("utf-8", "gb2312"):
        try:
            decoded = raw.decode(candidate)
        except (UnicodeDecodeError, LookupError):
            continue
        foreign = "".join(character for character in decoded if ord(character) > 127)
        if candidate != "gb2312" or _CHINESE.fullmatch(foreign):
            return decoded
    return raw.decode("cp437")

"""Split archives as one file: data.zip.001, data.z01 with data.zip, data.tar.part1, data.tar.gz.aa."""

from __future__ import annotations

import io
import os
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from ownlab.errors import InputError
from ownlab.input_files import open_regular
from ownlab.text import text

__all__ = ["JoinedFile", "find_volumes", "open_volumes", "stem_of"]

_NUMBERED = re.compile(r"(?P<stem>.*\.)(?P<part>part[-_]?)?(?P<number>\d{1,4})", re.IGNORECASE)
_LETTERED = re.compile(r"(?P<stem>.*\.)(?P<part>part[-_]?)?(?P<letters>[a-z]{2,3})")
_SUFFIXES = re.compile(r"\.(?:zip|tar|tgz|tbz2?|txz|tzst|gz|bz2|xz|zst|zstd|7z|rar|lz4|lz|z)$", re.IGNORECASE)
_MOST = 10_000


def stem_of(path: Path) -> str:
    """Return the name of an archive without its endings: "data" for data.tar.gz.001."""
    name = path.name
    for pattern in (_NUMBERED, _LETTERED):
        match = pattern.fullmatch(name)
        if match and _SUFFIXES.search(match["stem"].rstrip(".")):
            name = match["stem"].rstrip(".")
    while (shorter := _SUFFIXES.sub("", name)) not in (name, ""):
        name = shorter
    return name


def find_volumes(path: Path) -> list[Path]:
    """Return all volumes of the archive that a path belongs to, in order; the path alone if it is whole.

    Raises InputError if one in the middle is missing.
    """
    name = path.name
    if match := re.fullmatch(r"(.*)\.(?:zip|z\d\d+)", name, re.IGNORECASE):
        spanned = _zip_volumes(path.parent, match[1])
        if spanned:
            return spanned
    if match := _NUMBERED.fullmatch(name):
        return _numbered(path, match)
    match = _LETTERED.fullmatch(name)
    if match and _SUFFIXES.search(match["stem"].rstrip(".")):
        return _lettered(path, match)
    return [path]


def _zip_volumes(folder: Path, stem: str) -> list[Path]:
    """data.z01, data.z02, data.zip: the last volume has the plain name."""
    found = {}
    for entry in folder.glob(f"{_literal(stem)}.[zZ]*"):
        if match := re.fullmatch(r"\.z(\d\d+)", entry.name[len(stem) :], re.IGNORECASE):
            found[int(match[1])] = entry
    last = next((path for path in (folder / f"{stem}.zip", folder / f"{stem}.ZIP") if path.exists()), None)
    if not found:
        return []
    if last is None:
        raise _missing(f"{stem}.zip")
    return [*_in_order(found, lambda number: f"{stem}.z{number:02}", 1), last]


def _numbered(path: Path, match: re.Match[str]) -> list[Path]:
    prefix = match["stem"] + (match["part"] or "")
    found = {}
    for entry in path.parent.glob(f"{_literal(prefix)}*"):
        if other := re.fullmatch(r"\d{1,4}", entry.name[len(prefix) :]):
            found[int(other[0])] = entry
    first = 0 if 0 in found else 1
    if len(found) == 1 and first not in found and not _SUFFIXES.search(match["stem"].rstrip(".")):
        return [path]  # a number that is no volume: release.2024
    width = len(match["number"])
    return _in_order(found, lambda number: f"{prefix}{number:0{width}}", first)


def _lettered(path: Path, match: re.Match[str]) -> list[Path]:
    """As split(1) names them: aa, ab, …"""
    prefix, length = match["stem"] + (match["part"] or ""), len(match["letters"])
    found = {}
    for entry in path.parent.glob(f"{_literal(prefix)}*"):
        ending = entry.name[len(prefix) :]
        if re.fullmatch(rf"[a-z]{{{length}}}", ending):
            number = 0
            for letter in ending:
                number = number * 26 + ord(letter) - ord("a")
            found[number] = entry
    if 0 not in found and len(found) == 1:
        return [path]

    def name(number: int) -> str:
        letters = ""
        for _ in range(length):
            number, rest = divmod(number, 26)
            letters = chr(ord("a") + rest) + letters
        return prefix + letters

    return _in_order(found, name, 0)


def _in_order(found: dict[int, Path], name: object, first: int) -> list[Path]:
    assert callable(name)
    last = max(found)
    for number in range(first, min(last, _MOST) + 1):
        if number not in found:
            raise _missing(name(number))
    return [found[number] for number in range(first, last + 1)]


def _missing(name: str) -> InputError:
    return InputError(
        text("The volume {name} of this archive is missing.", name=name),
        hint=text("Download it into the same folder, and run the command again."),
    )


def _literal(name: str) -> str:
    return re.sub(r"([\[\]*?])", r"[\1]", name)


class JoinedFile(io.RawIOBase):
    """Several files, one behind the other, as a single one that can be read and seeked in."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Open all of them. Raises InputError."""
        super().__init__()
        self._descriptors: list[int] = []
        self.starts: list[int] = []
        self.size = self._position = 0
        try:
            for path in paths:
                self._descriptors.append(open_regular(path))
                self.starts.append(self.size)
                self.size += os.fstat(self._descriptors[-1]).st_size
        except BaseException:
            self.close()
            raise

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be seeked in."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Change the position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise OSError(22, "negative position")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: object) -> int:
        """Read into a buffer, at most to the end of one file."""
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if self._position >= self.size or not view:
            return 0
        index = bisect_right(self.starts, self._position) - 1
        end = self.starts[index + 1] if index + 1 < len(self.starts) else self.size
        most = min(len(view), end - self._position)
        count = os.preadv(self._descriptors[index], [view[:most]], self._position - self.starts[index])
        self._position += count
        return count

    def close(self) -> None:
        """Close all files."""
        while self._descriptors:
            os.close(self._descriptors.pop())
        super().close()


def open_volumes(paths: Sequence[Path]) -> JoinedFile:
    """Open the volumes of an archive. Raises InputError."""
    for path in paths:
        if path.is_dir():
            raise InputError(text("{path} is a folder, not an archive.", path=path))
    return JoinedFile(paths)

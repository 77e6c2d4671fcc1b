"""A zip, listed from its central directory and read by several threads. zipfile keeps an object of 0.6 KB for each member."""

import bz2
import lzma
import os
import struct
import zlib
from typing import Any, Dict, Iterator, NamedTuple

from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.regular_files import open_regular
from ownlab_guest.data.sources.source import (
    MOST_MEMBER_BYTES,
    Entry,
    File,
    Options,
    Source,
    is_data,
    layout_of,
    samples_of,
)
from ownlab_guest.text import text

# From APPNOTE.TXT of PKWARE, 4.3.7 to 4.3.16.
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR_64 = struct.Struct("<4sIQI")
_ENCRYPTED, _UTF8 = 1, 1 << 11
_FULL = 0xFFFFFFFF
_PART = 1 << 20


class ZipMember(NamedTuple):
    """A file as the central directory describes it."""

    name: str
    offset: int  # of its local header
    packed: int
    size: int
    method: int
    crc: int
    encrypted: bool


class ZipSource(Source):
    """The files of a zip, in its order."""

    def __init__(self, path: str, options: Options) -> None:
        self.path = path
        self._file = open_regular(path)
        self._layout = layout_of(path, (member.name for member in self.members()), options.only)

    def close(self) -> None:
        os.close(self._file)

    def identity(self) -> Dict[str, Any]:
        status = os.fstat(self._file)
        return {"kind": "zip", "path": os.path.realpath(self.path), "size": status.st_size, "mtime": status.st_mtime_ns}

    def entries(self) -> Iterator[Entry]:
        self.left_out = 0
        for entry in samples_of(self._files()):
            if entry.label is None and self._layout.has_folders:
                self.left_out += 1
            else:
                yield entry

    def _files(self) -> Iterator[File]:
        root = self._layout.root
        for member in self.members():
            if not member.name.startswith(root):
                continue
            if member.encrypted:
                raise DataError(
                    text("{path} is encrypted.", path=self.path),
                    hint=text("Extract it with its password, and pack the folder."),
                )
            place = f"{member.offset}:{member.packed}:{member.size}:{member.method}:{member.crc}"
            yield File(member.name[len(root) :], member.size, place)

    def members(self) -> Iterator[ZipMember]:
        """Yield the files that are data, from the central directory. Raises DamagedData."""
        try:
            start, size, shift = self._directory()
            for member in self._read_directory(start, size):
                if not member.name.endswith("/") and is_data(member.name):
                    yield member._replace(offset=member.offset + shift)
        except (struct.error, IndexError) as exc:
            raise self._damaged() from exc

    def _directory(self) -> "tuple[int, int, int]":
        """Return where the central directory is, its size, and what was put before the archive."""
        length = os.fstat(self._file).st_size
        tail = os.pread(self._file, min(length, 65_557), max(0, length - 65_557))
        found = tail.rfind(b"PK\5\6")
        if found < 0:
            raise self._damaged()
        end = _END.unpack_from(tail, found)
        size, offset = end[5], end[6]
        place = length - len(tail) + found
        if (size == _FULL or offset == _FULL or end[4] == 0xFFFF) and place >= _LOCATOR_64.size:
            locator = os.pread(self._file, _LOCATOR_64.size, place - _LOCATOR_64.size)
            if locator[:4] == b"PK\6\7":
                place -= _LOCATOR_64.size + _END_64.size
                end_64 = _END_64.unpack(os.pread(self._file, _END_64.size, place))
                if end_64[0] != b"PK\6\6":
                    raise self._damaged()
                size, offset = end_64[8], end_64[9]
        start = place - size
        if start < 0 or offset > start:
            raise self._damaged()
        return start, size, start - offset

    def _read_directory(self, start: int, size: int) -> Iterator[ZipMember]:
        rest, place, end = b"", start, start + size
        at = 0
        while True:
            if len(rest) - at < _CENTRAL.size + 3 * 65_535 and place < end:
                part = os.pread(self._file, min(_PART, end - place), place)
                if not part:
                    raise self._damaged()
                rest, at = rest[at:] + part, 0
                place += len(part)
            if at >= len(rest):
                return
            fields = _CENTRAL.unpack_from(rest, at)
            if fields[0] != b"PK\1\2":
                raise self._damaged()
            name, extra, comment = fields[10:13]
            at += _CENTRAL.size
            yield self._member(fields, rest[at : at + name], rest[at + name : at + name + extra])
            at += name + extra + comment

    def _member(self, fields: "tuple[Any, ...]", name: bytes, extra: bytes) -> ZipMember:
        flags, method, crc, packed, size, offset = fields[3], fields[4], fields[7], fields[8], fields[9], fields[16]
        while len(extra) >= 4:
            kind, length = struct.unpack_from("<HH", extra)
            if kind == 1:  # the numbers that do not fit above, in this order
                values = iter(struct.unpack_from(f"<{length // 8}Q", extra, 4))
                size = next(values, size) if size == _FULL else size
                packed = next(values, packed) if packed == _FULL else packed
                offset = next(values, offset) if offset == _FULL else offset
            extra = extra[4 + length :]
        return ZipMember(_decoded(name, flags), offset, packed, size, method, crc, bool(flags & _ENCRYPTED))

    def fetch(self, place: str) -> bytes:
        offset, packed, size, method, crc = map(int, place.split(":"))
        if max(size, packed) > MOST_MEMBER_BYTES:
            raise DataError(text("a member of {path} is larger than 256 MiB", path=self.path))
        local = os.pread(self._file, _LOCAL.size, offset)
        if len(local) < _LOCAL.size or local[:4] != b"PK\3\4":
            raise self._damaged()
        name, extra = _LOCAL.unpack(local)[9:11]
        content = _decompressed(os.pread(self._file, packed, offset + _LOCAL.size + name + extra), method, size)
        if len(content) != size or zlib.crc32(content) != crc:
            raise DamagedData(text("a member of {path} is damaged", path=self.path))
        return content

    def _damaged(self) -> DamagedData:
        return DamagedData(text("{path} is damaged, or no zip.", path=self.path))


def _decoded(name: bytes, flags: int) -> str:
    """Old archives have names in the code page of their maker; what is no UTF-8 is read as that of the IBM PC."""
    try:
        decoded = name.decode("utf-8")
    except UnicodeDecodeError:
        decoded = name.decode("utf-8", "surrogateescape") if flags & _UTF8 else name.decode("cp437")
    return decoded.replace("\\", "/").lstrip("/")


def _decompressed(content: bytes, method: int, size: int) -> bytes:
    """Decompress at most one byte more than announced: a bomb shows as a wrong size."""
    try:
        if method == 0:
            return content
        if method == 8:
            return zlib.decompressobj(-15).decompress(content, size + 1)
        if method == 12:
            return bz2.BZ2Decompressor().decompress(content, size + 1)
        if method == 14:
            return _lzma(content, size)
    except (zlib.error, OSError, lzma.LZMAError, EOFError, ValueError) as exc:
        raise DamagedData(text("a member of the zip is damaged: {reason}", reason=exc)) from exc
    raise DataError(text("a member has compression method {method}, which is not supported", method=method))


def _lzma(content: bytes, size: int) -> bytes:
    """LZMA in a zip has a header of its own: version, length of the properties, the properties."""
    (length,) = struct.unpack_from("<H", content, 2)
    properties = content[4 : 4 + length]
    if len(properties) != 5:
        raise ValueError("no LZMA properties")
    rest, position = divmod(properties[0], 9)
    pb, lp = divmod(rest, 5)
    (dictionary,) = struct.unpack_from("<I", properties, 1)
    filters = [{"id": lzma.FILTER_LZMA1, "lc": position, "lp": lp, "pb": pb, "dict_size": min(dictionary, 64 << 20)}]
    return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters).decompress(content[4 + length :], size + 1)

"""The binary index beside each shard: where each sample and its members are, their checksums, keys and labels.

All numbers are little-endian. Header (56 bytes), samples (20 bytes each), members (28 bytes each), strings (UTF-8).
`docs/reference/data-format.md` has the layout. A file is checked as a whole before anything in it is used.
"""

import struct
import zlib
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ownlab_guest.data.errors import DamagedData
from ownlab_guest.data.image_extensions import IMAGES
from ownlab_guest.text import text

MAGIC = b"OWNLABIX"
VERSION = 1
SUFFIX = ".index"
# magic, version, size of the header, samples, members, bytes of the tar, bytes of the strings, CRC of all after the header,
# four reserved bytes, CRC of the header up to here
_HEADER = struct.Struct("<8sHHIIQQIQII")
_HEADER_CRC = struct.Struct("<I")
# number of the first member, place of the strings, label (NO_LABEL: none), members, bytes of key and name, reserved
_SAMPLE = struct.Struct("<IIiHHHH")
# place of the data in the tar, its length, CRC-32, place of the extension in the strings, its length, reserved
_MEMBER = struct.Struct("<QQIIHH")
NO_LABEL = -(2**31)
_MOST_STRING = 65535
# The rows of an index with no more samples are kept as Python's numbers; a shard of tiny samples would need some hundred MB for them.
_KEPT_SAMPLES = 10_000


class Member(NamedTuple):
    """A file of a sample inside the tar."""

    extension: str
    offset: int  # of its data
    length: int
    crc: int


class Sample(NamedTuple):
    """A sample: the members with one key."""

    key: str  # the name in the tar, without extension
    name: str  # the name in the source
    label: Optional[int]
    members: Tuple[Member, ...]


def encode_text(name: str) -> bytes:
    """Names of files may be no UTF-8; such bytes survive."""
    return name.encode("utf-8", "surrogateescape")[:_MOST_STRING]


def encode_index(samples: Sequence[Sample], tar_bytes: int) -> bytes:
    """Make the content of an index file."""
    strings, extensions = bytearray(), {}  # type: bytearray, Dict[str, int]
    sample_rows, member_rows = bytearray(), bytearray()
    first = 0
    for sample in samples:
        key, name = encode_text(sample.key), encode_text(sample.name)
        label = NO_LABEL if sample.label is None else sample.label
        sample_rows += _SAMPLE.pack(first, len(strings), label, len(sample.members), len(key), len(name), 0)
        strings += key + name
        for member in sample.members:
            extension = encode_text(member.extension)
            if member.extension not in extensions:
                extensions[member.extension] = len(strings)
                strings += extension
            place = extensions[member.extension]
            member_rows += _MEMBER.pack(member.offset, member.length, member.crc, place, len(extension), 0)
        first += len(sample.members)
    body = bytes(sample_rows + member_rows + strings)
    header = _HEADER.pack(
        MAGIC, VERSION, _HEADER.size, len(samples), first, tar_bytes, len(strings), zlib.crc32(body), 0, 0, 0
    )[: -_HEADER_CRC.size]
    return header + _HEADER_CRC.pack(zlib.crc32(header)) + body


# Where its data begin and end in the tar, their checksum, the label, the extension.
Payload = Tuple[int, int, int, Optional[int], str]


class ShardIndex:
    """A checked index. Keys and names become strings when they are asked for."""

    def __init__(self, content: bytes, name: str) -> None:
        self._content = content
        self.name = name
        header = _checked_header(content, name)
        self.tar_bytes = header[5]
        self._samples, self._member_count = header[3], header[4]
        self._members = _HEADER.size + self._samples * _SAMPLE.size
        self._strings = self._members + self._member_count * _MEMBER.size
        self._payloads: Optional[List[Payload]] = None
        self._extensions: Dict[Tuple[int, int], str] = {}
        self._check_rows(header[6])

    def __len__(self) -> int:
        return self._samples

    def sample(self, number: int) -> Sample:
        """Return one sample; `number` is below len()."""
        _, place, _, _, key, name, _ = self._sample_row(number)
        return Sample(
            self._string(place, key), self._string(place + key, name), self.label(number), tuple(self.members(number))
        )

    def label(self, number: int) -> Optional[int]:
        """Return the label of one sample."""
        label = self._sample_row(number)[2]
        return None if label == NO_LABEL else label

    def members(self, number: int) -> "List[Member]":
        """Return the members of one sample."""
        first, _, _, count, _, _, _ = self._sample_row(number)
        return [
            Member(self._extension(place, size), offset, length, crc)
            for offset, length, crc, place, size, _ in self._member_rows(first, count)
        ]

    def payloads(self, first: int, count: int) -> "List[Payload]":
        """Return the payloads of some samples: the image of each, or else its first member."""
        if self._samples > _KEPT_SAMPLES:
            return self._made_payloads(first, count)
        if self._payloads is None:
            self._payloads = self._made_payloads(0, self._samples)
        return self._payloads[first : first + count]

    def _made_payloads(self, first: int, count: int) -> "List[Payload]":
        samples = list(self._sample_rows(first, count))
        if not samples:
            return []
        start = samples[0][0]
        members = list(self._member_rows(start, samples[-1][0] + samples[-1][3] - start))
        extensions = {row[3:5]: self._extension(row[3], row[4]) for row in members}
        images = {place for place, extension in extensions.items() if extension in IMAGES}
        made = []
        for begin, _, label, size, _, _, _ in samples:
            row = members[begin - start]
            if row[3:5] not in images:
                row = next((row for row in members[begin - start : begin - start + size] if row[3:5] in images), row)
            offset, length, crc, place, letters, _ = row
            number = None if label == NO_LABEL else label
            made.append((offset, offset + length, crc, number, extensions[place, letters]))
        return made

    def _sample_row(self, number: int) -> "Tuple[int, ...]":
        return _SAMPLE.unpack_from(self._content, _HEADER.size + number * _SAMPLE.size)

    def _sample_rows(self, first: int, count: int) -> "Iterator[Tuple[int, ...]]":
        start = _HEADER.size + first * _SAMPLE.size
        return _SAMPLE.iter_unpack(memoryview(self._content)[start : start + count * _SAMPLE.size])

    def _member_rows(self, first: int, count: int) -> "Iterator[Tuple[int, ...]]":
        start = self._members + first * _MEMBER.size
        return _MEMBER.iter_unpack(memoryview(self._content)[start : start + count * _MEMBER.size])

    def span(self, first: int, count: int) -> "Tuple[int, int]":
        """Return where the data of some samples begin, and where they end."""
        begin = self._member_row(self._sample_row(first)[0])
        last = self._sample_row(first + count - 1)
        end = self._member_row(last[0] + last[3] - 1)
        return begin[0], end[0] + end[1]

    def _member_row(self, number: int) -> "Tuple[int, ...]":
        return _MEMBER.unpack_from(self._content, self._members + number * _MEMBER.size)

    def _string(self, place: int, size: int) -> str:
        start = self._strings + place
        return self._content[start : start + size].decode("utf-8", "surrogateescape")

    def _extension(self, place: int, size: int) -> str:
        found = self._extensions.get((place, size))
        if found is None:
            found = self._extensions[(place, size)] = self._string(place, size)
        return found

    def _check_rows(self, string_bytes: int) -> None:
        """Check each place before it is used: a damaged index must not make a reader read elsewhere."""
        end = 0
        for offset, length, _, place, size, _ in self._member_rows(0, self._member_count):
            if offset < end or offset + length > self.tar_bytes or place + size > string_bytes:
                raise _damaged(self.name)
            end = offset + length
        following = 0
        for first, place, _, count, key, name, _ in self._sample_rows(0, self._samples):
            if first != following or count == 0 or place + key + name > string_bytes:
                raise _damaged(self.name)
            following = first + count
        if following != self._member_count:
            raise _damaged(self.name)


def _checked_header(content: bytes, name: str) -> "Tuple[int, ...]":
    if len(content) < _HEADER.size or content[:8] != MAGIC:
        raise _damaged(name)
    header = _HEADER.unpack_from(content)
    if zlib.crc32(content[: _HEADER.size - _HEADER_CRC.size]) != header[10]:
        raise _damaged(name)
    if header[1] != VERSION or header[2] != _HEADER.size:
        message = text("{name} has version {version} of the index format.", name=name, version=header[1])
        raise DamagedData(message, hint=text("Read it with a newer ownlab."))
    size = _HEADER.size + header[3] * _SAMPLE.size + header[4] * _MEMBER.size + header[6]
    if len(content) != size or zlib.crc32(memoryview(content)[_HEADER.size :]) != header[7]:
        raise _damaged(name)
    return header


def _damaged(name: str) -> DamagedData:
    return DamagedData(
        text("The index {name} is damaged.", name=name),
        hint=text("`ownlab data verify FOLDER --repair SOURCE` makes it again."),
    )

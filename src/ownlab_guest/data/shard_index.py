"""The binary index beside each shard: where each sample and its members are, their checksums, keys and labels.

All numbers are little-endian. Header (56 bytes), samples (20 bytes each), members (28 bytes each), strings (UTF-8).
`docs/reference/data-format.md` has the layout. A file is checked as a whole before anything in it is used.
"""

import operator
import struct
import sys
import zlib
from array import array
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

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
# Where parts of the rows are that are read for all of them at once: the type in `array`, and the byte in the row.
_LABEL, _MEMBERS = ("i", 8), ("H", 12)
_CRC, _EXTENSION_PLACE, _EXTENSION_BYTES = ("I", 16), ("I", 20), ("H", 24)
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


class Payloads(NamedTuple):
    """The payloads of some samples: the image of each, or else its first member.

    Lists of numbers: a tuple for each sample would keep the garbage collector busy, which costs more than to read the sample.
    """

    begins: "List[int]"  # where the data begin in the tar
    ends: "List[int]"
    crcs: "List[int]"
    labels: "List[Optional[int]]"
    extensions: "List[str]"

    def part(self, first: int, count: int) -> "Payloads":
        """Return those of some of the samples."""
        end = first + count
        return Payloads(
            self.begins[first:end],
            self.ends[first:end],
            self.crcs[first:end],
            self.labels[first:end],
            self.extensions[first:end],
        )

    def extend(self, others: "Payloads") -> None:
        """Append others."""
        self.begins.extend(others.begins)
        self.ends.extend(others.ends)
        self.crcs.extend(others.crcs)
        self.labels.extend(others.labels)
        self.extensions.extend(others.extensions)


def no_payloads(count: int) -> Payloads:
    """Return what stands in the place of payloads that nobody asks for."""
    return Payloads([0] * count, [0] * count, [0] * count, [None] * count, [""] * count)


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
        self._payloads: Optional[Payloads] = None
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
            for offset, length, crc, place, size, _ in _MEMBER.iter_unpack(self._member_rows(first, count))
        ]

    def payloads(self, first: int, count: int) -> Payloads:
        """Return the payloads of some samples, at least one."""
        if self._samples > _KEPT_SAMPLES:
            return self._made_payloads(first, count)
        if self._payloads is None:
            self._payloads = self._made_payloads(0, self._samples)
        return self._payloads.part(first, count)

    def _made_payloads(self, first: int, count: int) -> Payloads:
        samples = self._sample_rows(first, count)
        sizes = _column(samples, _SAMPLE.size, _MEMBERS)
        members = self._member_rows(self._sample_row(first)[0], sum(sizes))
        labels = _column(samples, _SAMPLE.size, _LABEL).tolist()
        known: List[Optional[int]] = [None if label == NO_LABEL else label for label in labels]
        each = sizes[0]
        alike = self._alike(members, each) if _is_one_value(sizes) else None
        if alike is not None:
            chosen, extension = alike
            row_bytes, place = each * _MEMBER.size, chosen * _MEMBER.size
            begins, ends = _spans(members, row_bytes, place)
            crcs = _column(members, row_bytes, _CRC, place).tolist()
            return Payloads(begins, ends, crcs, known, [extension] * count)
        places, extensions = self._different(sizes, members)
        begins, ends = _spans(members, _MEMBER.size)
        crcs = _column(members, _MEMBER.size, _CRC).tolist()
        columns = [[column[place] for place in places] for column in (begins, ends, crcs)]
        return Payloads(columns[0], columns[1], columns[2], known, [extensions[place] for place in places])

    def _alike(self, members: bytes, each: int) -> "Optional[Tuple[int, str]]":
        """Return which member is the payload, and its extension, if all samples have the same members, as most do."""
        found = None
        for number in range(each):
            row_bytes, start = each * _MEMBER.size, number * _MEMBER.size
            names = _extension_names(members, row_bytes, start)
            if not all(map(_is_one_value, names)):
                return None
            extension = self._extension(names[0][0], names[1][0])
            if found is None or (extension in IMAGES and found[1] not in IMAGES):
                found = number, extension
        return found

    def _different(self, sizes: "array[int]", members: bytes) -> "Tuple[List[int], List[str]]":
        """Return which members are the payloads, and the extensions of all members."""
        extensions = [self._extension(place, size) for place, size in zip(*_extension_names(members, _MEMBER.size))]
        chosen, first = [], 0
        for size in sizes:
            images = (number for number in range(first, first + size) if extensions[number] in IMAGES)
            chosen.append(next(images, first))
            first += size
        return chosen, extensions

    def _sample_row(self, number: int) -> "Tuple[int, ...]":
        return _SAMPLE.unpack_from(self._content, _HEADER.size + number * _SAMPLE.size)

    def _sample_rows(self, first: int, count: int) -> bytes:
        start = _HEADER.size + first * _SAMPLE.size
        return self._content[start : start + count * _SAMPLE.size]

    def _member_rows(self, first: int, count: int) -> bytes:
        start = self._members + first * _MEMBER.size
        return self._content[start : start + count * _MEMBER.size]

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
        for offset, length, _, place, size, _ in _MEMBER.iter_unpack(self._member_rows(0, self._member_count)):
            if offset < end or offset + length > self.tar_bytes or place + size > string_bytes:
                raise _damaged(self.name)
            end = offset + length
        following = 0
        for first, place, _, count, key, name, _ in _SAMPLE.iter_unpack(self._sample_rows(0, self._samples)):
            if first != following or count == 0 or place + key + name > string_bytes:
                raise _damaged(self.name)
            following = first + count
        if following != self._member_count:
            raise _damaged(self.name)


def _column(rows: bytes, row_bytes: int, part: "Tuple[str, int]", start: int = 0) -> "array[int]":
    """Return one part of all rows, without Python's work for each row. `start`: what of a row is before the part is counted."""
    numbers = array(part[0])
    numbers.frombytes(rows)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers[(start + part[1]) // numbers.itemsize :: row_bytes // numbers.itemsize]


def _spans(members: bytes, row_bytes: int, start: int = 0) -> "Tuple[List[int], List[int]]":
    """Return where the data of members begin and end."""
    low, high, low_length, high_length = (_column(members, row_bytes, ("I", at), start) for at in (0, 4, 8, 12))
    begins, lengths = low.tolist(), low_length.tolist()
    if any(high) or any(high_length):
        begins = [part + (more << 32) for part, more in zip(begins, high)]
        lengths = [part + (more << 32) for part, more in zip(lengths, high_length)]
    return begins, list(map(operator.add, begins, lengths))


def _extension_names(members: bytes, row_bytes: int, start: int = 0) -> "Tuple[array[int], array[int]]":
    """Return where the extensions of members are in the strings, and how long they are."""
    return _column(members, row_bytes, _EXTENSION_PLACE, start), _column(members, row_bytes, _EXTENSION_BYTES, start)


def _is_one_value(numbers: "array[int]") -> bool:
    return numbers.count(numbers[0]) == len(numbers)


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

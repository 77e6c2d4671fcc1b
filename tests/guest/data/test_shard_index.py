"""The binary index: what is written is read, and damaged or hostile bytes are an error of ours."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ownlab_guest.data.errors import DamagedData
from ownlab_guest.data.shard_index import Member, Sample, ShardIndex, encode_index

NAMES = st.text(st.characters(codec="utf-8"), max_size=40)
LABELS = st.none() | st.integers(-(2**31) + 1, 2**31 - 1)


@st.composite
def indexes(draw: st.DrawFn) -> tuple[list[Sample], int]:
    """Samples whose members follow each other in a tar, and its size."""
    samples, place = [], 0
    for _ in range(draw(st.integers(0, 8))):
        members = []
        for extension in draw(st.lists(NAMES, min_size=1, max_size=3)):
            length = draw(st.integers(0, 5000))
            members.append(Member(extension, place + 512, length, draw(st.integers(0, 2**32 - 1))))
            place += 512 + length
        samples.append(Sample(draw(NAMES), draw(NAMES), draw(LABELS), tuple(members)))
    return samples, place + 1024


@given(indexes())
def test_an_index_is_read_as_it_was_written(made: tuple[list[Sample], int]) -> None:
    samples, size = made
    index = ShardIndex(encode_index(samples, size), "x.index")
    assert [index.sample(number) for number in range(len(index))] == samples
    assert index.tar_bytes == size


@given(indexes(), st.data())
def test_any_changed_byte_is_noticed(made: tuple[list[Sample], int], data: st.DataObject) -> None:
    content = bytearray(encode_index(*made))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedData):
        ShardIndex(bytes(content), "x.index")


@given(st.binary(max_size=300))
def test_any_bytes_are_an_error_of_ours(content: bytes) -> None:
    with pytest.raises(DamagedData):
        ShardIndex(content, "x.index")


@given(indexes(), st.data())
def test_a_forged_index_with_right_checksums_never_leads_outside(
    made: tuple[list[Sample], int], data: st.DataObject
) -> None:
    content = bytearray(encode_index(*made))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(12, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    content[40:44] = struct.pack("<I", zlib.crc32(content[56:]))
    content[52:56] = struct.pack("<I", zlib.crc32(content[:52]))
    try:
        index = ShardIndex(bytes(content), "x.index")
    except DamagedData:
        return
    for number in range(len(index)):
        for member in index.sample(number).members:
            assert 0 <= member.offset <= member.offset + member.length <= index.tar_bytes


def test_a_newer_version_says_so() -> None:
    content = bytearray(encode_index([], 1024))
    content[8:10] = struct.pack("<H", 9)
    content[52:56] = struct.pack("<I", zlib.crc32(content[:52]))
    with pytest.raises(DamagedData, match="version 9"):
        ShardIndex(bytes(content), "x.index")


def test_names_that_are_no_utf8_survive() -> None:
    sample = Sample("k", b"\xff\xfe/x".decode("utf-8", "surrogateescape"), None, (Member("jpg", 512, 1, 0),))
    assert ShardIndex(encode_index([sample], 2048), "x").sample(0) == sample

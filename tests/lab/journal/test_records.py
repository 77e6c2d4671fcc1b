"""Records on disk: read back unchanged, and nothing else is taken for one."""

from __future__ import annotations

import random

import pytest

from ownlab.lab.journal.records import CHANNELS, EVENT, Damaged, Record, decode, encode, event, json_object
from ownlab.text import text, unpack_texts


def some_records(seed: int, count: int = 30) -> list[Record]:
    chance = random.Random(seed)
    return [
        Record(
            number,
            chance.choice(CHANNELS),
            chance.random() < 0.5,
            chance.random() * 1e9,
            tuple(chance.randbytes(chance.choice([0, 1, 30, 5000])) for _ in range(chance.choice([0, 1, 4, 7]))),
        )
        for number in range(1, count + 1)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_records_are_read_back_unchanged(seed: int) -> None:
    written = some_records(seed)
    data, place, read = b"".join(encode(written)), 0, []
    while place < len(data):
        record, place = decode(data, place)
        read.append(record)
    assert read == written


def test_large_parts_are_not_copied() -> None:
    picture = bytes(1 << 20)
    assert any(piece is picture for piece in encode([Record(1, "iopub", False, 0.0, (b"{}", picture))]))


def test_a_truncated_record_is_damaged() -> None:
    data = b"".join(encode([Record(7, "shell", True, 1.5, (b"{}", b"", b"abc"))]))
    for size in range(len(data)):
        with pytest.raises(Damaged):
            decode(data[:size])


def test_a_record_with_a_flipped_bit_is_damaged() -> None:
    data = b"".join(encode([Record(7, "shell", True, 1.5, (b"{}", b"abc"))]))
    for bit in range(len(data) * 8):
        turned = bytearray(data)
        turned[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Damaged):
            decode(bytes(turned))


def test_noise_is_not_a_record() -> None:
    chance = random.Random(1)
    for _ in range(500):
        with pytest.raises(Damaged):
            decode(chance.randbytes(200))
    with pytest.raises(Damaged):
        decode(bytes(200))


def test_an_event_is_one_object() -> None:
    record = event(9, 2.0, "lost", count=3, why="No space left on device")
    assert (record.number, record.channel, record.to_kernel) == (9, EVENT, False)
    assert json_object(record.parts[0]) == {"event": "lost", "count": 3, "why": "No space left on device"}


def test_the_reason_of_an_event_keeps_its_template() -> None:
    why = text("the kernel died ({exit})", exit="signal 9")
    content = unpack_texts(json_object(event(9, 2.0, "ended", why=why).parts[0]))
    assert content == {"event": "ended", "why": "the kernel died (signal 9)"}
    assert content["why"].template == why.template


@pytest.mark.parametrize("part", [b"", b"[1]", b"null", b"\xff", b"{", b'"x"'])
def test_an_invalid_object_is_empty(part: bytes) -> None:
    assert json_object(part) == {}

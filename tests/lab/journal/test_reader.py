"""Reading: in order, with every gap reported, while others write, compact and damage the journal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.journal.reader import Tail, compacted_to, records_after
from ownlab.lab.journal.records import EVENT, Record, encode, event, json_object
from ownlab.lab.journal.storage import compacted_name, list_journal_files, segment_name
from ownlab.lab.journal.writer import JournalWriter


def stream_record(number: int, size: int = 100) -> Record:
    return Record(number, "iopub", False, float(number), (b"{}", b"{}", b"{}", b"x" * size))


def write(folder: Path, numbers: Sequence[int], segment: int = 5) -> None:
    """So many records, a few in each segment."""
    for place in range(0, len(numbers), segment):
        batch = [stream_record(number) for number in numbers[place : place + segment]]
        (folder / segment_name(batch[0].number)).write_bytes(b"".join(encode(batch)))


def compact(folder: Path, position: int) -> None:
    """As a compaction does: what stands for everything comes first, then what it replaces goes."""
    (folder / compacted_name(position)).write_bytes(
        b"".join(encode([stream_record(position // 2), stream_record(position)]))
    )
    files = list_journal_files(folder)
    for first, following in zip(files.logs, files.logs[1:], strict=False):
        if following <= position + 1:
            (folder / segment_name(first)).unlink()
    for path in folder.glob("*.folded"):
        if path.name != compacted_name(position):
            path.unlink()


def numbers(records: Any) -> list[int]:
    return [record.number for record in records]


def damage(records: list[Record]) -> list[tuple[int, int]]:
    answer = [json_object(record.parts[0]) for record in records if record.channel == EVENT]
    return [(each["from_number"], each["to_number"]) for each in answer if each["event"] == "damaged"]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_an_empty_journal(tmp_path: Path) -> None:
    assert numbers(records_after(tmp_path / "none", 0)) == []
    assert compacted_to(tmp_path / "none") == 0
    tail = Tail(tmp_path / "none")
    assert numbers(tail.read()) == []
    writer = JournalWriter(str(tmp_path / "none"))
    writer.write([stream_record(1)])
    assert numbers(tail.read()) == [1]
    tail.close()
    writer.close()


def test_everything_after_a_number(tmp_path: Path) -> None:
    write(tmp_path, range(1, 24))
    for after in range(26):
        assert numbers(records_after(tmp_path, after)) == list(range(after + 1, 24))


def test_a_position_in_the_middle_of_large_records(tmp_path: Path) -> None:
    written = [stream_record(number, 3 << 20 if number % 3 else 10) for number in range(1, 13)]
    (tmp_path / segment_name(1)).write_bytes(b"".join(encode(written)) + b"".join(encode([stream_record(13)]))[:-1])
    for after in range(14):
        assert list(records_after(tmp_path, after)) == written[after:]


@pytest.mark.parametrize("wrong", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x01\x01\0\0"])
def test_damage_before_the_position_does_not_matter(tmp_path: Path, wrong: bytes) -> None:
    write(tmp_path, range(1, 13))
    path = tmp_path / segment_name(6)
    path.write_bytes(path.read_bytes()[:4] + wrong + path.read_bytes()[8:])
    read = list(records_after(tmp_path, 7))
    assert numbers(read) == [8, 9, 10, 11, 12]
    assert damage(read) == []
    assert numbers(records_after(tmp_path, 10)) == [11, 12]


def test_older_segments_are_not_even_opened(tmp_path: Path) -> None:
    write(tmp_path, range(1, 24))
    for first in (1, 6, 11):
        (tmp_path / segment_name(first)).write_bytes(b"no journal")
    assert numbers(records_after(tmp_path, 15)) == list(range(16, 24))


def test_no_file_stays_open(tmp_path: Path) -> None:
    write(tmp_path, range(1, 24))
    before = descriptors()
    assert len(list(records_after(tmp_path, 0))) == 23
    assert next(records_after(tmp_path, 0)).number == 1
    tail = Tail(tmp_path)
    assert len(list(tail.read())) == 23
    assert descriptors() == before + 1
    tail.close()
    assert descriptors() == before


def test_a_tail_continues_where_it_was(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path), segment_bytes=1000)
    tail, number = Tail(tmp_path), 0
    for size in (0, 1, 1, 7, 0, 30, 2, 100):
        batch = [stream_record(number + offset) for offset in range(1, size + 1)]
        number += size
        for record in batch:
            writer.write([record])
        assert list(tail.read()) == batch
        assert not tail.reset
    tail.close()
    writer.write([stream_record(number + 1)])
    assert numbers(tail.read()) == [number + 1]
    tail.close()
    writer.close()


def test_an_interrupted_read_continues_there(tmp_path: Path) -> None:
    write(tmp_path, [1, 2, 3, 4, 5, 9, 10, 11, 12, 13])
    tail, read = Tail(tmp_path), []
    while True:
        record = next(tail.read(), None)
        if record is None:
            break
        read.append(record)
    assert numbers(read) == [1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13]
    assert damage(read) == [(6, 8)]
    tail.close()


def test_records_larger_than_a_slice(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path))
    written = [
        stream_record(1),
        stream_record(2, 9 << 20),
        stream_record(3),
        stream_record(4, 5 << 20),
        stream_record(5, (4 << 20) - 200),
        stream_record(6),
    ]
    for record in written:
        writer.write([record])
    writer.close()
    assert list(records_after(tmp_path, 0)) == written


def test_a_partial_record_is_the_end_for_now(tmp_path: Path) -> None:
    path, whole = tmp_path / segment_name(1), b"".join(encode([stream_record(1)]))
    making = b"".join(encode([stream_record(2)]))
    for size in range(len(making)):
        path.write_bytes(whole + making[:size])
        tail = Tail(tmp_path)
        assert numbers(tail.read()) == [1]
        with open(path, "ab") as file:
            file.write(making[size:])
        assert numbers(tail.read()) == [2]
        tail.close()


def test_a_partial_record_is_truncated_and_replaced(tmp_path: Path) -> None:
    path, whole = tmp_path / segment_name(1), b"".join(encode([stream_record(1)]))
    path.write_bytes(whole + b"".join(encode([stream_record(2, 500)]))[:-1])
    tail = Tail(tmp_path)
    assert numbers(tail.read()) == [1]
    os.truncate(path, len(whole))
    (tmp_path / segment_name(2)).write_bytes(
        b"".join(encode([event(2, 0.0, "lost", count=1, why="full"), stream_record(3)]))
    )
    read = list(tail.read())
    assert numbers(read) == [2, 3]
    assert damage(read) == []
    tail.close()


def test_a_truncated_segment_continued_in_the_next_has_no_gap(tmp_path: Path) -> None:
    write(tmp_path, range(1, 11))
    with open(tmp_path / segment_name(1), "ab") as file:
        file.write(b"".join(encode([stream_record(6)]))[:40])
    assert list(records_after(tmp_path, 0)) == [stream_record(number) for number in range(1, 11)]


def test_a_damaged_record_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    size = len(b"".join(encode([stream_record(1)])))
    write(tmp_path, range(1, 6))
    path = tmp_path / segment_name(1)
    whole = path.read_bytes()
    for at in range(size + 8, 2 * size):  # everything of it but its checksum and its size
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        read = list(records_after(tmp_path, 0))
        assert numbers(read) == [1, 2, 3, 4, 5]
        assert damage(read) == [(2, 2)]
    assert read[1].at == path.stat().st_mtime


def test_after_an_invalid_size_reading_continues_with_the_next_record(tmp_path: Path) -> None:
    size = len(b"".join(encode([stream_record(1)])))
    write(tmp_path, range(1, 13))
    path = tmp_path / segment_name(6)
    whole = path.read_bytes()
    for wrong in (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x05\0\0\0", b"\x01\x01\0\0"):
        path.write_bytes(whole[: size + 4] + wrong + whole[size + 8 :])
        read = list(records_after(tmp_path, 0))
        assert numbers(read) == list(range(1, 13))
        assert damage(read) == [(7, 7)]
        assert json_object(read[6].parts[0])["bytes"] == size


def test_damage_at_the_end_is_reported_when_a_record_follows(tmp_path: Path) -> None:
    write(tmp_path, range(1, 6))
    path = tmp_path / segment_name(1)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    tail = Tail(tmp_path)
    assert numbers(tail.read()) == [1, 2, 3, 4]
    assert numbers(tail.read()) == []
    with open(path, "ab") as file:
        file.write(b"".join(encode([stream_record(6)])))
    read = list(tail.read())
    assert numbers(read) == [5, 6]
    assert damage(read) == [(5, 5)]
    assert numbers(tail.read()) == []
    tail.close()


@pytest.mark.parametrize("wrong", [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x05\0\0\0"])
def test_an_invalid_size_in_the_newest_segment_hides_nothing(tmp_path: Path, wrong: bytes) -> None:
    """Even if the size is so large that the record could still be being written."""
    size = len(b"".join(encode([stream_record(1)])))
    write(tmp_path, range(1, 6))
    path = tmp_path / segment_name(1)
    whole = path.read_bytes()
    path.write_bytes(whole[: size + 4] + wrong + whole[size + 8 :])
    read = list(records_after(tmp_path, 0))
    assert numbers(read) == [1, 2, 3, 4, 5]
    assert damage(read) == [(2, 2)]


def test_bytes_that_were_cut_out_or_inserted(tmp_path: Path) -> None:
    size = len(b"".join(encode([stream_record(1)])))
    write(tmp_path, range(1, 6))
    path = tmp_path / segment_name(1)
    whole = path.read_bytes()
    path.write_bytes(whole[: size + 50] + whole[3 * size + 70 :])
    read = list(records_after(tmp_path, 0))
    assert (numbers(read), damage(read)) == ([1, 4, 5], [(2, 4)])
    path.write_bytes(whole[:size] + os.urandom(3000) + bytes(3000) + whole[:size] + whole[size:])
    assert list(records_after(tmp_path, 0)) == [stream_record(number) for number in range(1, 6)], "nothing is lost"


def test_what_cannot_be_read_at_the_end_is_counted(tmp_path: Path) -> None:
    write(tmp_path, range(1, 6))
    path = tmp_path / segment_name(1)
    size = path.stat().st_size // 5
    os.truncate(path, 5 * size - 30)
    tail = Tail(tmp_path)
    assert numbers(tail.read(final=True)) == [1, 2, 3, 4]
    assert tail.unread_bytes == size - 30
    tail.close()


def test_a_large_hole_is_passed_quickly(tmp_path: Path) -> None:
    path, before, after = tmp_path / segment_name(1), stream_record(1), stream_record(3)
    path.write_bytes(b"".join(encode([before])) + bytes(64 << 20) + b"".join(encode([after])))
    begun = time.process_time()
    assert numbers(records_after(tmp_path, 0)) == [1, 2, 3]
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(("first", "missing"), [(1, (1, 5)), (6, (6, 10))])
def test_a_missing_segment_is_reported(tmp_path: Path, first: int, missing: tuple[int, int]) -> None:
    write(tmp_path, range(1, 16))
    (tmp_path / segment_name(first)).unlink()
    read = list(records_after(tmp_path, 0))
    assert damage(read) == [missing]
    assert len(read) == 11
    assert damage(list(records_after(tmp_path, missing[1]))) == []


def test_a_loss_that_the_writer_recorded_is_not_reported_twice(tmp_path: Path) -> None:
    for count, expected in [(4, []), (3, [(3, 5)]), (99, [])]:
        batch = [stream_record(1), stream_record(2), event(6, 0.0, "lost", count=count, why="full"), stream_record(7)]
        (tmp_path / segment_name(1)).write_bytes(b"".join(encode(batch)))
        assert damage(list(records_after(tmp_path, 0))) == expected


def test_the_compacted_part_comes_first(tmp_path: Path) -> None:
    write(tmp_path, range(1, 24))
    compact(tmp_path, 15)
    assert compacted_to(tmp_path) == 15
    assert numbers(records_after(tmp_path, 0)) == [7, 15, *range(16, 24)]
    assert numbers(records_after(tmp_path, 9)) == [15, *range(16, 24)]
    assert numbers(records_after(tmp_path, 15)) == list(range(16, 24))
    assert numbers(records_after(tmp_path, 18)) == list(range(19, 24))


def test_a_compaction_that_was_killed_before_it_removed_anything(tmp_path: Path) -> None:
    write(tmp_path, range(1, 24))
    (tmp_path / compacted_name(5)).write_bytes(b"".join(encode([stream_record(5)])))
    (tmp_path / compacted_name(15)).write_bytes(b"".join(encode([stream_record(15)])))
    (tmp_path / (compacted_name(20) + ".tmp")).write_bytes(b"half")
    assert numbers(records_after(tmp_path, 0)) == [15, *range(16, 24)]


def test_a_tail_overtaken_by_a_compaction_starts_over(tmp_path: Path) -> None:
    write(tmp_path, range(1, 14))
    tail = Tail(tmp_path)
    assert len(list(tail.read())) == 13
    assert not tail.reset
    write(tmp_path, range(16, 24), segment=8)
    compact(tmp_path, 15)
    read = tail.read()
    assert tail.reset, "known before the first record is taken"
    assert numbers(read) == [7, 15, *range(16, 24)]
    assert numbers(tail.read()) == []
    assert not tail.reset
    tail.close()


def test_a_tail_not_overtaken_continues(tmp_path: Path) -> None:
    write(tmp_path, range(1, 19))
    tail = Tail(tmp_path)
    assert len(list(tail.read())) == 18
    compact(tmp_path, 15)
    write(tmp_path, range(19, 24))
    assert numbers(tail.read()) == list(range(19, 24))
    assert not tail.reset
    compact(tmp_path, 18)
    compact(tmp_path, 23)
    assert numbers(tail.read()) == []
    assert not tail.reset
    tail.close()


def test_a_tail_that_begins_with_a_compacted_journal_is_not_reset(tmp_path: Path) -> None:
    write(tmp_path, range(1, 19))
    compact(tmp_path, 15)
    tail = Tail(tmp_path)
    read = tail.read()
    assert not tail.reset
    assert numbers(read) == [7, 15, 16, 17, 18]
    tail.close()


def test_files_being_read_may_be_removed_by_a_compaction(tmp_path: Path) -> None:
    write(tmp_path, range(1, 24))
    reading = records_after(tmp_path, 2)
    assert next(reading).number == 3
    compact(tmp_path, 20)
    assert numbers(reading) == list(range(4, 24))


def test_a_damaged_compacted_file_is_reported(tmp_path: Path) -> None:
    write(tmp_path, range(1, 24))
    compact(tmp_path, 15)
    path = tmp_path / compacted_name(15)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    read = list(records_after(tmp_path, 0))
    assert numbers(read) == [7, 15, *range(16, 24)]
    assert damage(read) == [(8, 15)]
    path.write_bytes(whole[:30] + b"?" + whole[31:])
    read = list(records_after(tmp_path, 0))
    assert len(damage(read)) == 1
    assert numbers(read)[-9:] == [15, *range(16, 24)]


@pytest.mark.parametrize("looked_between", [True, False])
def test_a_journal_that_was_removed_and_begun_again(tmp_path: Path, looked_between: bool) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    write(folder, range(1, 5))
    tail = Tail(folder)
    assert len(list(tail.read())) == 4
    shutil.rmtree(folder)
    if looked_between:
        assert numbers(tail.read()) == []
        assert tail.reset
    folder.mkdir()
    write(folder, range(1, 4))
    assert numbers(tail.read()) == [1, 2, 3]
    assert tail.reset is not looked_between
    tail.close()


def test_a_segment_that_another_process_starts_over(tmp_path: Path) -> None:
    write(tmp_path, range(1, 6))
    (tmp_path / segment_name(6)).write_bytes(b"".join(encode([stream_record(6)]))[:-1])
    tail = Tail(tmp_path)
    read = list(tail.read())
    writer = JournalWriter(str(tmp_path))
    writer.write([stream_record(writer.last + 1)])
    writer.close()
    again = tail.read()
    read = [*([] if tail.reset else read), *again]
    assert numbers(read) == [1, 2, 3, 4, 5, 6]
    assert damage(read) == []
    tail.close()


def test_reading_while_another_process_writes_at_full_speed(tmp_path: Path) -> None:
    code = """
import sys
from ownlab.lab.journal.records import Record
from ownlab.lab.journal.writer import JournalWriter
writer = JournalWriter(sys.argv[1], segment_bytes=100_000)
for start in range(1, 30_001, 30):
    writer.write([Record(n, "iopub", False, 0.0, (b"{}", b"{}", b"{}", b"y" * (n % 700))) for n in range(start, start + 30)])
writer.close()
"""
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    tail, position = Tail(tmp_path), 0
    while True:
        running = child.poll() is None
        for record in tail.read():
            assert record.channel == "iopub"
            assert record.number == position + 1
            assert len(record.parts[3]) == record.number % 700
            position += 1
        if not running:
            break
    assert child.returncode == 0
    assert position == 30_000
    assert len(list_journal_files(tmp_path).logs) > 50
    tail.close()

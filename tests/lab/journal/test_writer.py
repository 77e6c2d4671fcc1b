"""Writing: segments, one system call for each batch, and full disks."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.journal.reader import records_after
from ownlab.lab.journal.records import EVENT, Record, encode, event, json_object
from ownlab.lab.journal.storage import compacted_name, list_journal_files, segment_name
from ownlab.lab.journal.writer import JournalWriter


def stream_record(number: int, size: int = 20) -> Record:
    return Record(number, "iopub", False, float(number), (b"{}", b"{}", b"{}", b"x" * size))


def events(records: list[Record]) -> list[tuple[int, dict[str, Any]]]:
    return [(record.number, json_object(record.parts[0])) for record in records if record.channel == EVENT]


def everything(folder: Path) -> list[Record]:
    return list(records_after(folder, 0))


def write_until(writer: JournalWriter, number: int, *, trouble: bool) -> int:
    """One record after the other until there is trouble, or none any more; the next number."""
    deadline = time.monotonic() + 180
    while bool(writer.trouble) is not trouble:
        assert time.monotonic() < deadline
        writer.write([stream_record(number, 5_000)])
        number += 1
        if writer.trouble:
            time.sleep(0.02)
    return number


def retry(writer: JournalWriter) -> None:
    """Wait until it has written what it holds."""
    deadline = time.monotonic() + 180
    while writer.trouble:
        assert time.monotonic() < deadline
        writer.write(())
        time.sleep(0.02)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 512 KiB."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can make a small disk")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_records_are_on_disk_immediately(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path / "journals" / "a"))
    batches = [
        [stream_record(1)],
        [stream_record(number) for number in range(2, 1000)],
        [stream_record(1000, 3 << 20), stream_record(1001, 0)],
    ]
    for batch in batches:
        writer.write(batch)
        assert everything(tmp_path / "journals" / "a")[-1] == batch[-1]
    assert everything(tmp_path / "journals" / "a") == [record for batch in batches for record in batch]
    assert writer.trouble == ""
    writer.close()


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "journals" / "a"
    writer = JournalWriter(str(folder))
    writer.write([stream_record(1)])
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in (folder, folder.parent)} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    writer.close()


def test_a_segment_is_named_by_its_first_number(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path), segment_bytes=1000)
    for number in range(1, 31):
        writer.write([stream_record(number, 200)])
    writer.close()
    logs = list_journal_files(tmp_path).logs
    assert len(logs) > 5
    for first, following in zip(logs, [*logs[1:], 31], strict=True):
        size = sum(len(piece) for piece in encode([stream_record(number, 200) for number in range(first, following)]))
        assert (tmp_path / segment_name(first)).stat().st_size == size
    assert everything(tmp_path) == [stream_record(number, 200) for number in range(1, 31)]


def test_an_open_journal_has_no_other_files(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path))
    assert list_journal_files(tmp_path).logs == []
    writer.write([])
    assert list_journal_files(tmp_path).logs == []
    writer.write([stream_record(1)])
    writer.close()
    assert os.listdir(tmp_path) == [segment_name(1)]


def test_another_process_continues_in_another_file(tmp_path: Path) -> None:
    first = JournalWriter(str(tmp_path))
    assert first.last == 0
    first.write([stream_record(1), stream_record(2)])  # and is killed: never closed
    with open(tmp_path / segment_name(1), "ab") as file:
        file.write(b"".join(encode([stream_record(3)]))[:-1])
    second = JournalWriter(str(tmp_path))
    assert second.last == 2
    second.write([stream_record(3)])
    second.close()
    assert list_journal_files(tmp_path).logs == [1, 3]
    assert everything(tmp_path) == [stream_record(1), stream_record(2), stream_record(3)], (
        "the cut record was never passed on: nothing is missing"
    )


def test_a_segment_without_a_complete_record_is_replaced(tmp_path: Path) -> None:
    before = JournalWriter(str(tmp_path))
    before.write([stream_record(1)])
    before.close()
    (tmp_path / segment_name(2)).write_bytes(b"".join(encode([stream_record(2)]))[:10])
    after = JournalWriter(str(tmp_path))
    assert after.last == 1
    after.write([stream_record(2)])
    after.close()
    assert after.trouble == ""
    assert everything(tmp_path) == [stream_record(1), stream_record(2)]


def test_existing_files_are_never_overwritten(tmp_path: Path) -> None:
    before = JournalWriter(str(tmp_path))
    before.write([stream_record(1, 100)])
    before.close()
    after = JournalWriter(str(tmp_path))
    after.write([stream_record(1, 7)])
    assert "File exists" in after.trouble
    after.close()
    assert everything(tmp_path)[0] == stream_record(1, 100)


def test_a_killed_process_loses_nothing_that_it_sent(tmp_path: Path) -> None:
    code = """
import sys
from ownlab.lab.journal.records import Record
from ownlab.lab.journal.writer import JournalWriter
writer, number = JournalWriter(sys.argv[1], segment_bytes=200_000), 0
while True:
    batch = [Record(number + one, "iopub", False, 0.0, (b"{}", b"{}", b"{}", b"y" * 999)) for one in range(1, 51)]
    number += len(batch)
    writer.write(batch)
    print(number, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    answer = [child.stdout.readline() for _ in range(200)]
    child.send_signal(signal.SIGKILL)
    answer += child.stdout.readlines()
    child.wait(20)
    child.stdout.close()
    numbers = [record.number for record in everything(tmp_path)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= int([line for line in answer if line.endswith(b"\n")][-1])


def test_nothing_is_lost_if_there_is_space_again_soon(small_disk: Path) -> None:
    writer = JournalWriter(str(small_disk / "journal"))
    number = write_until(writer, 1, trouble=True)
    for _ in range(30):
        writer.write([stream_record(number, 5_000)])
        number += 1
    kept = list(everything(small_disk / "journal"))
    os.unlink(small_disk / "journal" / segment_name(1))  # somebody makes room
    retry(writer)
    writer.close()
    later = list(records_after(small_disk / "journal", len(kept)))
    assert events(later) == []
    assert [record.number for record in later] == list(range(len(kept) + 1, number))


def test_what_ran_is_held_longer_than_what_was_printed(small_disk: Path) -> None:
    writer = JournalWriter(str(small_disk / "journal"), held_bytes=20_000)
    number = write_until(writer, 1, trouble=True)
    status = (b'{"msg_type": "status"}', b"{}", b"{}", b"{}")
    for _ in range(20):
        writer.write([stream_record(number, 5_000), Record(number + 1, "iopub", False, 0.0, status)])
        number += 2
    os.unlink(small_disk / "journal" / segment_name(1))
    retry(writer)
    writer.close()
    later = list(records_after(small_disk / "journal", number - 42))
    assert sum(record.parts == status for record in later) == 20
    assert sum(what["count"] for _, what in events(later)) + len(later) - len(events(later)) >= 40
    assert [record.number for record in later] == sorted(record.number for record in later)
    assert b"damaged" not in b"".join(record.parts[0] for record in later)


def test_memory_is_bounded_while_the_disk_is_full(small_disk: Path) -> None:
    writer = JournalWriter(str(small_disk / "journal"), held_bytes=1 << 20)
    number = write_until(writer, 1, trouble=True)
    tracemalloc.start()
    for _ in range(3000):
        status = (b'{"msg_type": "status"}' + os.urandom(3000), b"{}", b"{}", b"{}")
        records = [
            Record(number, "iopub", False, 0.0, (b"{}", b"{}", b"{}", os.urandom(10_000))),
            Record(number + 1, "iopub", False, 0.0, status),
        ]
        writer.write(records)
        number += 2
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 6 << 20
    writer.close()


def test_a_full_disk_is_reported_until_there_is_space(small_disk: Path) -> None:
    writer = JournalWriter(str(small_disk / "journal"), held_bytes=0)
    lost_from = write_until(writer, 1, trouble=True) - 1
    assert "No space left" in writer.trouble
    number = lost_from + 1
    for _ in range(10):
        writer.write([stream_record(number)])
        number += 1
    before = everything(small_disk / "journal")
    assert [record.number for record in before] == list(range(1, lost_from)), "no part of a record is left"
    os.unlink(small_disk / "journal" / segment_name(1))  # somebody makes room
    number = write_until(writer, number, trouble=False)
    writer.write([stream_record(number)])
    writer.close()
    after = list(records_after(small_disk / "journal", lost_from - 1))
    [(lost_to, answer)] = events(after)
    assert (answer["count"], answer["why"]) == (lost_to - lost_from + 1, "No space left on device")
    assert answer["bytes"] > 5_000
    assert [record.number for record in after] == list(range(lost_to, number + 1))


def test_the_last_events_are_written_to_a_full_disk(small_disk: Path) -> None:
    writer = JournalWriter(str(small_disk / "journal"))
    lost_from = write_until(writer, 1, trouble=True) - 1
    with open(small_disk / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(512)):  # the last bit, too
            pass
    writer.write(
        [
            stream_record(lost_from + 1),
            event(lost_from + 2, 0.0, "kernel-ended", why="it died"),
            stream_record(lost_from + 3),
        ]
    )
    assert writer.trouble, "an event does not show that there is space again"
    writer.write([event(lost_from + 4, 0.0, "ended", why="stopped")])
    writer.close()
    answer = events(list(records_after(small_disk / "journal", lost_from - 1)))
    assert [(number, what["event"]) for number, what in answer] == [
        (lost_from + 1, "lost"),
        (lost_from + 2, "kernel-ended"),
        (lost_from + 3, "lost"),
        (lost_from + 4, "ended"),
    ]
    assert [what["count"] for _, what in answer if "count" in what] == [2, 1]


def test_the_last_events_are_written_even_if_they_fill_the_disk(small_disk: Path) -> None:
    writer = JournalWriter(str(small_disk / "journal"))
    writer.write([stream_record(1, 300_000)])
    writer.write([stream_record(2), stream_record(3, 300_000), stream_record(4), event(5, 0.0, "ended", why="stopped")])
    writer.close()
    after = list(records_after(small_disk / "journal", 1))
    assert [record.number for record in after] == [2, 4, 5]
    assert [what["event"] for _, what in events(after)] == ["lost", "ended"]


def test_a_loss_at_the_end_is_recorded_on_close(small_disk: Path) -> None:
    writer = JournalWriter(str(small_disk / "journal"))
    lost_from = write_until(writer, 1, trouble=True) - 1
    writer.close()
    [(number, answer)] = events(everything(small_disk / "journal"))
    assert (number, answer["event"], answer["count"]) == (lost_from, "lost", 1)


def test_a_file_size_limit(tmp_path: Path) -> None:
    code = """
import resource, sys, time
from ownlab.lab.journal.records import Record
from ownlab.lab.journal.writer import JournalWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writer = JournalWriter(sys.argv[1], held_bytes=0)
batch = [Record(number, "iopub", False, 0.0, (b"{}", b"{}", b"{}", b"y" * 9_000)) for number in range(1, 21)]
writer.write(batch)
print(writer.trouble)
number = 21
while writer.trouble:
    writer.write([Record(number, "iopub", False, 0.0, (b"{}", b"{}", b"{}", b"z"))])
    number += 1
    time.sleep(0.02)
writer.close()
"""
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "File too large" in ran.stdout
    records = everything(tmp_path)
    assert [record.number for record in records[:11]] == list(range(1, 12))
    [(number, answer)] = events(records)
    assert answer["count"] == number - 11
    assert records[-1].parts[-1] == b"z"


def test_a_folder_that_cannot_be_created_is_reported_without_an_error(tmp_path: Path) -> None:
    (tmp_path / "journals").write_text("in the way")
    writer = JournalWriter(str(tmp_path / "journals" / "a"), held_bytes=0)
    assert writer.trouble
    writer.write([stream_record(1)])
    writer.write(())
    assert writer.trouble
    (tmp_path / "journals").unlink()
    number = write_until(writer, 2, trouble=False)
    writer.close()
    after = everything(tmp_path / "journals" / "a")
    assert [record.number for record in after] == [number - 2, number - 1]
    assert events(after)[0][1]["count"] == number - 2


def test_a_loss_is_recorded_without_new_records(tmp_path: Path) -> None:
    (tmp_path / "journals").write_text("in the way")
    writer = JournalWriter(str(tmp_path / "journals" / "a"), held_bytes=0)
    writer.write([stream_record(1)])
    (tmp_path / "journals").unlink()
    retry(writer)
    assert [number for number, _ in events(everything(tmp_path / "journals" / "a"))] == [1]
    writer.close()


def test_compaction_is_requested_when_worthwhile(tmp_path: Path) -> None:
    writer = JournalWriter(str(tmp_path))
    wanted = []
    for number in range(1, 101):
        writer.write([stream_record(number, 1 << 20)])
        if writer.wants_compaction():
            wanted.append(number)
            assert not writer.wants_compaction(), "reported once"
    assert wanted == [64, 80, 96]
    logs = list_journal_files(tmp_path).logs
    (tmp_path / compacted_name(logs[-1] - 1)).write_bytes(b"x")
    for first in logs[:-1]:
        (tmp_path / segment_name(first)).unlink()
    writer.write([stream_record(101, 16 << 20)])
    assert not writer.wants_compaction()
    assert writer.sealed_bytes < 32 << 20
    writer.close()


def test_a_large_compacted_file_is_not_rewritten_for_a_little(tmp_path: Path) -> None:
    with open(tmp_path / compacted_name(5), "wb") as file:
        file.truncate(50 << 20)
    writer = JournalWriter(str(tmp_path))
    assert writer.last == 5
    wanted = []
    for number in range(6, 130):
        writer.write([stream_record(number, 1 << 20)])
        wanted += [number] if writer.wants_compaction() else []
    assert writer.sealed_bytes > 100 << 20
    assert len(wanted) == 1
    writer.close()

"""Recordings: written, killed, continued, on a full disk, and read; and files that are not recordings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.instruments.top.samples import BEGUN, GIB, STREAMS, a_card, moments, stream, worked

from ownlab.errors import InputError, OwnlabError, RecordError, UsageError
from ownlab.instruments.top.fields import DEFAULT_FIELDS, format_header, parse_fields
from ownlab.instruments.top.recording import Recorder, Replay, read
from ownlab.instruments.top.records import Sample
from ownlab.instruments.top.source import StreamEnded, open_source

DEADLINE = 30.0


def record(path: Path, samples: list[Sample], fields: str | None = None) -> None:
    with Recorder(path, parse_fields(fields) if fields else None) as recorder:
        for sample in samples:
            recorder.add(sample)


@pytest.mark.parametrize("name", ["run.ndjson", "run.jsonl", "RUN.NDJSON"])
def test_whole_samples_are_read_back_unchanged(tmp_path: Path, name: str) -> None:
    samples = stream("bf16") + moments(a_card(), a_card(0.0, index=1), begun=BEGUN + 1e6, cpu=50.0)
    record(tmp_path / name, samples)
    assert list(read(tmp_path / name)) == samples


def test_csv_is_read_back_with_its_fields(tmp_path: Path) -> None:
    samples = stream("transformer")
    record(tmp_path / "run.csv", samples)
    back = list(read(tmp_path / "run.csv"))
    assert (tmp_path / "run.csv").read_text().splitlines()[0] == format_header(parse_fields(DEFAULT_FIELDS))
    assert [round(each.at, 3) for each in back] == [round(each.at, 3) for each in samples]
    assert back[0].seconds is None
    assert back[3].seconds == pytest.approx(0.5, abs=0.01)
    was, now = samples[-1].cards[0], back[-1].cards[0]
    assert now.saturation is not None
    assert was.saturation is not None
    assert now.saturation.tensor == pytest.approx(was.saturation.tensor, abs=0.01)
    for name in ("uuid", "name", "utilisation", "memory_total", "throttle", "pcie_generation", "clock_sm_max"):
        assert getattr(now, name) == getattr(was, name)


@pytest.mark.parametrize("name", ["few.csv", "few.ndjson"])
def test_selected_fields_get_time_and_card_as_first_columns(tmp_path: Path, name: str) -> None:
    both = moments(a_card(45.0), a_card(99.0, index=1, saturation=worked()), count=3, cpu=12.5)
    record(tmp_path / name, both, "utilization.gpu,sm.active,memory.used,host.cpu")
    first = (tmp_path / name).read_text().splitlines()[0]
    assert first.startswith(("timestamp, index, utilization.gpu [%]", '{"timestamp":"'))
    back = list(read(tmp_path / name))
    assert [each.at for each in back] == [BEGUN + 1, BEGUN + 2, BEGUN + 3]
    assert [card.utilisation for card in back[0].cards] == [45.0, 99.0]
    assert [card.saturation and card.saturation.sm for card in back[0].cards] == [None, 90.0]
    assert back[0].cards[0].memory_used == GIB // 4
    assert back[0].host.cpu == 12.5


def test_a_recording_can_contain_the_verdict(tmp_path: Path) -> None:
    record(tmp_path / "run.csv", stream("tiny"), "timestamp,index,verdict")
    assert (tmp_path / "run.csv").read_text().splitlines()[-1].endswith(", 0, small")


def test_without_cards_the_host_is_recorded(tmp_path: Path) -> None:
    record(tmp_path / "run.csv", moments(count=3, cpu=25.0))
    assert [each.host.cpu for each in read(tmp_path / "run.csv")] == [25.0] * 3
    assert [each.cards for each in read(tmp_path / "run.csv")] == [()] * 3


# --- failures while recording -----------------------------------------------------------------------------------------

# Records the same sample repeatedly, and prints the number of written samples.
WRITER = """
import itertools, sys, resource
from pathlib import Path
from ownlab.errors import OwnlabError
from ownlab.instruments.top.recording import Recorder, read
path, limit = Path(sys.argv[1]), int(sys.argv[2])
sample = next(read(Path(sys.argv[3])))
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    with Recorder(path) as recorder:
        for number in itertools.count(1):
            recorder.add(sample)
            print(number, flush=True)
except OwnlabError as error:
    print(error.message, "|", error.hint, flush=True)
"""


def start_writer(path: Path, limit: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(limit), str(STREAMS / "h200-copy.ndjson")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", ["run.ndjson", "run.csv"])
def test_a_killed_recorder_loses_no_written_sample(tmp_path: Path, name: str) -> None:
    writer = start_writer(tmp_path / name)
    assert writer.stdout is not None
    printed = [writer.stdout.readline() for _ in range(50)]
    os.kill(writer.pid, signal.SIGKILL)
    printed += writer.stdout.readlines()
    writer.wait(DEADLINE)
    writer.stdout.close()
    count = int([line for line in printed if line.endswith("\n")][-1])
    assert len(list(read(tmp_path / name))) in (count, count + 1)
    record(tmp_path / name, stream("copy")[:1])
    assert len(list(read(tmp_path / name))) in (count + 1, count + 2)


@pytest.mark.parametrize("name", ["run.ndjson", "run.csv"])
def test_a_file_at_its_maximum_size_keeps_its_samples(tmp_path: Path, name: str) -> None:
    writer = start_writer(tmp_path / name, limit=10_000)
    printed, _ = writer.communicate(timeout=DEADLINE)
    *numbers, last = printed.splitlines()
    assert "The recording stopped: the file has reached its maximum size" in last
    assert f"The {len(numbers)} samples before that are saved." in last
    assert len(list(read(tmp_path / name))) == len(numbers)
    assert (tmp_path / name).read_bytes().endswith(b"\n")


def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "full.ndjson").symlink_to("/dev/full")
    recorder = Recorder(tmp_path / "full.ndjson")
    with pytest.raises(OwnlabError, match="The recording stopped: the disk is full"):
        recorder.add(stream("idle")[0])
    recorder.close()


def test_written_samples_can_be_read_at_once(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.ndjson") as recorder:
        for number, sample in enumerate(stream("idle"), 1):
            recorder.add(sample)
            assert len(list(read(tmp_path / "run.ndjson"))) == number


def test_a_recording_is_continued_after_the_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    record(path, stream("idle")[:3])
    with path.open("ab") as file:
        file.write(b'{"at": 1.5, "seco')
    assert len(list(read(path))) == 3
    record(path, stream("copy")[:2])
    assert list(read(path)) == stream("idle")[:3] + stream("copy")[:2]


def test_zeroes_after_a_power_failure_are_not_samples(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    record(path, stream("idle")[:3])
    with path.open("ab") as file:
        file.write(bytes(4096))
    assert len(list(read(path))) == 3


def test_a_file_with_other_columns_is_not_continued(tmp_path: Path) -> None:
    record(tmp_path / "run.csv", stream("idle")[:1], "timestamp,index,power.draw")
    with pytest.raises(InputError, match="has other columns"):
        Recorder(tmp_path / "run.csv")
    record(tmp_path / "run.csv", stream("idle")[1:2], "timestamp,index,power.draw")
    assert len(list(read(tmp_path / "run.csv"))) == 2


def test_a_file_with_other_content_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.ndjson").write_text("my notes\n")
    with pytest.raises(InputError, match="is not a recording"):
        Recorder(tmp_path / "notes.ndjson")
    assert (tmp_path / "notes.ndjson").read_text() == "my notes\n"


@pytest.mark.parametrize("name", ["run.txt", "run", "run.json"])
def test_other_file_extensions_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"must end in \.csv or \.ndjson"):
        Recorder(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot record to .*: No such file or directory"):
        Recorder(tmp_path / "none" / "run.csv")


# --- files of other programs ------------------------------------------------------------------------------------------

SMI = """\
timestamp, name, index, utilization.gpu [%], utilization.memory [%], memory.total [MiB], memory.used [MiB], power.draw [W], power.limit [W], temperature.gpu, clocks.current.sm [MHz], clocks.max.sm [MHz], clocks_throttle_reasons.active, ecc.mode.current
2024/05/01 10:00:00.123, NVIDIA GeForce RTX 3090, 0, 98 %, 41 %, 24576 MiB, 20000 MiB, 345.10 W, 350.00 W, 70, 1700 MHz, 2100 MHz, 0x0000000000000004, [N/A]
2024/05/01 10:00:00.125, NVIDIA GeForce RTX 3090, 1, 0 %, 0 %, 24576 MiB, 10 MiB, [Unknown Error], 350.00 W, 30, 210 MHz, 2100 MHz, 0x0000000000000001, [N/A]
2024/05/01 10:00:01.125, NVIDIA GeForce RTX 3090, 0, 97 %, 40 %, 24576 MiB, 20000 MiB, 341.00 W, 350.00 W, 71, 1690 MHz, 2100 MHz, 0x0000000000000004, [N/A]
2024/05/01 10:00:01.127, NVIDIA GeForce RTX 3090, 1, 0 %, 0 %, 24576 MiB, 10 MiB, 22.10 W, 350.00 W, 30, 210 MHz, 2100 MHz, 0x0000000000000001, [N/A]
"""


def test_csv_of_nvidia_smi_is_read(tmp_path: Path) -> None:
    (tmp_path / "smi.csv").write_text(SMI)
    first, second = read(tmp_path / "smi.csv")
    assert first.at == pytest.approx(time.mktime((2024, 5, 1, 10, 0, 0, 0, 0, -1)) + 0.123)
    assert first.seconds is None
    assert second.seconds == pytest.approx(1.002)
    busy, idle = first.cards
    assert (busy.name, busy.utilisation, busy.memory_total) == ("NVIDIA GeForce RTX 3090", 98.0, 24 * GIB)
    assert (busy.power, busy.power_limit, busy.temperature) == (345.1, 350.0, 70.0)
    assert (busy.throttle, idle.throttle, idle.power) == (("sw-power-cap",), ("gpu-idle",), None)


def test_a_table_without_times_is_read_as_one_row_a_second(tmp_path: Path) -> None:
    (tmp_path / "smi.csv").write_text("utilization.gpu [%], memory.used [MiB]\n10, 5\n20, 5\n")
    assert [(each.at, each.cards[0].utilisation) for each in read(tmp_path / "smi.csv")] == [(0.0, 10.0), (1.0, 20.0)]


def test_repeated_headers_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "smi.csv").write_text(SMI + SMI)
    assert len(list(read(tmp_path / "smi.csv"))) == 4


def test_a_damaged_line_is_reported_with_its_number(tmp_path: Path) -> None:
    (tmp_path / "smi.csv").write_text(SMI + "Unable to determine the device handle\n" + SMI)
    with pytest.raises(RecordError, match="line 6: 1 columns, but the header has 14"):
        list(read(tmp_path / "smi.csv"))
    lines = (STREAMS / "h200-idle.ndjson").read_text().splitlines()
    (tmp_path / "run.ndjson").write_text("\n".join([lines[0], '{"at": "soon"}', lines[1]]) + "\n")
    with pytest.raises(RecordError, match="line 2: not a sample"):
        list(read(tmp_path / "run.ndjson"))


@pytest.mark.parametrize(
    ("content", "description"),
    [
        (b"", "an empty file"),
        (b"\x1f\x8b\x08\0\0", "a gzip file"),
        (b"\x89PNG\r\n\x1a\n", "an image"),
        (b"\0\1\2\3", "a binary file"),
        (b'{\n "cells": [],\n "nbformat": 4}', "a notebook"),
        (b'{"cells": [], "nbformat": 4}', "a notebook"),
        (b'[{"a": 1}]', "other JSON"),
        (b'{"a": 1}\n', "other JSON"),
        (b"3\n", "text that begins with '3'"),
        (b"Hello\nWorld\n", "text that begins with 'Hello'"),
        (b"a,b,c\n1,2,3\n", "CSV without a known header"),
        (b"2024/05/01 10:00:00.123, 0, 98 %\n", "CSV without a known header"),
        (b"# HELP DCGM_FI_DEV_GPU_UTIL x\n", "metrics for Prometheus"),
        (b"Mon Jan  1\n+---+\n| NVIDIA-SMI 550.54 |\n", "the output of nvidia-smi"),
        (b"<?xml version='1.0'?>", "XML, perhaps of nvidia-smi -q -x"),
    ],
)
def test_the_format_of_another_file_is_named(tmp_path: Path, content: bytes, description: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match="is not a recording: it looks like") as caught:
        read(tmp_path / "file")
    assert description in caught.value.message


@pytest.mark.parametrize(
    "line", [b'{"at": 1794770000.5, "seco', b'{"at":1794770000.5,"seco', b'{"timestamp":"2026/11/15 10']
)
def test_a_recording_without_a_complete_sample_is_reported(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "run.ndjson"
    path.write_bytes(line)
    with pytest.raises(InputError, match="ends within its first line"):
        list(read(path))


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "none.ndjson")
    with pytest.raises(InputError, match="is a folder, not a file"):
        read(tmp_path)


# --- a recording as a source of samples -------------------------------------------------------------------------------


def test_a_replay_gives_each_sample_once() -> None:
    source = open_source(replay=STREAMS / "h200-copy.ndjson")
    assert [source.take() for _ in range(16)] == stream("copy")
    with pytest.raises(StreamEnded):
        source.take()
    source.close()


def test_a_closed_replay_gives_no_samples() -> None:
    source = Replay(STREAMS / "h200-copy.ndjson")
    source.take()
    source.close()
    with pytest.raises(StreamEnded):
        source.take()


def test_a_replay_refuses_other_files_at_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes\n")
    with pytest.raises(InputError, match="is not a recording"):
        Replay(tmp_path / "notes.txt")

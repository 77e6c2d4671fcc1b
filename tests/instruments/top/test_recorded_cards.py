"""Recordings and recorded machines in place of this machine's cards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ownlab.errors import InputError
from ownlab.instruments.top.recorded_cards import LoopedRecording
from ownlab.instruments.top.records import CardProcess, CardSample, HostSample, Owner, ProcessSample, Sample
from ownlab.instruments.top.source import StreamEnded, open_source, settle
from ownlab.json_encoding import encode_json

TESTS = Path(__file__).resolve().parents[2]
BF16 = TESTS / "streams" / "h200-bf16.ndjson"
UUID = "GPU-00000000-1111-2222-3333-444444444444"


def recorded(folder: Path, *samples: Sample) -> Path:
    path = folder / "stream.ndjson"
    path.write_bytes(b"".join(encode_json(sample) + b"\n" for sample in samples))
    return path


def recorded_sample(used: int) -> Sample:
    # A process of this very number is here as well, and uses no card.
    running = CardProcess(os.getpid(), memory=used)
    process = ProcessSample(os.getpid(), "python train.py", "ann", owner=Owner("r", "train.ipynb", "ann"))
    return Sample(
        1.0, 1.0, HostSample(cores=999), (CardSample(UUID, 0, memory_used=used, processes=(running,)),), (process,)
    )


def test_a_recording_is_repeated_with_the_values_of_this_host(tmp_path: Path) -> None:
    source = open_source({"OWNLAB_STREAM": str(recorded(tmp_path, recorded_sample(1), recorded_sample(2)))})
    taken = [source.take() for _ in range(3)]
    source.close()
    assert [sample.cards[0].memory_used for sample in taken] == [1, 2, 1]
    assert taken[0].seconds is None
    assert taken[1].seconds is not None
    assert {sample.host.cores for sample in taken} == {os.cpu_count()}
    assert taken[0].at > 1e9
    (process,) = taken[0].processes
    assert process == ProcessSample(os.getpid(), "python train.py", "ann", here=False)


def test_a_recorded_card_gives_a_complete_sample_at_once() -> None:
    source = open_source({"OWNLAB_STREAM": str(BF16)})
    sample = settle(source)
    assert sample.cards[0].name == "NVIDIA H200"
    assert sample.cards[0].saturation is not None
    assert sample.seconds is not None


def test_a_recorded_machine_does_not_change() -> None:
    source = open_source({"OWNLAB_MACHINE": str(TESTS / "machines" / "gtx1080ti-x4.json")})
    first, second = source.take(), source.take()
    assert first.cards == second.cards
    assert [card.index for card in first.cards] == [0, 1, 2, 3]
    assert all(card.name and card.no_saturation for card in first.cards)
    assert all(not process.here for process in first.processes)


def test_a_replay_ends_after_the_last_sample(tmp_path: Path) -> None:
    source = open_source({}, replay=recorded(tmp_path, recorded_sample(1)))
    assert settle(source).cards[0].memory_used == 1
    with pytest.raises(StreamEnded):
        source.take()


def test_files_that_are_not_recordings_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.ndjson"
    empty.write_text("")
    for path in (tmp_path / "absent.ndjson", empty, TESTS / "machines" / "h200.json"):
        with pytest.raises(InputError):
            LoopedRecording(path)

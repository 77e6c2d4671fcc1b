"""Recordings and recorded machines that stand in for this machine's cards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ownlab.errors import InputError
from ownlab.instruments.top.recorded_cards import RecordedCards
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


def sample(used: int) -> Sample:
    # A process of this very number is here as well, and uses no card.
    running = CardProcess(os.getpid(), memory=used)
    whose = ProcessSample(os.getpid(), "python train.py", "ann", owner=Owner("r", "train.ipynb", "ann"))
    return Sample(
        1.0, 1.0, HostSample(cores=999), (CardSample(UUID, 0, memory_used=used, processes=(running,)),), (whose,)
    )


def test_a_stream_goes_round_with_this_hosts_own_figures(tmp_path: Path) -> None:
    source = open_source({"OWNLAB_STREAM": str(recorded(tmp_path, sample(1), sample(2)))})
    taken = [source.take() for _ in range(3)]
    source.close()
    assert [one.cards[0].memory_used for one in taken] == [1, 2, 1]
    assert taken[0].seconds is None
    assert taken[1].seconds is not None
    assert {one.host.cores for one in taken} == {os.cpu_count()}
    assert taken[0].at > 1e9
    (process,) = taken[0].processes
    assert process == ProcessSample(os.getpid(), "python train.py", "ann", here=False)


def test_a_real_cards_stream_is_settled_at_once() -> None:
    source = open_source({"OWNLAB_STREAM": str(BF16)})
    found = settle(source)
    assert found.cards[0].name == "NVIDIA H200"
    assert found.cards[0].saturation is not None
    assert found.seconds is not None


def test_a_recorded_machine_stands_still() -> None:
    source = open_source({"OWNLAB_MACHINE": str(TESTS / "machines" / "gtx1080ti-x4.json")})
    first, second = source.take(), source.take()
    assert first.cards == second.cards
    assert [card.index for card in first.cards] == [0, 1, 2, 3]
    assert all(card.name and card.no_saturation for card in first.cards)
    assert all(not process.here for process in first.processes)


def test_a_recording_is_played_back_once(tmp_path: Path) -> None:
    source = open_source({}, replay=recorded(tmp_path, sample(1)))
    assert settle(source).cards[0].memory_used == 1
    with pytest.raises(StreamEnded):
        source.take()


def test_what_is_no_stream_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.ndjson"
    empty.write_text("")
    for path in (tmp_path / "absent.ndjson", empty, TESTS / "machines" / "h200.json"):
        with pytest.raises(InputError):
            RecordedCards(path)

"""Reports: spans, means, energy and headlines."""

from __future__ import annotations

import msgspec
import pytest
from tests.instruments.top.samples import BEGUN, GIB, a_card, moments, stream, without_gpm, worked

from ownlab.errors import InputError
from ownlab.instruments.top.records import CardSample, Sample
from ownlab.instruments.top.report import build_report


def run(*parts: tuple[CardSample, int], begun: float = BEGUN) -> list[Sample]:
    """Each card for so many seconds."""
    samples: list[Sample] = []
    for card, seconds in parts:
        samples += moments(card, count=seconds, begun=begun)
        begun += seconds
    return samples


COMPUTE = a_card(saturation=worked(tensor=90.0, sm=95.0), power=400.0, memory_used=40 * GIB)
COPY = a_card(saturation=worked(dram=88.0), power=200.0, memory_used=10 * GIB)
IDLE = a_card(0.0, saturation=worked(0.0, sm=0.0, dram=0.0), power=50.0)


def test_verdicts_over_time() -> None:
    (card,) = build_report(run((IDLE, 10), (COMPUTE, 60), (COPY, 30))).cards
    assert [(each.code, each.begun - BEGUN, each.seconds) for each in card.spans] == [
        ("idle", 0, 10),
        ("tensor", 10, 60),
        ("memory", 70, 30),
    ]
    assert card.shares == {"tensor": 60, "memory": 30, "idle": 10}
    assert card.headline == "Compute-bound on tensor cores for 60 % of 2 min; memory-bound 30 %; idle 10 %"
    assert "Move less" in card.advice  # for the verdict that needs action
    (well,) = build_report(run((IDLE, 10), (COMPUTE, 96), (COPY, 4))).cards
    assert "less precision" in well.advice


def test_means_peaks_and_energy() -> None:
    (card,) = build_report(run((IDLE, 50), (COMPUTE, 50))).cards
    assert card.means["sm"] == 47.5
    assert card.peaks["sm"] == 95
    assert card.memory_peak == 40 * GIB
    assert (card.energy, card.energy_from) == (50 * 50 + 50 * 400, "power")


def test_the_energy_of_a_long_recording_comes_from_the_counter() -> None:
    samples = [
        msgspec.structs.replace(each, cards=(msgspec.structs.replace(COMPUTE, energy=1000.0 + 390 * number),))
        for number, each in enumerate(run((COMPUTE, 200)))
    ]
    (card,) = build_report(samples).cards
    assert (card.energy, card.energy_from) == (390.0 * 199, "counter")


def test_a_pause_between_two_recordings_does_not_count() -> None:
    later = run((COMPUTE, 20), begun=BEGUN + 10_000)
    later[0] = msgspec.structs.replace(later[0], seconds=None)
    report = build_report(run((COMPUTE, 20)) + later)
    assert report.seconds == 39
    assert [each.seconds for each in report.cards[0].spans] == [20, 19]


@pytest.mark.parametrize("name", ["idle", "tiny", "bf16", "copy", "starved", "fp32"])
def test_a_recorded_stream(name: str) -> None:
    samples = stream(name)
    report = build_report(samples)
    assert (report.samples, round(report.seconds)) == (16, 8)
    (card,) = report.cards
    assert len(card.spans) == 1
    assert len(card.points) == 16
    assert card.no_saturation == ""
    assert build_report(map(without_gpm, samples)).cards[0].no_saturation == "no GPM"


def test_a_long_recording_is_reduced_evenly() -> None:
    (card,) = build_report(run((COMPUTE, 2000), (COPY, 3000))).cards
    assert 300 <= len(card.points) <= 601
    assert {each.seconds for each in card.points[:-1]} == {16.0}
    assert sum(each.seconds for each in card.points) == 5000
    assert [each.code for each in card.spans] == ["tensor", "memory"]


def test_one_sample_without_an_interval() -> None:
    (only,) = run((COMPUTE, 1))
    report = build_report([msgspec.structs.replace(only, seconds=None)])
    assert report.cards[0].headline == "Compute-bound on tensor cores"
    assert report.cards[0].means["tensor"] == 90


def test_each_slow_sample_has_a_verdict() -> None:
    report = build_report(
        moments(COMPUTE, count=3, seconds=60.0) + moments(COPY, count=2, seconds=60.0, begun=BEGUN + 180)
    )
    assert report.cards[0].shares == {"tensor": 60, "memory": 40}


def test_a_card_that_is_lost_during_the_recording() -> None:
    lost = CardSample("GPU-0", 0, lost="GPU is lost")
    (card,) = build_report(run((COMPUTE, 20), (lost, 10))).cards
    assert card.shares == pytest.approx({"tensor": 66.67, "lost": 33.33})
    assert card.name == "A card"


def test_without_cards_the_host_is_reported() -> None:
    report = build_report(moments(count=10, cpu=50.0, cores=8, memory=GIB, memory_used=GIB // 2))
    assert report.cards == ()
    assert report.host.cores == 8
    assert report.host.means["cpu"] == 50
    assert len(report.host.points) == 10


def test_a_recording_without_samples_has_no_report() -> None:
    with pytest.raises(InputError, match="no sample"):
        build_report([])

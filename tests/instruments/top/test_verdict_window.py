"""Verdicts: on the recorded H200, on cards without GPM, and at the edges of a window."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.instruments.top.samples import (
    BEGUN,
    GIB,
    MIB,
    STREAMS,
    a_card,
    moments,
    stream,
    verdict,
    verdicts,
    without_gpm,
    worked,
)

from ownlab.instruments.top.records import CardProcess, CardSample, HostSample, Owner, ProcessSample, Sample
from ownlab.instruments.top.verdict_window import Window

# Stream -> its verdict, and the verdict on the same card without GPM.
RECORDED = {
    "idle": ("idle", "idle"),
    "held": ("held", "held"),
    "tiny": ("small", "small"),
    "small-batches": ("starved", "starved"),
    "starved": ("starved", "starved"),
    "upload": ("pcie", "pcie"),
    "copy": ("memory", "memory"),
    "bf16": ("tensor", "fine"),
    "tf32": ("tensor", "fine"),
    "fp64": ("fp64", "fine"),
    "transformer": ("tensor", "fine"),
    "fp32": ("off-tensor", "fine"),
}


def test_every_recorded_stream_is_expected_here() -> None:
    assert {path.stem.removeprefix("h200-") for path in STREAMS.glob("h200-*.ndjson")} <= set(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_card_gets_its_verdict(name: str) -> None:
    result = verdict(stream(name))
    assert result.code == RECORDED[name][0]
    assert not result.inferred
    assert result.advice
    assert result.because
    assert 7 < result.seconds < 9


@pytest.mark.parametrize("name", RECORDED)
def test_without_gpm_the_verdict_is_inferred_and_says_probably(name: str) -> None:
    result = verdict([without_gpm(each) for each in stream(name)])
    assert result.code == RECORDED[name][1]
    assert result.inferred is (result.code not in ("idle", "held"))
    assert result.inferred is result.sentence.startswith("Probably")


def test_a_single_sample_is_enough() -> None:
    for name, (code, _) in RECORDED.items():
        assert verdict(stream(name)[-1:]).code == code


def test_small_steps_are_distinguished_from_waiting_for_data() -> None:
    assert "fill only 7.1 % of the card" in verdict(stream("small-batches")).sentence
    assert "waits for the host" in verdict(stream("starved")).sentence


def test_a_power_limit_under_full_load_is_a_note() -> None:
    assert "normal under full load" in verdict(stream("bf16")).because[-1]


CAPPED: dict[str, Any] = {"throttle": ("sw-power-cap",), "clock_sm": 900.0, "clock_sm_max": 1800.0}
LINK: dict[str, Any] = {"pcie_sent": 0.8 * 16 * 3.938e9, "pcie_generation": 5, "pcie_width": 16}
# A card of 8 GB with a desktop on it.
DESKTOP: dict[str, Any] = {
    "memory_total": 8 * GIB,
    "memory_used": 900 * MIB,
    "processes": (CardProcess(7, "graphics", 500 * MIB), CardProcess(8, "graphics", 300 * MIB)),
}


@pytest.mark.parametrize(
    ("card", "code", "words"),
    [
        (a_card(saturation=worked(), throttle=("sw-thermal",), temperature=88.0, clock_sm=900.0, clock_sm_max=1800.0),
         "throttled", "by heat: slowed down 100 % of the time, at 88 °C; clocks are at 50 %"),
        (a_card(saturation=worked(), throttle=("sw-thermal",)), "throttled", "by heat: slowed down 100 % of the time."),
        (a_card(saturation=worked(), throttle=("hw-slowdown", "hw-power-brake")), "throttled", "by the power supply"),
        (a_card(saturation=worked(), throttle=("hw-slowdown",)),
         "throttled", "Throttled by the hardware (heat or power) 100 % of the time."),
        (a_card(saturation=worked(), **CAPPED, power_limit_default=700.0),
         "throttled", "which is set to 57 % of the card's default: at 100 W"),
        # A T4 or a laptop's card: its own limit allows only half of the maximum clock.
        (a_card(saturation=worked(tensor=30.0), **CAPPED, power_limit_default=400.0), "fine", "90 % of the SMs"),
        (a_card(saturation=worked(tensor=30.0), **CAPPED), "fine", "90 % of the SMs"),
        (a_card(saturation=worked(tensor=7.0, dram=40.0)), "off-tensor", "tensor cores only 7 %"),
        (a_card(saturation=worked(tensor=97.0, tensor_fp64=96.0)), "fp64", "99 % of that in FP64"),
        (a_card(saturation=worked(tensor=97.0, tensor_fp64=1.0)), "tensor", "what the card is for"),
        (a_card(saturation=worked(tensor=70.0), **LINK), "tensor", "70 %"),
        (a_card(saturation=worked(fp32=70.0), **LINK), "off-tensor", "70 %"),
        (a_card(saturation=worked(), **LINK), "pcie", "over its PCIe link (to the host or to other cards), 80 %"),
        (a_card(saturation=worked(fp64=80.0)), "off-tensor", "FP64 units are active 80 %"),
        (a_card(saturation=worked(fp16=60.0)), "off-tensor", "FP16 units are active 60 %"),
        (a_card(saturation=worked(tensor=30.0, dram=30.0)), "fine", "90 % of the SMs"),
        (a_card(), "small", "draws only 25 % of its power limit"),
        (a_card(power=300.0), "fine", "draws 75 % of its power limit"),
        (a_card(power=None), "busy", "99 % of the time"),
        (a_card(None), "unknown", "neither"),
        (a_card(0.0, memory_used=20 * GIB), "held", "processes that are not visible from here hold 20 GiB"),
        (a_card(0.0), "idle", "no process holds memory"),
        (a_card(0.0, **DESKTOP), "idle", "Idle: nothing has run for at least 10 s; the desktop uses 800 MiB of its memory."),
        (a_card(5.0, **DESKTOP), "desktop", "busy 5 % of the time and use 800 MiB of its memory."),
        # Windows does not report the memory of a process.
        (a_card(0.0, **(DESKTOP | {"processes": (CardProcess(7, "graphics"),)})), "idle", "at least 10 s."),
        (a_card(0.0, **(DESKTOP | {"memory_used": 6 * GIB})), "held", "processes that are not visible from here hold 5.2 GiB"),
    ],
)  # fmt: skip
def test_a_card_that_was_not_recorded_gets_its_verdict(card: CardSample, code: str, words: str) -> None:
    result = verdict(moments(card))
    assert result.code == code
    assert words in result.sentence


@pytest.mark.parametrize(
    ("cpu", "host", "words"),
    [
        (100.0, {}, "keeps one core busy (100 % of a core)"),
        (400.0, {"cpu": 95.0}, "all cores of the host are busy (95 %)"),
        (10.0, {"io_wait": 1.6, "cores": 64}, "waits for its disks (102 % of a core's time)"),
        (10.0, {"io_wait": 20.0, "cores": 2}, "in between the card waits for the host"),
        (
            400.0,
            {"cpu": 6.0, "cores": 64, "quota": 4.0, "quota_used": 99.0},
            "quota of this container or group is used up (99 %)",
        ),
        (400.0, {"cpu": 20.0}, "in between the card waits for the host"),
    ],
)
def test_why_a_card_is_starved(cpu: float, host: dict[str, Any], words: str) -> None:
    card = a_card(30.0, saturation=worked(30.0, sm=28.0), processes=(CardProcess(7, memory=GIB),))
    result = verdict(moments(card, processes=(ProcessSample(7, cpu=cpu),), **host))
    assert result.code == "starved"
    assert words in result.sentence
    guess = verdict([without_gpm(each) for each in moments(card, processes=(ProcessSample(7, cpu=cpu),), **host)])
    assert guess.inferred
    assert guess.sentence == f"Probably s{result.sentence[1:]}"


# --- who holds an idle card, and how long it has been idle ------------------------------------------------------------


def held(memory: int = 20 * GIB) -> CardSample:
    return a_card(0.0, memory_used=memory, processes=(CardProcess(7, memory=memory), CardProcess(8, memory=GIB)))


def test_who_holds_an_idle_card() -> None:
    owner = Owner("r1", "/home/ada/lab/train.ipynb", "ada")
    by_lab = ProcessSample(7, command="python", owner=owner, started=BEGUN - 7200 + 10)
    result = verdict(moments(held(), processes=(by_lab,)))
    assert "train.ipynb of ada (pid 7, started 2 h ago) with 1 other process holds 21 GiB" in result.sentence
    by_hand = ProcessSample(7, command="python train.py", user="bob", container="0123456789abcdef")
    assert "python train.py of bob in 0123456789ab (pid 7)" in verdict(moments(held(), processes=(by_hand,))).sentence
    elsewhere = ProcessSample(7, here=False)
    assert "a process in another container (pid 7)" in verdict(moments(held(), processes=(elsewhere,))).sentence


def test_the_idle_time_is_exact_if_the_end_of_the_work_was_observed() -> None:
    ended = moments(a_card(saturation=worked(tensor=90.0)), count=20)
    after = moments(held(), count=600, begun=BEGUN + 20)
    result = verdict(ended + after)
    assert result.since == BEGUN + 20
    assert result.sentence.endswith("nothing has run for 10 min.")
    unseen = verdict(after)
    assert unseen.sentence.endswith("nothing has run for at least 10 min.")
    assert unseen.since == BEGUN + 20


def test_a_single_short_sample_has_no_idle_time() -> None:
    assert verdict(moments(held(), count=1, seconds=0.11)).sentence.endswith("nothing runs.")


# --- edges of the window ------------------------------------------------------------------------------------------------


def test_a_short_pause_is_part_of_the_work_and_a_long_one_is_not() -> None:
    work = moments(a_card(saturation=worked(tensor=90.0)), count=20)
    pause = moments(a_card(0.0, saturation=worked(0.0, sm=0.0)), count=6, begun=BEGUN + 20)
    assert verdict(work + pause[:3]).code == "tensor"
    assert verdict(work + pause).code == "idle"


def test_the_time_before_the_work_began_does_not_count() -> None:
    before = moments(a_card(0.0, saturation=worked(0.0, sm=0.0)), count=20)
    work = moments(a_card(saturation=worked(tensor=90.0)), count=2, begun=BEGUN + 20)
    result = verdict(before + work)
    assert result.code == "tensor"
    assert result.seconds == 2


def test_old_samples_leave_the_window() -> None:
    copying = moments(a_card(saturation=worked(dram=90.0)), count=30)
    computing = moments(a_card(saturation=worked(tensor=90.0)), count=30, begun=BEGUN + 30)
    assert verdict(copying + computing).code == "tensor"
    assert verdict(copying + computing).seconds == 30


def test_metrics_are_weighted_by_time() -> None:
    long = moments(a_card(saturation=worked(tensor=90.0)), count=1, seconds=20.0)
    short = moments(a_card(saturation=worked(tensor=0.0)), count=5, begun=BEGUN + 20, seconds=0.1)
    assert "88 %" in verdict(long + short).sentence


def test_a_first_sample_has_no_interval_and_does_not_count() -> None:
    first = msgspec.structs.replace(moments(a_card(0.0), count=1, begun=BEGUN - 1)[0], seconds=None)
    assert verdict([first]).code == "idle"
    assert verdict([first, *moments(a_card(saturation=worked(tensor=90.0)), count=1)]).code == "tensor"


def test_the_same_sample_twice_counts_once() -> None:
    (once,) = moments(a_card(saturation=worked(tensor=90.0)), count=1)
    assert verdict([once, once, once]).seconds == 1


def test_a_clock_that_is_set_back_changes_nothing() -> None:
    work = moments(a_card(saturation=worked(tensor=90.0)), count=5)
    later = moments(a_card(saturation=worked(tensor=90.0)), count=5, begun=BEGUN - 3600)
    assert verdict(work + later).seconds == 10


def test_without_samples_there_is_no_verdict() -> None:
    assert Window().verdicts() == ()


# --- cards that come and go ---------------------------------------------------------------------------------------------


def test_verdicts_are_ordered_by_card_number() -> None:
    cards = a_card(0.0, index=1), a_card(saturation=worked(tensor=90.0), index=0)
    assert [(each.card, each.code) for each in verdicts(moments(*cards))] == [("GPU-0", "tensor"), ("GPU-1", "idle")]


def test_a_card_that_vanishes_is_gone() -> None:
    both = moments(a_card(), a_card(index=1), count=5)
    single = moments(a_card(), count=5, begun=BEGUN + 5)
    both_verdicts = verdicts(both + single)
    assert [each.code for each in both_verdicts] == ["small", "gone"]
    assert "5 s ago" in both_verdicts[1].sentence


def test_a_driver_that_does_not_answer_makes_cards_silent_after_a_while() -> None:
    def after(seconds: float) -> Sample:
        return Sample(BEGUN + 5 + seconds, 1.0, HostSample(), trouble="NVML did not answer in 20 s")

    before = moments(a_card(), count=5)
    assert verdict([*before, after(1)]).code == "small"
    result = verdict([*before, after(1), after(20)])
    assert result.code == "silent"
    assert "for 20 s (NVML did not answer in 20 s)" in result.sentence


def test_a_lost_card_is_recognised_by_its_number_and_starts_again() -> None:
    lost = moments(CardSample("", 0, lost="GPU is lost"), count=1, begun=BEGUN + 5)
    result = verdict([*moments(a_card(), count=5), *lost])
    assert (result.card, result.code) == ("GPU-0", "lost")
    assert "GPU is lost" in result.sentence
    back = moments(a_card(saturation=worked(tensor=90.0)), count=1, begun=BEGUN + 6)
    assert verdict([*moments(a_card(), count=5), *lost, *back]).seconds == 1


def test_mig_instances_have_their_own_verdicts_and_may_disappear() -> None:
    whole = a_card(None)
    parts = [msgspec.structs.replace(a_card(None, index=0, saturation=worked(tensor=90.0)), uuid=f"MIG-{n}", parent="GPU-0")
             for n in range(2)]  # fmt: skip
    by_device = verdicts(moments(whole, *parts))
    assert [each.code for each in by_device] == ["split", "tensor", "tensor"]
    assert "Split into 2 MIG instances" in by_device[0].sentence
    after = moments(whole, parts[0], begun=BEGUN + 10)
    assert [each.card for each in verdicts(moments(whole, *parts) + after)] == ["GPU-0", "MIG-0"]

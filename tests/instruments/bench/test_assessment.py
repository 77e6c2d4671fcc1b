"""Figures against what is possible on a recorded machine."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.instruments.bench.bench_reports import COOL, HOT, an_h200, machine, product, result

from ownlab.instruments.bench.assessment import judge_all
from ownlab.instruments.bench.machine_summary import torch_of
from ownlab.instruments.bench.records import Measure, Result
from ownlab.machine.facts import Known
from ownlab.machine.records import CardProcess, Disk, Machine


def judged(one: Result, facts: Machine | None = None) -> Measure:
    return judge_all([one], facts or machine())[0]


def with_card(facts: Machine, **given: object) -> Machine:
    assert isinstance(facts.cards, Known)
    return replace(facts, cards=replace(facts.cards, value=(replace(facts.cards.value[0], **given),)))


def test_a_sound_machine_has_nothing_to_say() -> None:
    measures = judge_all(an_h200(), machine())
    assert {measure.verdict for measure in measures} <= {"fine", "unjudged"}
    by = {measure.name: measure for measure in measures}
    assert by["matmul bf16 8192"].share_of_peak == pytest.approx(784 / 989, rel=0.01)
    assert by["copy 1 GiB"].share_of_peak == pytest.approx(4.3 / 4.8, rel=0.01)
    assert by["matmul bf16 1024"].verdict == "fine"  # a small product may be slow: the big one is not
    assert by["resnet50 training"].share_of_peak == pytest.approx(2900 * 24.5e9 / 989e12, rel=0.01)
    assert by["matmul fp32 2048 cpu"].limit is None


def test_tensor_cores_do_fp64() -> None:
    measure = judged(product("fp64", 8192, 60e12))
    assert measure.verdict == "fine"
    assert measure.limit is not None
    assert "tensor" in measure.limit.what


def test_above_the_limit_is_a_measuring_error() -> None:
    # The batch product of 800 matrices of 800 × 800 in 40.8 µs.
    unwaited = result("800x800x800", 2 * 800**4 / 40.8e-6, 2 * 800**4, dtype="fp32")
    measure = judged(unwaited)
    assert measure.verdict == "above-limit"
    assert "measuring error" in measure.why[0]
    assert "nobody waited" in measure.why[1]
    old = with_card(machine(), name=Known("Quadro M4000", source="NVML"), memory_total=Known(8 << 30, source="NVML"))
    assert "7,8" in judged(unwaited, old).why[0]
    assert "times the fp32 peak of the Quadro M4000" in judged(unwaited, old).why[0]
    cached = judged(result("copy", 9e12, 2**21, group="memory", unit="B/s"))
    assert cached.verdict == "above-limit"
    assert "cache" in cached.why[1]


def test_a_desktop_card_may_boost_above_its_data_sheet() -> None:
    measure = judged(product("bf16", 8192, 172e12), machine("wsl2-rtx4090"))
    assert measure.verdict == "fine"
    assert measure.share_of_peak is not None
    assert measure.share_of_peak > 1


@pytest.mark.parametrize(
    ("after", "given", "words"),
    [
        (HOT, {}, "hot"),
        (HOT, {}, "1140 MHz of 1980"),
        (COOL, {"power_limit": Known(300.0, source="NVML", unit="W")}, "300 W"),
        (COOL, {"processes": Known((CardProcess(77, "compute"),), source="NVML")}, "others use the card"),
        (COOL, {}, "neither clocks nor machine tell why"),
    ],
)
def test_far_below_has_causes(after: object, given: dict[str, object], words: str) -> None:
    measure = judged(product("bf16", 8192, 300e12, after=after), with_card(machine(), **given))
    assert measure.verdict == "low"
    assert words in "; ".join(measure.why)


def test_tensor_cores_that_were_not_used() -> None:
    assert "tensor cores were not used" in "; ".join(judged(product("fp16", 4097, 55e12, after=COOL)).why)


def test_a_build_without_code_for_the_card() -> None:
    facts = machine()
    torch = torch_of(facts)
    assert torch is not None
    old = replace(torch, arch_list=Known(("sm_70", "sm_80", "compute_80"), source="torch"))
    facts = replace(facts, interpreter=replace(facts.interpreter, frameworks=Known((old,), source="")))
    assert "no code for sm_90" in "; ".join(judged(product("bf16", 8192, 300e12), facts).why)


def test_a_narrow_link() -> None:
    facts = machine()
    assert isinstance(facts.cards, Known)
    pcie = replace(facts.cards.value[0].pcie, width=Known(4, source="NVML"))
    wide = judged(result("host to device pinned", 8e9, 2**28, group="copies", unit="B/s"))
    assert wide.verdict == "low"
    narrow = judged(
        result("host to device pinned", 8e9, 2**28, group="copies", unit="B/s"), with_card(facts, pcie=pcie)
    )
    assert narrow.limit is not None
    assert narrow.limit.what == "PCIe 5.0 x4"
    assert "x4 of x16" in "; ".join(narrow.why)


def test_a_part_of_a_card_has_no_limit_here() -> None:
    assert judged(product("bf16", 8192, 100e12), with_card(machine(), mig=Known(True, source="NVML"))).limit is None


def test_a_disk_is_named_without_the_path_of_a_person() -> None:
    facts = machine()
    disks = (Disk("/", "/dev/sda1", "ext4"), Disk("/home", "nas:/export/home", "nfs4", remote=True))
    facts = replace(facts, host=replace(facts.host, disks=Known(disks, source="/proc/self/mountinfo")))
    places = {"/home/ada/data": "nfs4", "/homes": "ext4 on /dev/sda1", "/": "ext4 on /dev/sda1"}
    for folder, told in places.items():
        assert judged(result("reads", 1e9, 1e9, group="disk", unit="B/s", device=folder), facts).device == told


def test_slow_launches() -> None:
    slow = result("launch back to back", 60e-6, 1, group="launch", unit="s")
    assert "the CPU is slow, or busy" in "; ".join(judged(slow).why)
    assert "Windows" in judged(slow, machine("wsl2-rtx4090")).why[0]


def test_a_time_of_zero_is_no_result() -> None:
    assert (
        judge_all([Result("x", "products", "FLOP/s", 1.0, (0.0, 1.0)), Result("y", "cpu", "s", 1.0, ())], machine())
        == ()
    )

"""Results against the limits of a recorded machine."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.instruments.bench.bench_reports import COOL, HOT, an_h200, machine, product, result

from ownlab.instruments.bench.assessment import assess_results
from ownlab.instruments.bench.machine_summary import find_torch
from ownlab.instruments.bench.records import Measure, Result
from ownlab.machine.facts import Known
from ownlab.machine.records import CardProcess, Disk, Machine


def assess(single: Result, facts: Machine | None = None) -> Measure:
    return assess_results([single], facts or machine())[0]


def with_card(facts: Machine, **values: object) -> Machine:
    assert isinstance(facts.cards, Known)
    return replace(facts, cards=replace(facts.cards, value=(replace(facts.cards.value[0], **values),)))


def test_a_healthy_machine_has_no_problems() -> None:
    measures = assess_results(an_h200(), machine())
    assert {measure.verdict for measure in measures} <= {"fine", "unjudged"}
    by_name = {measure.name: measure for measure in measures}
    assert by_name["matmul bf16 8192"].share_of_peak == pytest.approx(784 / 989, rel=0.01)
    assert by_name["copy 1 GiB"].share_of_peak == pytest.approx(4.3 / 4.8, rel=0.01)
    assert by_name["matmul bf16 1024"].verdict == "fine"  # a small product may be slow, if the big one is not
    assert by_name["resnet50 training"].share_of_peak == pytest.approx(2900 * 24.5e9 / 989e12, rel=0.01)
    assert by_name["matmul fp32 2048 cpu"].limit is None


def test_tensor_cores_do_fp64() -> None:
    measure = assess(product("fp64", 8192, 60e12))
    assert measure.verdict == "fine"
    assert measure.limit is not None
    assert "tensor" in measure.limit.what


def test_a_result_above_the_limit_is_a_measurement_error() -> None:
    # The batch product of 800 matrices of 800 × 800 in 40.8 µs.
    unwaited = result("800x800x800", 2 * 800**4 / 40.8e-6, 2 * 800**4, dtype="fp32")
    measure = assess(unwaited)
    assert measure.verdict == "above-limit"
    assert "measurement error" in measure.why[0]
    assert "did not wait" in measure.why[1]
    old = with_card(machine(), name=Known("Quadro M4000", source="NVML"), memory_total=Known(8 << 30, source="NVML"))
    assert "7,8" in assess(unwaited, old).why[0]
    assert "times the fp32 peak of the Quadro M4000" in assess(unwaited, old).why[0]
    cached = assess(result("copy", 9e12, 2**21, group="memory", unit="B/s"))
    assert cached.verdict == "above-limit"
    assert "cache" in cached.why[1]


def test_a_desktop_card_may_boost_above_its_data_sheet() -> None:
    measure = assess(product("bf16", 8192, 172e12), machine("wsl2-rtx4090"))
    assert measure.verdict == "fine"
    assert measure.share_of_peak is not None
    assert measure.share_of_peak > 1


@pytest.mark.parametrize(
    ("after", "values", "words"),
    [
        (HOT, {}, "hot"),
        (HOT, {}, "1140 MHz of 1980 MHz"),
        (COOL, {"power_limit": Known(300.0, source="NVML", unit="W")}, "300 W"),
        (COOL, {"processes": Known((CardProcess(77, "compute"),), source="NVML")}, "Other processes use the card"),
        (COOL, {}, "The cause is unknown"),
    ],
)
def test_a_low_result_has_causes(after: object, values: dict[str, object], words: str) -> None:
    measure = assess(product("bf16", 8192, 300e12, after=after), with_card(machine(), **values))
    assert measure.verdict == "low"
    assert words in " ".join(measure.why)


def test_tensor_cores_that_were_not_used() -> None:
    assert "Tensor cores were not used" in " ".join(assess(product("fp16", 4097, 55e12, after=COOL)).why)


def test_a_build_without_code_for_the_card() -> None:
    facts = machine()
    torch = find_torch(facts)
    assert torch is not None
    old = replace(torch, arch_list=Known(("sm_70", "sm_80", "compute_80"), source="torch"))
    facts = replace(facts, interpreter=replace(facts.interpreter, frameworks=Known((old,), source="")))
    assert "no code for sm_90" in " ".join(assess(product("bf16", 8192, 300e12), facts).why)


def test_a_narrow_link() -> None:
    facts = machine()
    assert isinstance(facts.cards, Known)
    pcie = replace(facts.cards.value[0].pcie, width=Known(4, source="NVML"))
    wide = assess(result("host to device pinned", 8e9, 2**28, group="copies", unit="B/s"))
    assert wide.verdict == "low"
    narrow = assess(
        result("host to device pinned", 8e9, 2**28, group="copies", unit="B/s"), with_card(facts, pcie=pcie)
    )
    assert narrow.limit is not None
    assert narrow.limit.what == "PCIe 5.0 x4"
    assert "uses 4 of 16 PCIe lanes" in " ".join(narrow.why)


def test_a_mig_instance_has_no_limit() -> None:
    assert assess(product("bf16", 8192, 100e12), with_card(machine(), mig=Known(True, source="NVML"))).limit is None


def test_a_disk_is_described_without_its_path() -> None:
    facts = machine()
    disks = (Disk("/", "/dev/sda1", "ext4"), Disk("/home", "nas:/export/home", "nfs4", remote=True))
    facts = replace(facts, host=replace(facts.host, disks=Known(disks, source="/proc/self/mountinfo")))
    descriptions = {"/home/ada/data": "nfs4", "/homes": "ext4 on /dev/sda1", "/": "ext4 on /dev/sda1"}
    for folder, description in descriptions.items():
        assert assess(result("reads", 1e9, 1e9, group="disk", unit="B/s", device=folder), facts).device == description


def test_slow_launches() -> None:
    slow = result("launch back to back", 60e-6, 1, group="launch", unit="s")
    assert "The CPU is slow, or busy" in " ".join(assess(slow).why)
    assert "Windows" in assess(slow, machine("wsl2-rtx4090")).why[0]


def test_invalid_results_are_ignored() -> None:
    assert (
        assess_results(
            [Result("x", "products", "FLOP/s", 1.0, (0.0, 1.0)), Result("y", "cpu", "s", 1.0, ())], machine()
        )
        == ()
    )

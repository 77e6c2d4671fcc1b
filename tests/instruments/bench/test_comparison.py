"""Reports beside each other."""

from __future__ import annotations

import pytest
from tests.instruments.bench.bench_reports import an_h200, product, report, result

from ownlab.errors import InputError
from ownlab.instruments.bench.comparison import compare_reports


def test_ratios_and_what_is_noise() -> None:
    found = compare_reports([("a", report(an_h200())), ("b", report(an_h200(1.2)))])
    by = {row.name: row.cells[1] for row in found.rows}
    faster = by["matmul bf16 8192"]
    assert faster is not None
    assert faster.ratio == pytest.approx(1.2, rel=0.01)
    assert faster.difference == "differs"
    assert faster.chance is not None
    assert faster.chance < 0.01
    same = by["host to device pinned"]
    assert same is not None
    assert same.difference == "same"
    few = by["sequential reads"]  # three repetitions: no test can be sure
    assert few is not None
    assert few.difference == "likely"
    products = next(mean for mean in found.means if mean.group == "products")
    assert products.ratios == pytest.approx((1.0, 1.2), rel=0.01)


def test_times_are_faster_when_they_are_less() -> None:
    sides = [
        (name, report([result("launch", seconds, 1, group="launch", unit="s")]))
        for name, seconds in (("a", 8e-6), ("b", 4e-6))
    ]
    cell = compare_reports(sides).rows[0].cells[1]
    assert cell is not None
    assert cell.ratio == pytest.approx(2, rel=0.01)


def test_a_difference_smaller_than_two_runs_have_is_none() -> None:
    sides = [
        (name, report([product("bf16", 8192, rate, spread=1e-4, count=40)]))
        for name, rate in (("a", 780e12), ("b", 788e12))
    ]
    cell = compare_reports(sides).rows[0].cells[1]
    assert cell is not None
    assert cell.chance is not None
    assert cell.chance < 1e-6
    assert cell.difference == "same"


@pytest.mark.parametrize(("size", "difference"), [(4, "other-size"), (2, "same")])
def test_other_sizes_by_the_same_name_are_said(size: int, difference: str) -> None:
    """The file of a disk ends when time is up: a few blocks more or less are no other test."""
    sides = [
        (name, report([result("reads", 1e9, 1e9, group="disk", unit="B/s", device="/x", shape={"bytes": each})]))
        for name, each in (("a", 1), ("b", size))
    ]
    cell = compare_reports(sides).rows[0].cells[1]
    assert cell is not None
    assert cell.difference == difference


def test_devices_are_joined_by_kind_and_what_is_alone_is_named() -> None:
    left = report([product("bf16", 8192, 7e14), product("fp8", 8192, 1e15)])
    right = report([product("bf16", 8192, 7e14, device="cuda:1"), product("bf16", 8192, 1e12, device="cpu")])
    found = compare_reports([("a", left), ("b", right)])
    assert [(row.name, row.device) for row in found.rows] == [("matmul bf16 8192", "cuda")]
    assert found.only == (("matmul fp8 8192",), ("matmul bf16 8192",))


def test_a_measuring_error_counts_in_no_mean() -> None:
    left = report([product("fp32", 4096, 5e13), product("bf16", 8192, 7e14)])
    right = report([product("fp32", 4096, 5e16), product("bf16", 8192, 7e14)])
    found = compare_reports([("a", left), ("b", right)])
    wrong = found.rows[0].cells[1]
    assert wrong is not None
    assert wrong.above_limit
    assert found.means[0].count == 1


def test_nothing_in_common() -> None:
    with pytest.raises(InputError, match="no test in common"):
        compare_reports([("a", report([product("fp32", 64, 1e12)])), ("b", report([product("fp32", 65, 1e12)]))])

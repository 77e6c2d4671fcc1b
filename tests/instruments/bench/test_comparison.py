"""Comparisons of reports."""

from __future__ import annotations

import pytest
from tests.instruments.bench.bench_reports import an_h200, product, report, result

from ownlab.errors import InputError
from ownlab.instruments.bench.comparison import compare_reports


def test_differences_are_distinguished_from_noise() -> None:
    comparison = compare_reports([("a", report(an_h200())), ("b", report(an_h200(1.2)))])
    by_name = {row.name: row.cells[1] for row in comparison.rows}
    faster = by_name["matmul bf16 8192"]
    assert faster is not None
    assert faster.ratio == pytest.approx(1.2, rel=0.01)
    assert faster.difference == "differs"
    assert faster.chance is not None
    assert faster.chance < 0.01
    same = by_name["host to device pinned"]
    assert same is not None
    assert same.difference == "same"
    few = by_name["sequential reads"]  # three repetitions: no test can be sure
    assert few is not None
    assert few.difference == "likely"
    products = next(mean for mean in comparison.means if mean.group == "products")
    assert products.ratios == pytest.approx((1.0, 1.2), rel=0.01)


def test_a_shorter_time_is_faster() -> None:
    sides = [
        (name, report([result("launch", seconds, 1, group="launch", unit="s")]))
        for name, seconds in (("a", 8e-6), ("b", 4e-6))
    ]
    cell = compare_reports(sides).rows[0].cells[1]
    assert cell is not None
    assert cell.ratio == pytest.approx(2, rel=0.01)


def test_a_difference_below_the_noise_between_runs_does_not_count() -> None:
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
def test_other_sizes_with_the_same_name_are_marked(size: int, difference: str) -> None:
    """The file of a disk test ends when time is up: a few blocks more or less do not matter."""
    sides = [
        (name, report([result("reads", 1e9, 1e9, group="disk", unit="B/s", device="/x", shape={"bytes": length})]))
        for name, length in (("a", 1), ("b", size))
    ]
    cell = compare_reports(sides).rows[0].cells[1]
    assert cell is not None
    assert cell.difference == difference


def test_devices_are_matched_by_kind_and_other_tests_are_listed() -> None:
    left = report([product("bf16", 8192, 7e14), product("fp8", 8192, 1e15)])
    right = report([product("bf16", 8192, 7e14, device="cuda:1"), product("bf16", 8192, 1e12, device="cpu")])
    comparison = compare_reports([("a", left), ("b", right)])
    assert [(row.name, row.device) for row in comparison.rows] == [("matmul bf16 8192", "cuda")]
    assert comparison.only == (("matmul fp8 8192",), ("matmul bf16 8192",))


def test_a_measurement_error_is_not_part_of_a_mean() -> None:
    left = report([product("fp32", 4096, 5e13), product("bf16", 8192, 7e14)])
    right = report([product("fp32", 4096, 5e16), product("bf16", 8192, 7e14)])
    comparison = compare_reports([("a", left), ("b", right)])
    wrong = comparison.rows[0].cells[1]
    assert wrong is not None
    assert wrong.above_limit
    assert comparison.means[0].count == 1


def test_reports_without_a_common_test_are_refused() -> None:
    with pytest.raises(InputError, match="no test in common"):
        compare_reports([("a", report([product("fp32", 64, 1e12)])), ("b", report([product("fp32", 65, 1e12)]))])

"""Results in the terminal and as charts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console
from tests.instruments.bench.bench_reports import HOT, an_h200, product, report, result
from tests.render.test_golden import compare

from ownlab.instruments.bench.chart import _INVALID, _LOW, _NORMAL, bench_chart, comparison_chart
from ownlab.instruments.bench.comparison import ReferenceRatios, compare_reports, compare_with_references, rank_card
from ownlab.instruments.bench.records import BenchReport, Skipped
from ownlab.instruments.bench.report_files import references
from ownlab.instruments.bench.terminal import show_bench, show_comparison
from ownlab.render.charts import save_chart


@pytest.fixture
def mixed() -> BenchReport:
    """A report with everything: a measurement error, a hot card, skipped tests."""
    odd = [
        result("batch matmul fp32 800", 2 * 800**4 / 40.8e-6, 2 * 800**4, dtype="fp32"),
        product("fp16", 4097, 55e12, after=HOT),
    ]
    skipped = (
        Skipped("matmul fp8 16384", "products", "out-of-memory", "CUDA out of memory"),
        Skipped("products", "products", "no-gpu", "torch sees no card"),
        Skipped("memory", "memory", "no-gpu", "torch sees no card"),
    )
    return report([*an_h200(), *odd], skipped=skipped, complete=False, trouble="it was interrupted")


def colours(path: Path) -> set[tuple[int, ...]]:
    with Image.open(path) as picture:
        assert picture.width > 1000
        return {colour[:3] for _, colour in picture.convert("RGB").getcolors(1 << 24) or []}


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))


def test_golden_report(mixed: BenchReport) -> None:
    sheet = io.StringIO()
    show_bench(mixed, Console(file=sheet, width=80, highlight=False, color_system=None))
    assert max(map(len, sheet.getvalue().splitlines())) <= 80
    compare("bench.txt", sheet.getvalue())


def test_golden_comparison() -> None:
    sheet = io.StringIO()
    sides = [("before", report(an_h200())), ("after", report(an_h200(1.1)[1:]))]
    show_comparison(compare_reports(sides), Console(file=sheet, width=80, highlight=False, color_system=None))
    assert max(map(len, sheet.getvalue().splitlines())) <= 80
    compare("bench-compare.txt", sheet.getvalue())


def test_three_sides_are_shown_as_ratios() -> None:
    sheet = io.StringIO()
    sides = [(name, report(an_h200(factor))) for name, factor in (("a", 1), ("b", 1.1), ("c", 0.5))]
    show_comparison(compare_reports(sides), Console(file=sheet, width=80, highlight=False, color_system=None))
    row = next(line for line in sheet.getvalue().splitlines() if "matmul bf16 8192" in line)
    assert row.split()[3:] == ["783", "TFLOP/s", "1.10", "×", "0.50", "×"]


def test_a_report_shows_rank_and_references(mixed: BenchReport) -> None:
    rankings = rank_card(mixed)
    assert {ranking.workload for ranking in rankings} == {"vision", "transformer", "recurrent", "decoding"}
    assert all(1 <= ranking.rank <= ranking.of and ranking.speed.card == "H200 SXM" for ranking in rankings)
    means = compare_reports([("h200", report(an_h200())), ("here", report(an_h200(1.1)))]).means
    sheet = io.StringIO()
    out = Console(file=sheet, width=100, highlight=False, color_system=None)
    show_bench(mixed, out, rankings, [ReferenceRatios("h200", "NVIDIA H200", means)])
    assert f"rank {rankings[0].rank} of {rankings[0].of}" in sheet.getvalue()
    assert "products 1.10 ×" in sheet.getvalue()


def test_an_unknown_card_has_no_rank() -> None:
    assert rank_card(report([result("x", 1e9, 1e9, device="cpu", group="cpu")], "cpu")) == ()
    assert isinstance(compare_with_references(report(an_h200())), tuple)


def test_a_reference_is_not_compared_with_itself() -> None:
    known = references()
    assert len(known) >= 2
    for name, reference in known.items():
        assert name not in {other.name for other in compare_with_references(reference)}


def test_charts_can_be_saved(mixed: BenchReport, tmp_path: Path) -> None:
    save_chart(bench_chart(mixed), tmp_path / "one.png")
    seen = colours(tmp_path / "one.png")
    assert {rgb(_NORMAL), rgb(_LOW), rgb(_INVALID)} <= seen
    sides = [(name, report(an_h200(factor))) for name, factor in (("a", 1), ("b", 1.1), ("c", 0.5))]
    save_chart(comparison_chart(compare_reports(sides)), tmp_path / "three.svg")
    assert "Speed relative to a" in (tmp_path / "three.svg").read_text()

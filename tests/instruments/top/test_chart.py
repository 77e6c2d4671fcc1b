"""Charts of reports, and the report in the terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from PIL import Image
from tests.instruments.top.samples import BEGUN, a_card, moments, stream, without_gpm, worked
from tests.render.test_golden import compare, paper

from ownlab.errors import InputError, UsageError
from ownlab.instruments.top.chart import _VERDICTS, report_chart
from ownlab.instruments.top.records import HostSample, Sample
from ownlab.instruments.top.report import Report, build_report
from ownlab.instruments.top.report_terminal import show_report
from ownlab.instruments.top.verdict_rules import load_rules
from ownlab.render.charts import save_chart


def day() -> list[Sample]:
    """Recorded streams, one after the other."""
    host = HostSample(cores=16, cpu=20.0, io_wait=1.0, memory=128 * 1024**3, memory_used=20 * 1024**3, disk_read=1e8)
    parts = [
        each for name in ("idle", "starved", "transformer", "fp32", "copy", "tiny", "held") for each in stream(name)
    ]
    return [
        msgspec.structs.replace(each, at=BEGUN + number / 2, seconds=0.5, host=host)
        for number, each in enumerate(parts)
    ]


@pytest.fixture(scope="module")
def whole() -> Report:
    return build_report(day())


def test_every_verdict_has_a_colour() -> None:
    assert set(_VERDICTS) == set(load_rules().titles)


def test_a_png_has_the_colours_of_its_verdicts(tmp_path: Path, whole: Report) -> None:
    save_chart(report_chart(whole), tmp_path / "run.png")
    with Image.open(tmp_path / "run.png") as picture:
        assert picture.width > 1500
        assert picture.getcolors(1 << 24) is not None
        seen = {colour[:3] for _, colour in picture.convert("RGB").getcolors(1 << 24) or []}
    for code in ("idle", "starved", "tensor", "memory", "small", "held"):
        assert tuple(bytes.fromhex(_VERDICTS[code][1:])) in seen


def test_html_needs_no_network(tmp_path: Path, whole: Report) -> None:
    save_chart(report_chart(whole), tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    assert "href=" not in page.replace("xlink:href=", "")
    assert "NVIDIA H200" in page
    assert whole.cards[0].headline.split(";")[0] in page


def test_the_name_of_a_card_is_escaped_in_svg(tmp_path: Path) -> None:
    named = msgspec.structs.replace(a_card(), name='<b onload="x">')
    save_chart(report_chart(build_report(moments(named))), tmp_path / "run.svg")
    drawn = (tmp_path / "run.svg").read_text()
    assert drawn.startswith("<svg")
    assert "<b onload" not in drawn


def test_cards_without_gpm_and_hosts_without_cards_can_be_drawn(tmp_path: Path) -> None:
    for number, samples in enumerate(
        ([without_gpm(each) for each in day()], moments(count=5, cpu=10.0), moments(a_card(), count=1))
    ):
        save_chart(report_chart(build_report(samples)), tmp_path / f"{number}.svg")
        assert (tmp_path / f"{number}.svg").stat().st_size > 1000


def test_a_chart_is_json_for_notebooks(whole: Report) -> None:
    chart = report_chart(whole)
    assert json.loads(json.dumps(chart)) == chart
    assert chart["$schema"].endswith("/v5.json")


def test_a_pause_in_a_recording_is_a_gap_in_its_lines(tmp_path: Path) -> None:
    whole = moments(a_card(), count=5)
    again = moments(a_card(), count=5, begun=BEGUN + 1000)
    again[0] = msgspec.structs.replace(again[0], seconds=None)
    work = report_chart(build_report(whole + again))["vconcat"][1]
    shares = [value["share"] for value in work["data"]["values"] if value["what"] == "busy"]
    assert shares == [99.0] * 5 + [None] + [99.0] * 6
    save_chart({**work, "title": {"text": ""}}, tmp_path / "gap.svg")
    (line,) = re.findall(r'aria-roledescription="line mark"[^>]* d="([^"]*)"', (tmp_path / "gap.svg").read_text())
    assert line.count("M") == 2


def test_a_span_that_starts_after_days_keeps_its_columns() -> None:
    late = moments(a_card(saturation=worked(tensor=90.0)), count=8, begun=BEGUN + 1_000_000)
    out, sheet = paper()
    show_report(build_report(moments(a_card(0.0), count=5) + late), out)
    assert re.search(r"^  \+11 d 13 h  8 s: Compute-bound", sheet.getvalue(), re.MULTILINE)


def test_invalid_charts_are_refused(tmp_path: Path, whole: Report) -> None:
    with pytest.raises(UsageError, match=r"must end in \.png, \.svg or \.html"):
        save_chart(report_chart(whole), tmp_path / "run.jpg")
    with pytest.raises(InputError, match="Cannot write"):
        save_chart(report_chart(whole), tmp_path / "none" / "run.svg")
    with pytest.raises(InputError, match="cannot be drawn"):
        report_chart(build_report(moments(count=2)))


def test_golden_report(whole: Report) -> None:
    out, sheet = paper()
    show_report(whole, out)
    _, _, rest = sheet.getvalue().partition("\n")  # the first line has the local time
    compare("top-report.txt", rest)


def test_golden_report_without_cards() -> None:
    out, sheet = paper()
    samples = [msgspec.structs.replace(each, trouble="no NVIDIA driver") for each in moments(count=5, cpu=10.0)]
    show_report(build_report(samples), out)
    _, _, rest = sheet.getvalue().partition("\n")
    compare("top-report-no-cards.txt", rest)

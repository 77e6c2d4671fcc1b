"""Results of `ownlab bench` as drawings: one report with its limits, or several as ratios to the first."""

from __future__ import annotations

from typing import Any

from ownlab.instruments.bench.comparison import NOISE, Comparison
from ownlab.instruments.bench.records import GROUPS, BenchReport, Measure
from ownlab.units import format_rate

__all__ = ["bench_chart", "comparison_chart"]

Spec = dict[str, Any]

# Colours that people with any sight tell apart (Okabe and Ito, 2008).
_FINE, _LOW, _WRONG, _LIMIT = "#0072B2", "#E69F00", "#B2182B", "#222222"
_SIDES = ("#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#0072B2")
_WIDTH, _STEP = 460, 20
_LABEL = {"labelLimit": 320, "title": None, "ticks": False, "domain": False, "labelFontSize": 12}
_SCALES = {"FLOP/s": (1e12, "TFLOP/s"), "B/s": (1e9, "GB/s"), "s": (1e-3, "ms")}
_SMALL = {"FLOP/s": (1e9, "GFLOP/s"), "B/s": (1e6, "MB/s"), "s": (1e-6, "µs")}


def bench_chart(report: BenchReport) -> Spec:
    """The Vega-Lite specification: bars by group, each with its interval, and a mark where its limit is."""
    machine = report.machine
    what = ", ".join(dict.fromkeys(card.name for card in machine.cards)) or machine.cpu or "a machine"
    about = [f"torch {machine.torch}" if machine.torch else "", f"driver {machine.driver}" if machine.driver else ""]
    panels = [
        _panel(group, [measure for measure in report.results if (measure.group, measure.unit) == (group, unit)])
        for group, unit in sorted(
            dict.fromkeys((measure.group, measure.unit) for measure in report.results), key=lambda key: _order(key[0])
        )
    ]
    subtitle = ", ".join(part for part in (*about, f"profile {report.profile}", report.when[:10]) if part)
    limits = any(measure.limit is not None for measure in report.results)
    marks = "; a black mark is the card's limit, the percentage its share of it" if limits else ""
    note = [subtitle, f"Medians with 95 % intervals{marks}."]
    return _whole(f"ownlab bench: {what}", note, panels)


def comparison_chart(comparison: Comparison) -> Spec:
    """The Vega-Lite specification: for each test how many times as fast as the first; hollow where that is noise."""
    first = comparison.sides[0]
    domain = _reach([cell.ratio for row in comparison.rows for cell in row.cells[1:] if cell and not cell.above_limit])
    groups = list(dict.fromkeys(row.group for row in comparison.rows))
    panels = [_ratios(group, comparison, domain, last=group == groups[-1]) for group in groups]
    sizes = any(cell.difference in ("other-size", "unknown") for row in comparison.rows for cell in row.cells if cell)
    hollow = f"no difference beyond noise ({100 * NOISE:g} % between runs){', or other sizes' if sizes else ''}"
    noise = f"Right of the line is faster. Hollow: {hollow}."
    wrong = any(cell.above_limit for row in comparison.rows for cell in row.cells if cell)
    note = [first.machine, noise + (" A cross: a measuring error, more than is possible." if wrong else "")]
    return _whole(f"How many times as fast as {first.label}", note, panels)


def _reach(ratios: list[float]) -> list[float]:
    """From the least to the greatest, with 1 and some room around."""
    low, high = min([*ratios, 0.95]), max([*ratios, 1.05])
    return [low / 1.08, high * 1.08]


def _whole(title: str, subtitle: list[str], panels: list[Spec]) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {
            "text": title,
            "subtitle": subtitle,
            "anchor": "start",
            "fontSize": 15,
            "subtitleColor": "#444444",
            "offset": 12,
        },
        "background": "white",
        "padding": 12,
        "spacing": 14,
        "config": {"axis": {"gridColor": "#eeeeee"}, "view": {"stroke": "#dddddd"}},
        "resolve": {"scale": {"color": "shared"}},
        "vconcat": panels,
    }


def _panel(group: str, measures: list[Measure]) -> Spec:
    possible = [measure.median for measure in measures if measure.verdict != "above-limit"]
    power, name = _scale(measures[0].unit, max(possible or [measure.median for measure in measures]))
    rows = [_bar(measure, power) for measure in measures]
    end = max([row["limit"] or 0 for row in rows] + [row["high"] for row in rows if row["colour"] != _WRONG]) * 1.05
    across = {
        "field": "value",
        "type": "quantitative",
        "title": name,
        "scale": {"domain": [0, end], "nice": False},
        "axis": {"tickCount": 6},
    }
    up = {"field": "name", "type": "nominal", "sort": [row["name"] for row in rows], "axis": _LABEL}
    colour = {"field": "colour", "type": "nominal", "scale": None}
    bar = {"type": "bar", "height": {"band": 0.66}, "clip": True}  # what is impossible goes beyond the end
    span = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}, "y": up}
    words = {"x": {"value": _WIDTH + 8}, "y": up, "text": {"field": "text", "type": "nominal"}}
    layers: list[Spec] = [
        {"mark": bar, "encoding": {"x": across, "y": up, "color": colour}},
        {"mark": {"type": "rule", "color": "#555555", "clip": True}, "encoding": span},
        {"mark": {"type": "text", "align": "left", "fontSize": 11, "color": "#222222"}, "encoding": words},
    ]
    if any(row["limit"] for row in rows):
        mark = {"type": "tick", "color": _LIMIT, "thickness": 2, "height": {"band": 0.9}}
        limit = {"field": "limit", "type": "quantitative"}
        layers.insert(2, {"mark": mark, "transform": [{"filter": "datum.limit"}], "encoding": {"x": limit, "y": up}})
    return _framed(group, rows, layers)


def _framed(group: str, rows: list[Spec], layers: list[Spec]) -> Spec:
    return {
        "title": {"text": group, "anchor": "start", "frame": "group", "fontSize": 12},
        "width": _WIDTH,
        "height": {"step": _STEP},
        "data": {"values": rows},
        "layer": layers,
    }


def _bar(measure: Measure, power: float) -> Spec:
    """A limit in another unit than the figure's (a step's FLOPs, of images a second) is said, not drawn."""
    share = measure.share_of_peak
    said = "" if share is None else f", {100 * share:.0f} %" if share < 2 else f", {share:,.0f} × what is possible"
    drawn = measure.limit is not None and measure.unit in ("FLOP/s", "B/s")
    colour = {"low": _LOW, "above-limit": _WRONG}.get(measure.verdict, _FINE)
    return {
        "name": measure.name,
        "value": measure.median / power,
        "low": measure.low / power,
        "high": measure.high / power,
        "limit": measure.limit.value / power if drawn and measure.limit is not None else None,
        "text": f"{format_rate(measure.median, measure.unit)}{said}",
        "colour": colour,
    }


def _scale(unit: str, greatest: float) -> tuple[float, str]:
    power, name = _SCALES.get(unit, (1.0, unit))
    return (power, name) if greatest >= power else _SMALL.get(unit, (power, name))


def _ratios(group: str, comparison: Comparison, domain: list[float], *, last: bool) -> Spec:
    rows = [row for row in comparison.rows if row.group == group]
    labels = [side.label for side in comparison.sides[1:]]
    values = [
        {
            "name": row.name,
            "side": side.label,
            "ratio": min(max(cell.ratio, domain[0]), domain[1]) if cell.above_limit else cell.ratio,
            "look": "wrong" if cell.above_limit else "seen" if cell.difference in ("differs", "likely") else "noise",
            "text": f"{cell.ratio:.2f}" if cell.ratio < 10 else f"{cell.ratio:.3g}",
        }
        for row in rows
        for side, cell in zip(comparison.sides[1:], row.cells[1:], strict=True)
        if cell is not None
    ]
    across = {
        "field": "ratio",
        "type": "quantitative",
        "title": f"times as fast as {comparison.sides[0].label}" if last else None,
        "scale": {"type": "log", "domain": domain, "nice": False},
        "axis": {"values": _ticks(domain), "format": "~g", "labels": last, "ticks": last},
    }
    up = {"field": "name", "type": "nominal", "sort": [row.name for row in rows], "axis": _LABEL}
    base = {"x": across, "y": up, "color": _side_colours(labels)}
    point = {"type": "point", "size": 70, "filled": True, "opacity": 1}
    looks = {"seen": point, "noise": {**point, "filled": False}, "wrong": {**point, "shape": "cross", "color": _WRONG}}
    one = {"x": {"datum": 1, "type": "quantitative"}}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "color": "#555555"}, "encoding": one},
        *(
            {"transform": [{"filter": f"datum.look == '{look}'"}], "mark": mark, "encoding": base}
            for look, mark in looks.items()
        ),
    ]
    if len(labels) == 1:
        text = {"type": "text", "align": "left", "fontSize": 11, "color": "#222222"}
        words = {"x": {"value": _WIDTH + 8}, "y": up, "text": {"field": "text", "type": "nominal"}}
        layers.append({"mark": text, "encoding": words})
    return _framed(group, values, layers)


def _side_colours(labels: list[str]) -> Spec:
    return {
        "field": "side",
        "type": "nominal",
        "title": None,
        "sort": labels,
        "scale": {"domain": labels, "range": [_SIDES[number % len(_SIDES)] for number in range(len(labels))]},
        "legend": {"orient": "top"} if len(labels) > 1 else None,
    }


def _ticks(domain: list[float]) -> list[float]:
    """Few enough to be read."""
    fine = [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3]
    coarse = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]
    return [tick for tick in (fine if domain[1] / domain[0] < 3.5 else coarse) if domain[0] <= tick <= domain[1]]


def _order(group: str) -> int:
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)

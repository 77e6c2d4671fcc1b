"""Charts of results: one report with its limits, or several as ratios to the first."""

from __future__ import annotations

from typing import Any

from ownlab.instruments.bench.comparison import NOISE, Comparison
from ownlab.instruments.bench.records import GROUPS, PROFILE_NAMES, BenchReport, Measure
from ownlab.text import facts, sentences, text
from ownlab.units import format_rate

__all__ = ["bench_chart", "comparison_chart"]

Spec = dict[str, Any]

# Colours for all kinds of colour vision (Okabe and Ito, 2008).
_NORMAL, _LOW, _INVALID, _LIMIT = "#0072B2", "#E69F00", "#B2182B", "#222222"
_SIDES = ("#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#0072B2")
_WIDTH, _STEP = 460, 20
_LABEL = {"labelLimit": 320, "title": None, "ticks": False, "domain": False, "labelFontSize": 12}
_SCALES = {"FLOP/s": (1e12, "TFLOP/s"), "B/s": (1e9, "GB/s"), "s": (1e-3, "ms")}
_SMALL = {"FLOP/s": (1e9, "GFLOP/s"), "B/s": (1e6, "MB/s"), "s": (1e-6, "µs")}


def bench_chart(report: BenchReport) -> Spec:
    """Return the Vega-Lite specification of a report: bars by group, with their intervals and limits."""
    machine = report.machine
    name = ", ".join(dict.fromkeys(card.name for card in machine.cards)) or machine.cpu or text("a machine")
    about = facts(
        f"torch {machine.torch}" if machine.torch else "",
        text("driver {version}", version=machine.driver) if machine.driver else "",
        text("profile {profile}", profile=PROFILE_NAMES.get(report.profile, report.profile)),
        report.when[:10],
    )
    panels = [
        _panel(group, [measure for measure in report.results if (measure.group, measure.unit) == (group, unit)])
        for group, unit in sorted(
            dict.fromkeys((measure.group, measure.unit) for measure in report.results), key=lambda key: _order(key[0])
        )
    ]
    if any(measure.limit is not None for measure in report.results):
        legend = text(
            "Medians with 95 % intervals. Black marks are the limits of the card, percentages are relative to them."
        )
    else:
        legend = text("Medians with 95 % intervals.")
    subtitle: list[str] = [about, legend]
    return _chart(text("ownlab bench: {name}", name=name), subtitle, panels)


def comparison_chart(comparison: Comparison) -> Spec:
    """Return the Vega-Lite specification of a comparison: the speed of each test relative to the first report."""
    first = comparison.sides[0]
    domain = _domain([cell.ratio for row in comparison.rows for cell in row.cells[1:] if cell and not cell.above_limit])
    groups = list(dict.fromkeys(row.group for row in comparison.rows))
    panels = [_ratios(group, comparison, domain, last=group == groups[-1]) for group in groups]
    sizes = any(cell.difference in ("other-size", "unknown") for row in comparison.rows for cell in row.cells if cell)
    invalid = any(cell.above_limit for row in comparison.rows for cell in row.cells if cell)
    percent = 100 * NOISE
    legend = sentences(
        text("Right of the line is faster."),
        text("Hollow: no difference beyond noise ({percent:g} % between runs), or other sizes.", percent=percent)
        if sizes
        else text("Hollow: no difference beyond noise ({percent:g} % between runs).", percent=percent),
        text("Cross: a measurement error, above the limit.") if invalid else None,
    )
    return _chart(text("Speed relative to {name}", name=first.label), [first.machine, legend], panels)


def _domain(ratios: list[float]) -> list[float]:
    """Return the range of the axis: all ratios and 1, with some room."""
    low, high = min([*ratios, 0.95]), max([*ratios, 1.05])
    return [low / 1.08, high * 1.08]


def _chart(title: str, subtitle: list[str], panels: list[Spec]) -> Spec:
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
    valid = [measure.median for measure in measures if measure.verdict != "above-limit"]
    power, name = _scale(measures[0].unit, max(valid or [measure.median for measure in measures]))
    rows = [_bar(measure, power) for measure in measures]
    end = max([row["limit"] or 0 for row in rows] + [row["high"] for row in rows if row["colour"] != _INVALID]) * 1.05
    across = {
        "field": "value",
        "type": "quantitative",
        "title": name,
        "scale": {"domain": [0, end], "nice": False},
        "axis": {"tickCount": 6},
    }
    up = {"field": "name", "type": "nominal", "sort": [row["name"] for row in rows], "axis": _LABEL}
    colour = {"field": "colour", "type": "nominal", "scale": None}
    bar = {"type": "bar", "height": {"band": 0.66}, "clip": True}  # impossible values exceed the axis
    span = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}, "y": up}
    label = {"x": {"value": _WIDTH + 8}, "y": up, "text": {"field": "text", "type": "nominal"}}
    layers: list[Spec] = [
        {"mark": bar, "encoding": {"x": across, "y": up, "color": colour}},
        {"mark": {"type": "rule", "color": "#555555", "clip": True}, "encoding": span},
        {"mark": {"type": "text", "align": "left", "fontSize": 11, "color": "#222222"}, "encoding": label},
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
    """A limit in another unit than the result (FLOPs of a step, for images per second) is only in the label."""
    drawn = measure.limit is not None and measure.unit in ("FLOP/s", "B/s")
    colour = {"low": _LOW, "above-limit": _INVALID}.get(measure.verdict, _NORMAL)
    return {
        "name": measure.name,
        "value": measure.median / power,
        "low": measure.low / power,
        "high": measure.high / power,
        "limit": measure.limit.value / power if drawn and measure.limit is not None else None,
        "text": _format_result(format_rate(measure.median, measure.unit), measure.share_of_peak),
        "colour": colour,
    }


def _format_result(rate: str, share: float | None) -> str:
    if share is None:
        return rate
    return (
        f"{rate}, {100 * share:.0f} %"
        if share < 2
        else text("{rate}, {times:,.0f} × the limit", rate=rate, times=share)
    )


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
            "kind": "invalid"
            if cell.above_limit
            else "differs"
            if cell.difference in ("differs", "likely")
            else "noise",
            "text": f"{cell.ratio:.2f}" if cell.ratio < 10 else f"{cell.ratio:.3g}",
        }
        for row in rows
        for side, cell in zip(comparison.sides[1:], row.cells[1:], strict=True)
        if cell is not None
    ]
    across = {
        "field": "ratio",
        "type": "quantitative",
        "title": text("speed relative to {name}", name=comparison.sides[0].label) if last else None,
        "scale": {"type": "log", "domain": domain, "nice": False},
        "axis": {"values": _ticks(domain), "format": "~g", "labels": last, "ticks": last},
    }
    up = {"field": "name", "type": "nominal", "sort": [row.name for row in rows], "axis": _LABEL}
    base = {"x": across, "y": up, "color": _side_colours(labels)}
    point = {"type": "point", "size": 70, "filled": True, "opacity": 1}
    marks = {
        "differs": point,
        "noise": {**point, "filled": False},
        "invalid": {**point, "shape": "cross", "color": _INVALID},
    }
    equal = {"x": {"datum": 1, "type": "quantitative"}}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "color": "#555555"}, "encoding": equal},
        *(
            {"transform": [{"filter": f"datum.kind == '{kind}'"}], "mark": mark, "encoding": base}
            for kind, mark in marks.items()
        ),
    ]
    if len(labels) == 1:
        mark = {"type": "text", "align": "left", "fontSize": 11, "color": "#222222"}
        label = {"x": {"value": _WIDTH + 8}, "y": up, "text": {"field": "text", "type": "nominal"}}
        layers.append({"mark": mark, "encoding": label})
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
    """Return a readable number of ticks."""
    fine = [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3]
    coarse = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]
    return [tick for tick in (fine if domain[1] / domain[0] < 3.5 else coarse) if domain[0] <= tick <= domain[1]]


def _order(group: str) -> int:
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)

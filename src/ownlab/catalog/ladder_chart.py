"""The ladder as a chart: a dot per card on a logarithmic scale, its uncertainty as a line, the machine's own cards marked."""

from __future__ import annotations

import json
from typing import Any

from ownlab.catalog.cards import Figure
from ownlab.catalog.gpu_ladder import WORKLOAD_TITLES, Ladder, Order, Rung
from ownlab.text import facts, text

__all__ = ["ladder_chart"]

Spec = dict[str, Any]

# Colours that colour-blind people can tell apart (Okabe and Ito, 2008).
_OWN = text("in this machine")
_COLOURS = {"measured": "#0072B2", "computed": "#E69F00", _OWN: "#D55E00"}
_AXES: dict[Order, str] = {
    "speed": text("speed relative to a V100 SXM2 (= 1)"),
    "price": text("speed per 1000 USD of the launch price or of what Lambda asked (speed of a V100 SXM2 = 1)"),
    "watt": text("speed per 100 W of the power limit (speed of a V100 SXM2 = 1)"),
}
_ROW = 13  # height of one card, in pixels
_WIDTH = 560
_LEGEND_ROWS = 12  # from so many rows on, the legend fits inside the chart
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def ladder_chart(ladder: Ladder) -> Spec:
    """Return the Vega-Lite specification."""
    values = [_value(rung) for rung in ladder.rungs]
    low, high = min(value["low"] for value in values), max(value["high"] for value in values)
    room = max(high / low, 2.0)  # numbers stand to the right of the last line
    x_axis: Spec = {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [round(low * room**-0.02, 5), round(high * room**0.07, 5)], "nice": False},
        "axis": {
            "title": _AXES[ladder.by],
            "orient": "top",
        },
    }
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    if len(ticks) > 1:  # otherwise all values lie between two of them, and Vega chooses others
        x_axis["axis"]["values"] = ticks
    place = "bottom-right" if len(values) >= _LEGEND_ROWS else "right"
    own = [value["card"] for value in values if value["how"] == _OWN]
    y_axis = {
        "field": "card",
        "type": "nominal",
        "sort": None,
        "axis": {
            "title": None,
            "labelLimit": 260,
            "labelFontWeight": {
                "condition": {"test": f"indexof({json.dumps(own)}, datum.value) >= 0", "value": "bold"},
                "value": "normal",
            },
            "ticks": False,
            "domain": False,
            "grid": True,
        },
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {
            "text": WORKLOAD_TITLES[ladder.workload],
            "subtitle": _subtitle(ladder),
            "anchor": "start",
            "fontSize": 15,
            "subtitleColor": "#444444",
            "offset": 10,
        },
        "background": "white",
        "padding": 12,
        "width": _WIDTH,
        "height": {"step": _ROW},
        "config": {"axis": {"gridColor": "#eeeeee", "labelFontSize": 10}, "view": {"stroke": "#dddddd"}},
        "data": {"values": values},
        "layer": [_spans(x_axis, y_axis, place), _dots(x_axis, y_axis, place), _numbers(x_axis, y_axis)],
    }


def _value(rung: Rung) -> Spec:
    scale = rung.score / rung.speed.relative
    sized = "GB" in rung.card  # the name has the size already
    memory = f"{rung.memory_gb.value:.0f} GB" if isinstance(rung.memory_gb, Figure) and not sized else ""
    return {
        "card": facts(rung.card, memory),
        "score": round(rung.score, 5),
        "low": round(rung.speed.low * scale, 5),
        "high": round(rung.speed.high * scale, 5),
        "text": f"{rung.score:.1f}" if rung.score >= 10 else f"{rung.score:.2f}",
        "how": _OWN if rung.own else rung.speed.kind,
        "why": rung.speed.why,
    }


def _subtitle(ladder: Ladder) -> list[str]:
    sources = dict.fromkeys(ladder.sources[rung.speed.source].title.split(":")[0] for rung in ladder.rungs)
    return [
        text("measured: {sources}", sources=facts(*sources, separator="; ")),
        text("computed: from rates and bandwidth; lines: the uncertainty"),
    ]


def _colour(place: str) -> Spec:
    return {
        "field": "how",
        "type": "nominal",
        "scale": {"domain": list(_COLOURS), "range": list(_COLOURS.values())},
        "legend": {"title": None, "orient": place, "fillColor": "white", "padding": 6, "symbolOpacity": 1},
    }


def _spans(x_axis: Spec, y_axis: Spec, place: str) -> Spec:
    return {
        "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.35},
        "encoding": {
            "x": {**x_axis, "field": "low"},
            "x2": {"field": "high"},
            "y": y_axis,
            "color": _colour(place),
        },
    }


def _dots(x_axis: Spec, y_axis: Spec, place: str) -> Spec:
    return {
        "mark": {"type": "point", "filled": True, "opacity": 1, "size": 42},
        "encoding": {
            "x": {**x_axis, "field": "score"},
            "y": y_axis,
            "color": _colour(place),
            "tooltip": [{"field": "card"}, {"field": "score"}, {"field": "why"}],
        },
    }


def _numbers(x_axis: Spec, y_axis: Spec) -> Spec:
    return {
        "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 9, "color": "#333333"},
        "encoding": {"x": {**x_axis, "field": "high"}, "y": y_axis, "text": {"field": "text"}},
    }

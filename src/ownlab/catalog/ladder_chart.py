"""The ladder as a drawing: one dot for each card on a scale of ratios, the span in which it may lie, one's own marked."""

from __future__ import annotations

import json
from typing import Any

from ownlab.catalog.cards import Figure
from ownlab.catalog.ladder import WORK, Ladder, Order, Rung

__all__ = ["ladder_chart"]

Spec = dict[str, Any]

# Colours that people with any sight tell apart (Okabe and Ito, 2008).
_OWN = "in this machine"
_COLOURS = {"measured": "#0072B2", "computed": "#E69F00", _OWN: "#D55E00"}
_AXES: dict[Order, str] = {
    "speed": "speed beside a V100 SXM2 (= 1)",
    "price": "speed for 1000 USD of its price at launch, or of what Lambda asked (V100 SXM2's speed = 1)",
    "watt": "speed for 100 W of its power limit (V100 SXM2's speed = 1)",
}
_ROW = 13  # height of one card, in pixels
_WIDTH = 560
_LEGEND_ROWS = 12  # of so many there is room for the legend among them
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def ladder_chart(ladder: Ladder) -> Spec:
    """The Vega-Lite specification."""
    values = [_value(rung) for rung in ladder.rungs]
    low, high = min(value["low"] for value in values), max(value["high"] for value in values)
    room = max(high / low, 2.0)  # to the right of the last line there are figures
    across: Spec = {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [round(low * room**-0.02, 5), round(high * room**0.07, 5)], "nice": False},
        "axis": {
            "title": _AXES[ladder.by],
            "orient": "top",
        },
    }
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    if len(ticks) > 1:  # else all lie between two of them, and Vega finds others
        across["axis"]["values"] = ticks
    place = "bottom-right" if len(values) >= _LEGEND_ROWS else "right"
    own = [value["card"] for value in values if value["how"] == _OWN]
    down = {
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
            "text": WORK[ladder.workload],
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
        "layer": [_spans(across, down, place), _dots(across, down, place), _numbers(across, down)],
    }


def _value(rung: Rung) -> Spec:
    scale = rung.score / rung.speed.relative
    memory = f", {rung.memory_gb.value:.0f} GB" if isinstance(rung.memory_gb, Figure) else ""
    sized = "GB" in rung.card  # the name says it already
    return {
        "card": f"{rung.card}{'' if sized else memory}",
        "score": round(rung.score, 5),
        "low": round(rung.speed.low * scale, 5),
        "high": round(rung.speed.high * scale, 5),
        "text": f"{rung.score:.1f}" if rung.score >= 10 else f"{rung.score:.2f}",
        "how": _OWN if rung.own else rung.speed.kind,
        "why": rung.speed.why,
    }


def _subtitle(ladder: Ladder) -> list[str]:
    sources = dict.fromkeys(ladder.sources[rung.speed.source].title.split(":")[0] for rung in ladder.rungs)
    return [f"measured: {'; '.join(sources)}", "computed: from rates and bandwidth; lines: where it may lie"]


def _colour(place: str) -> Spec:
    return {
        "field": "how",
        "type": "nominal",
        "scale": {"domain": list(_COLOURS), "range": list(_COLOURS.values())},
        "legend": {"title": None, "orient": place, "fillColor": "white", "padding": 6, "symbolOpacity": 1},
    }


def _spans(across: Spec, down: Spec, place: str) -> Spec:
    return {
        "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.35},
        "encoding": {
            "x": {**across, "field": "low"},
            "x2": {"field": "high"},
            "y": down,
            "color": _colour(place),
        },
    }


def _dots(across: Spec, down: Spec, place: str) -> Spec:
    return {
        "mark": {"type": "point", "filled": True, "opacity": 1, "size": 42},
        "encoding": {
            "x": {**across, "field": "score"},
            "y": down,
            "color": _colour(place),
            "tooltip": [{"field": "card"}, {"field": "score"}, {"field": "why"}],
        },
    }


def _numbers(across: Spec, down: Spec) -> Spec:
    return {
        "mark": {"type": "text", "align": "left", "dx": 5, "fontSize": 9, "color": "#333333"},
        "encoding": {"x": {**across, "field": "high"}, "y": down, "text": {"field": "text"}},
    }

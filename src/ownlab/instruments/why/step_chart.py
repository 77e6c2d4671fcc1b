"""A typical step as a Vega-Lite chart: one lane for the training, and one for each worker."""

from __future__ import annotations

from ownlab.instruments.why.formatting import NAMES, format_ms
from ownlab.instruments.why.records import Explanation
from ownlab.render.charts import SCHEMA, Spec
from ownlab.render.wide_text import wrap
from ownlab.text import text

__all__ = ["step_chart"]

# A palette for all kinds of colour vision (Okabe and Ito, 2008): what trains is green and blue, what waits is red.
_COLOURS = {
    "forward": "#009E73",
    "backward": "#56B4E9",
    "optimizer": "#0072B2",
    "graph": "#44AA99",
    "data": "#D55E00",
    "fetch": "#999999",
    "kernel": "#117733",
    "workers": "#E69F00",
    "validation": "#F0E442",
    "save": "#CC79A7",
    "log": "#882255",
    "sync": "#AA4499",
    "copy": "#DDCC77",
    "gc": "#661100",
    "cache": "#332288",
    "other": "#dddddd",
}
_LANE_HEIGHT = 34
_SUBTITLE_LENGTH = 110


def step_chart(explanation: Explanation) -> Spec:
    """Return the Vega-Lite specification."""
    lanes = [lane for lane in explanation.lanes if lane.segments]
    used = [what for what in _COLOURS if any(segment.what == what for lane in lanes for segment in lane.segments)]
    values = [
        {
            "lane": lane.name,
            "begin": segment.begin_ms,
            "end": segment.end_ms,
            "what": NAMES.get(segment.what, segment.what),
        }
        for lane in lanes
        for segment in lane.segments
    ]
    duration = max((segment.end_ms for lane in lanes for segment in lane.segments), default=0.0)
    return {
        "$schema": SCHEMA,
        "title": {
            "text": text("A typical step ({duration})", duration=format_ms(duration)),
            "subtitle": _lines(explanation.sentence),
            "anchor": "start",
            "fontSize": 15,
            "subtitleColor": "#444444",
            "offset": 12,
        },
        "background": "white",
        "padding": 12,
        "width": 720,
        "height": max(1, len(lanes)) * _LANE_HEIGHT,
        "config": {"axis": {"gridColor": "#eeeeee"}, "view": {"stroke": "#dddddd"}},
        "data": {"values": values},
        "mark": {"type": "bar", "height": _LANE_HEIGHT - 12},
        "encoding": {
            "x": {"field": "begin", "type": "quantitative", "title": text("milliseconds"), "scale": {"nice": False}},
            "x2": {"field": "end"},
            "y": {"field": "lane", "type": "nominal", "title": None, "sort": None},
            "color": {
                "field": "what",
                "type": "nominal",
                "title": None,
                "sort": None,
                "scale": {
                    "domain": [NAMES.get(what, what) for what in used],
                    "range": [_COLOURS[what] for what in used],
                },
                "legend": {"orient": "bottom", "columns": 7},
            },
        },
    }


def _lines(sentence: str) -> list[str]:
    """Break a long sentence, since a title does not wrap."""
    return wrap(sentence, _SUBTITLE_LENGTH).split("\n")

"""Memory over one step: as a Vega-Lite chart (kinds stacked, phases, the peak), and as a plot of characters for terminals."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from ownlab.instruments.fit.records import KINDS, Fit, Kind, Phase, Timeline
from ownlab.text import text
from ownlab.units import GIB, format_bytes

__all__ = ["GLYPHS", "PHASES", "Plot", "memory_chart", "plot"]

Spec = dict[str, Any]

# A palette for all kinds of colour vision (Okabe and Ito, 2008).
_COLOURS: dict[Kind, str] = {
    "weights": "#0072B2",
    "optimizer": "#CC79A7",
    "inputs": "#999999",
    "gradients": "#E69F00",
    "activations": "#009E73",
    "temporary": "#D55E00",
    "workspace": "#56B4E9",
}
_LABELS: dict[Kind, str] = {
    "weights": text("weights"),
    "optimizer": text("optimizer state"),
    "inputs": text("inputs"),
    "gradients": text("gradients"),
    "activations": text("activations"),
    "temporary": text("temporary"),
    "workspace": text("library workspace"),
}
PHASES: dict[str, str] = {
    "setup": text("setup"),
    "forward": text("forward"),
    "backward": text("backward"),
    "optimizer": text("optimizer"),
}


def memory_chart(fit: Fit) -> Spec:
    """Return the Vega-Lite specification."""
    shown = [kind for kind in KINDS if any(fit.timeline.held[kind])]
    layers = [_areas(fit, shown), *_phases(fit), *_marks(fit)]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {
            "text": text("{target}: memory over one step", target=fit.request.target.rpartition("/")[2]),
            "subtitle": _subtitle(fit),
            "anchor": "start",
            "fontSize": 15,
            "subtitleColor": "#444444",
            "offset": 12,
        },
        "background": "white",
        "padding": 12,
        "width": 720,
        "height": 320,
        "config": {"axis": {"gridColor": "#eeeeee"}, "view": {"stroke": "#dddddd"}},
        "layer": layers,
    }


def _subtitle(fit: Fit) -> str:
    peak = fit.peak
    return text(
        "{allocated} allocated at the peak, {reserved} reserved, {device} on the card",
        allocated=format_bytes(peak.allocated_bytes),
        reserved=format_bytes(peak.reserved_bytes),
        device=format_bytes(peak.device_bytes),
    )


def _areas(fit: Fit, shown: list[Kind]) -> Spec:
    timeline = fit.timeline
    values = [
        {
            "at": round(at, 5),
            "what": _LABELS[kind],
            "gib": round(timeline.held[kind][number] / GIB, 5),
            "order": order,
        }
        for order, kind in enumerate(shown)
        for number, at in enumerate(timeline.at)
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "area", "interpolate": "step-after"},
        "encoding": {
            "x": _across(),
            "y": {
                "field": "gib",
                "type": "quantitative",
                "title": text("allocated (GiB)"),
                "stack": "zero",
                # Leave room above the reserved memory for the names of the phases.
                "scale": {"domain": [0, round(fit.peak.reserved_bytes / GIB * 1.15, 3)], "nice": False},
            },
            "order": {"field": "order", "type": "quantitative"},
            "color": {
                "field": "what",
                "type": "nominal",
                "title": None,
                "sort": None,
                "scale": {
                    "domain": [_LABELS[kind] for kind in shown],
                    "range": [_COLOURS[kind] for kind in shown],
                },
                "legend": {"orient": "bottom", "columns": 7},  # a notebook would cut it off at the side
            },
        },
    }


def _across() -> Spec:
    return {
        "field": "at",
        "type": "quantitative",
        "scale": {"domain": [0, 1], "nice": False},
        "axis": {
            "title": text("one step, in the order of its operations"),
            "labels": False,
            "ticks": False,
            "grid": False,
        },
    }


def _phases(fit: Fit) -> list[Spec]:
    """Draw a line where each phase begins, and its name."""
    values = [{"at": round(at, 5), "phase": PHASES[phase]} for at, phase in _long_phases(fit)]
    rule = {"data": {"values": values}, "mark": {"type": "rule", "color": "#555555", "strokeDash": [4, 3]}}
    label = {"type": "text", "align": "left", "baseline": "top", "dx": 4, "fontSize": 11, "color": "#222222"}
    return [
        {**rule, "encoding": {"x": _across()}},
        {
            "data": {"values": values},
            "mark": label,
            "encoding": {"x": _across(), "y": {"value": 2}, "text": {"field": "phase", "type": "nominal"}},
        },
    ]


def _long_phases(fit: Fit) -> list[tuple[float, str]]:
    """Return the phases that are long enough for a label."""
    begins = [*fit.timeline.phases, (1.0, "")]
    return [(at, phase) for (at, phase), (end, _) in pairwise(begins) if end - at > 0.02]


def _marks(fit: Fit) -> list[Spec]:
    """Draw the peak, and the reserved memory."""
    peak = fit.peak.allocated_bytes / GIB
    values = [
        {
            "at": round(fit.timeline.peak_at, 5),
            "gib": round(peak, 5),
            "text": text("peak {size}", size=format_bytes(fit.peak.allocated_bytes)),
        }
    ]
    right = fit.timeline.peak_at > 0.7
    position = {"x": _across(), "y": {"field": "gib", "type": "quantitative"}}
    label = {
        "type": "text",
        "align": "right" if right else "left",
        "dx": -9 if right else 9,
        "dy": -7,
        "fontWeight": "bold",
    }
    reserved = [
        {
            "gib": round(fit.peak.reserved_bytes / GIB, 5),
            "text": text("reserved {size}", size=format_bytes(fit.peak.reserved_bytes)),
        }
    ]
    level = {"y": {"field": "gib", "type": "quantitative"}}
    return [
        {
            "data": {"values": values},
            "mark": {"type": "point", "filled": True, "size": 70, "color": "#B2182B"},
            "encoding": position,
        },
        {
            "data": {"values": values},
            "mark": label,
            "encoding": {**position, "text": {"field": "text", "type": "nominal"}},
        },
        {
            "data": {"values": reserved},
            "mark": {"type": "rule", "color": "#B2182B", "strokeDash": [2, 2]},
            "encoding": level,
        },
        {
            "data": {"values": reserved},
            "mark": {"type": "text", "align": "right", "dy": -6, "color": "#B2182B"},
            "encoding": {**level, "x": {"value": 716}, "text": {"field": "text", "type": "nominal"}},
        },
    ]


# Distinguishable without colours, too.
GLYPHS: dict[Kind, str] = {
    "weights": "█",
    "optimizer": "▓",
    "inputs": "i",
    "gradients": "g",
    "activations": "▒",
    "temporary": "t",
    "workspace": "w",
}


class Plot(NamedTuple):
    """Rows of cells from the top; each cell is a kind or None."""

    rows: list[list[Kind | None]]
    highest: int  # bytes of the topmost row
    peak_column: int
    phases: list[tuple[int, Phase]]  # the column where each phase begins


def plot(timeline: Timeline, width: int, height: int) -> Plot:
    """Plot memory: columns are equal parts of the step, each with its maximum."""
    count = len(timeline.at)
    totals = [sum(timeline.held[kind][number] for kind in KINDS) for number in range(count)]
    columns: list[list[int]] = [[] for _ in range(width)]
    for number, at in enumerate(timeline.at):
        columns[min(width - 1, int(at * width))].append(number)
    highest = max(totals, default=0) or 1
    rows: list[list[Kind | None]] = [[None] * width for _ in range(height)]
    last = 0
    for column, numbers in enumerate(columns):
        last = max(numbers, key=totals.__getitem__) if numbers else last
        for row, kind in enumerate(_stack(timeline, last, highest, height)):
            rows[height - 1 - row][column] = kind
    phases = [(min(width - 1, int(at * width)), phase) for at, phase in timeline.phases]
    return Plot(rows, highest, min(width - 1, int(timeline.peak_at * width)), phases)


def _stack(timeline: Timeline, number: int, highest: int, height: int) -> list[Kind]:
    """Return kinds from the bottom up; a cell shows what is at its middle."""
    cells: list[Kind] = []
    filled = 0.0
    for kind in KINDS:
        filled += timeline.held[kind][number] * height / highest
        while len(cells) + 0.5 <= filled and len(cells) < height:
            cells.append(kind)
    return cells

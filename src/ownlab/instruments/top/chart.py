"""The chart of a recording: verdicts, activity and limits of each card over time, and the host below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ownlab.errors import InputError
from ownlab.instruments.top.fields import format_time
from ownlab.instruments.top.report import CardReport, Point, Report
from ownlab.instruments.top.verdict_rules import load_rules
from ownlab.render.charts import SCHEMA, Spec
from ownlab.text import text
from ownlab.units import format_seconds

__all__ = ["report_chart"]

_WIDTH = 720
_PAUSE_SECONDS = 1.0  # a shorter gap is a late sample

# Colours for all kinds of colour vision (Okabe and Ito, 2008); grey for idle, red for problems.
_VERDICTS = {
    "tensor": "#009E73",
    "fine": "#66C2A5",
    "memory": "#56B4E9",
    "off-tensor": "#F0E442",
    "fp64": "#B3A125",
    "small": "#E69F00",
    "starved": "#D55E00",
    "pcie": "#0072B2",
    "throttled": "#B2182B",
    "busy": "#8DA0CB",
    "desktop": "#B8B8D0",
    "held": "#CC79A7",
    "idle": "#D9D9D9",
    "unknown": "#F7F7F7",
    "split": "#BDBDBD",
    "silent": "#969696",
    "gone": "#636363",
    "lost": "#252525",
}
_LINES = {
    "busy": ("busy", "#999999"),
    "sm": ("SMs", "#0072B2"),
    "tensor": ("tensor cores", "#009E73"),
    "dram": ("memory bandwidth", "#56B4E9"),
    "fp32": ("FP32 units", "#E69F00"),
}
_INFERRED = {"busy": _LINES["busy"], "memory_utilisation": ("memory accessed", "#56B4E9")}
_LIMITS = {
    "power_share": ("power, of the limit", "#D55E00"),
    "memory_share": ("memory used", "#CC79A7"),
    "clock_share": ("SM clock, of the maximum", "#666666"),
    "pcie_share": ("PCIe link", "#0072B2"),
}
_HOST = {"host_cpu": ("CPU", "#E69F00"), "io_wait": ("waiting for disks", "#D55E00")}


def report_chart(report: Report) -> Spec:
    """Return the Vega-Lite specification of a report."""
    axis = _TimeAxis(report)
    parts = [part for card in report.cards for part in _card_panels(card, axis)]
    if any(point.figures for point in report.host.points):
        parts.append(axis.lines("host", report.host.points, _HOST, height=60))
    for part in parts[:-1]:
        part["encoding"]["x"]["axis"]["title"] = None
    if not parts:
        raise InputError(
            text("This recording cannot be drawn."), hint=text("It has no metrics of cards or of the host.")
        )
    return {
        "$schema": SCHEMA,
        "title": {"text": _title(report), "anchor": "start", "fontSize": 15, "offset": 12},
        "background": "white",
        "padding": 12,
        "spacing": 6,
        "config": {"axis": {"grid": True, "gridColor": "#eeeeee"}, "view": {"stroke": "#dddddd"}},
        "resolve": {"scale": {"color": "independent"}},
        "vconcat": parts,
    }


class _TimeAxis:
    """Time since the start of the recording, in a unit that suits its length."""

    def __init__(self, report: Report) -> None:
        self.begun = report.begun
        length = report.ended - report.begun
        self.unit, self.seconds = next(
            (unit for unit in (("h", 3600.0), ("min", 60.0)) if length >= 3 * unit[1]), ("s", 1.0)
        )
        self.end = round(length / self.seconds, 4) or 1.0

    def at(self, moment: float) -> float:
        return round((moment - self.begun) / self.seconds, 4)

    def encoding(self, *, labels: bool) -> Spec:
        return {
            "field": "at",
            "type": "quantitative",
            "scale": {"domain": [0, self.end], "nice": False},
            "axis": {"title": f"time ({self.unit})", "labels": labels, "ticks": labels},
        }

    def lines(self, title: str, points: Iterable[Point], drawn: dict[str, tuple[str, str]], *, height: int) -> Spec:
        """Return a panel with one line per metric, in percent."""
        points = list(points)
        known = {name: style for name, style in drawn.items() if any(name in point.figures for point in points)}
        values = [
            {"at": self.at(at), "what": label, "share": figures and round(figures[name], 2)}
            for at, figures, point in _with_gaps(points)
            for name, (label, _) in known.items()
            if name in point.figures
        ]
        return {
            "width": _WIDTH,
            "height": height,
            "data": {"values": values},
            "mark": {
                "type": "line",
                "interpolate": "step-before",
                "strokeWidth": 1.5,
                "clip": True,
                "point": len(points) < 2,
            },
            "encoding": {
                "x": self.encoding(labels=True),
                "y": {"field": "share", "type": "quantitative", "title": f"{title} (%)", "scale": {"domain": [0, 100]}},
                "color": _colours("what", dict(known.values()), {"labelLimit": 240}),
            },
        }


def _with_gaps(points: Iterable[Point]) -> Iterator[tuple[float, dict[str, float] | None, Point]]:
    """Yield the points of a line with their values. After a pause the line restarts: None ends the part before."""
    before: float | None = None
    for point in points:
        begun = point.at - point.seconds
        if before is not None and begun - before > max(_PAUSE_SECONDS, point.seconds / 2):
            yield begun, None, point
            yield begun, point.figures, point
        yield point.at, point.figures, point
        before = point.at


def _card_panels(card: CardReport, axis: _TimeAxis) -> Iterator[Spec]:
    yield _verdict_band(card, axis)
    measured = any("sm" in point.figures for point in card.points)
    yield axis.lines("activity", card.points, _LINES if measured else _INFERRED, height=130)
    yield axis.lines("limits", card.points, _LIMITS, height=70)


def _verdict_band(card: CardReport, axis: _TimeAxis) -> Spec:
    """Return the verdicts of a card as a coloured band."""
    titles = {code: title.fill() for code, title in load_rules().titles.items()}
    values = [
        {
            "at": axis.at(span.begun),
            "until": axis.at(span.begun + span.seconds),
            "verdict": titles[span.code],
            "sentence": span.sentence,
        }
        for span in card.spans
    ]
    colours: dict[str, str] = {titles[code]: _VERDICTS[code] for code in _VERDICTS if code in card.shares}
    energy = "" if card.energy is None else f" · {card.energy / 3600:.3g} Wh"
    return {
        "width": _WIDTH,
        "height": 18,
        "title": {
            "text": f"{card.index}: {card.name or card.uuid}{energy}",
            "subtitle": card.headline,
            "anchor": "start",
            "fontSize": 13,
            "subtitleColor": "#444444",
        },
        "data": {"values": values},
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": axis.encoding(labels=False),
            "x2": {"field": "until"},
            "color": _colours("verdict", colours, {"orient": "bottom", "columns": 4, "labelLimit": 240}),
            "tooltip": {"field": "sentence", "type": "nominal"},
        },
    }


def _colours(field: str, colours: dict[str, str], legend: Spec) -> Spec:
    return {
        "field": field,
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(colours), "range": list(colours.values())},
        "legend": legend,
    }


def _title(report: Report) -> str:
    begun = format_time(report.begun).rpartition(".")[0]
    return f"{begun}, {format_seconds(round(report.seconds) or 1)}"

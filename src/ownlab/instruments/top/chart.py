"""The chart of a `top` recording: per card its verdicts, its work and its limits over time; the host below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ownlab.errors import InputError
from ownlab.instruments.top.fields import format_time
from ownlab.instruments.top.report import CardReport, Point, Report
from ownlab.instruments.top.verdict_rules import load_rules
from ownlab.render.charts import SCHEMA, Spec
from ownlab.units import format_seconds

__all__ = ["report_chart"]

_WIDTH = 720
_PAUSE_SECONDS = 1.0  # in which nothing was recorded: less than this is a sample that came late

# Colours that people with any sight tell apart (Okabe and Ito, 2008), grey for nothing, red for trouble.
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
    "busy": ("anything ran", "#999999"),
    "sm": ("SMs", "#0072B2"),
    "tensor": ("tensor cores", "#009E73"),
    "dram": ("memory bandwidth", "#56B4E9"),
    "fp32": ("FP32 units", "#E69F00"),
}
_INFERRED = {"busy": _LINES["busy"], "memory_utilisation": ("memory accessed", "#56B4E9")}
_AROUND = {
    "power_share": ("power, of its limit", "#D55E00"),
    "memory_share": ("memory taken", "#CC79A7"),
    "clock_share": ("SM clock, of its maximum", "#666666"),
    "pcie_share": ("PCIe link", "#0072B2"),
}
_HOST = {"host_cpu": ("CPU", "#E69F00"), "io_wait": ("waiting for disks", "#D55E00")}


def report_chart(report: Report) -> Spec:
    """The Vega-Lite specification of a report: for each card its verdicts, its work and what is around it; the host below."""
    scale = _Scale(report)
    parts = [part for card in report.cards for part in _card(card, scale)]
    if any(point.figures for point in report.host.points):
        parts.append(scale.lines("host", report.host.points, _HOST, height=60))
    for part in parts[:-1]:
        part["encoding"]["x"]["axis"]["title"] = None
    if not parts:
        raise InputError(
            "nothing in this recording can be drawn", hint="It has figures neither of cards nor of the host."
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


class _Scale:
    """Time from the recording's beginning, in the unit that suits its length."""

    def __init__(self, report: Report) -> None:
        self.begun = report.begun
        length = report.ended - report.begun
        self.unit, self.seconds = next(
            (each for each in (("h", 3600.0), ("min", 60.0)) if length >= 3 * each[1]), ("s", 1.0)
        )
        self.end = round(length / self.seconds, 4) or 1.0

    def at(self, moment: float) -> float:
        return round((moment - self.begun) / self.seconds, 4)

    def axis(self, *, labels: bool) -> Spec:
        return {
            "field": "at",
            "type": "quantitative",
            "scale": {"domain": [0, self.end], "nice": False},
            "axis": {"title": f"time ({self.unit})", "labels": labels, "ticks": labels},
        }

    def lines(self, title: str, points: Iterable[Point], drawn: dict[str, tuple[str, str]], *, height: int) -> Spec:
        """Shares over time, each a line."""
        points = list(points)
        known = {name: words for name, words in drawn.items() if any(name in point.figures for point in points)}
        values = [
            {"at": self.at(at), "what": words, "share": figures and round(figures[name], 2)}
            for at, figures, point in _with_gaps(points)
            for name, (words, _) in known.items()
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
                "x": self.axis(labels=True),
                "y": {"field": "share", "type": "quantitative", "title": f"{title} (%)", "scale": {"domain": [0, 100]}},
                "color": _colours("what", dict(known.values()), {"labelLimit": 240}),
            },
        }


def _with_gaps(points: Iterable[Point]) -> Iterator[tuple[float, dict[str, float] | None, Point]]:
    """The moments of a line, each with its figures. After a pause it begins anew: None ends what was before."""
    before: float | None = None
    for point in points:
        begun = point.at - point.seconds
        if before is not None and begun - before > max(_PAUSE_SECONDS, point.seconds / 2):
            yield begun, None, point
            yield begun, point.figures, point
        yield point.at, point.figures, point
        before = point.at


def _card(card: CardReport, scale: _Scale) -> Iterator[Spec]:
    yield _strip(card, scale)
    measured = any("sm" in point.figures for point in card.points)
    yield scale.lines("work", card.points, _LINES if measured else _INFERRED, height=130)
    yield scale.lines("around it", card.points, _AROUND, height=70)


def _strip(card: CardReport, scale: _Scale) -> Spec:
    """What the card's time went into, as a band."""
    titles = load_rules().titles
    values = [
        {
            "at": scale.at(span.begun),
            "until": scale.at(span.begun + span.seconds),
            "verdict": titles[span.code],
            "sentence": span.sentence,
        }
        for span in card.spans
    ]
    colours = {titles[code]: _VERDICTS[code] for code in _VERDICTS if code in card.shares}
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
            "x": scale.axis(labels=False),
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

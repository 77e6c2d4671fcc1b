"""The report on a recording in the terminal (`ownlab top report`, `ownlab.watch`)."""

from __future__ import annotations

from rich.console import Console

from ownlab.instruments.top.fields import format_time
from ownlab.instruments.top.report import CardReport, Report
from ownlab.instruments.top.verdict_rules import format_metric, load_rules
from ownlab.render.console import labelled
from ownlab.text import facts, plural, sentence, text
from ownlab.units import format_bytes, format_seconds

__all__ = ["show_report"]

# The metrics that are shown for each card.
_METRICS = ("busy", "sm", "occupancy", "tensor", "dram", "fp64", "fp32", "fp16", "power", "temperature", "pcie")
# Units that were never active are left out.
_LEAST = {"fp64": 1.0, "fp32": 1.0, "fp16": 1.0}
_MOST_SPANS = 20
_LABEL = 10
_JOULES_IN_WH = 3600


def show_report(report: Report, out: Console) -> None:
    """Print the verdicts, means and peaks of each card, then the host."""
    begun = format_time(report.begun).rpartition(".")[0]
    duration = format_seconds(round(report.seconds) or 1)
    heading = plural(
        report.samples,
        "{begun}, {duration}, one sample",
        "{begun}, {duration}, {n} samples",
        begun=begun,
        duration=duration,
    )
    out.print(heading, markup=False, highlight=False)
    for card in report.cards:
        out.print()
        _show_card(card, report, out)
    if not report.cards:
        out.print()
        message = text("unknown: {reason}", reason=report.trouble) if report.trouble else text("unknown")
        labelled(out, text("cards"), message, indent=0, width=_LABEL)
    if report.host.means:
        out.print()
        out.print(text("Host"), style="bold")
        _show_host(report, out)


def _show_card(card: CardReport, report: Report, out: Console) -> None:
    title = text("{index}: {card}", index=card.index, card=card.name or card.uuid)
    out.print(title, style="bold", markup=False, highlight=False)
    _line(out, text("verdict"), sentence(card.headline))
    if card.advice:
        _line(out, text("try"), card.advice)
    metrics = load_rules().metrics
    for name in _METRICS:
        if card.peaks.get(name, 0.0) >= _LEAST.get(name, 0.0) and name in card.means:
            mean, peak = format_metric(name, card.means[name]), format_metric(name, card.peaks[name])
            label = metrics[name].name.fill()
            _line(out, "", text("{metric}: mean {mean}, peak {peak}", metric=label, mean=mean, peak=peak))
    if card.no_saturation:
        _line(out, "", text("the activity of the card is unknown: {reason}", reason=card.no_saturation))
    if card.memory_peak is not None:
        _line(out, text("VRAM"), _format_peak(card.memory_peak, card.memory_total))
    if card.energy is not None:
        energy = card.energy / _JOULES_IN_WH
        if card.energy_from == "counter":
            _line(out, text("energy"), text("{energy:.3g} Wh (the card's counter)", energy=energy))
        else:
            _line(out, text("energy"), text("{energy:.3g} Wh (power integrated over time)", energy=energy))
    if len(card.spans) > 1:
        _show_spans(card, report, out)


def _show_spans(card: CardReport, report: Report, out: Console) -> None:
    """Print the longest spans, in order of time."""
    longest = sorted(card.spans, key=lambda span: -span.seconds)[:_MOST_SPANS]
    labels = {span.begun: f"+{_format_offset(span.begun - report.begun)}" for span in longest}
    width = max(_LABEL, 2 + max(map(len, labels.values())))
    for span in sorted(longest, key=lambda span: span.begun):
        line = text("{name}: {about}", name=format_seconds(round(span.seconds) or 1), about=span.sentence)
        labelled(out, labels[span.begun], line, indent=2, width=width)
    if len(card.spans) > _MOST_SPANS:
        _line(out, "", text("and {count} shorter spans; --json lists all", count=len(card.spans) - _MOST_SPANS))


def _format_offset(seconds: float) -> str:
    return format_seconds(round(seconds)) if seconds >= 1 else "0 s"


def _show_host(report: Report, out: Console) -> None:
    means, peaks = report.host.means, report.host.peaks
    for name, label in (("cpu", text("CPU")), ("io_wait", text("waiting for disks"))):
        if name in means:
            mean, peak = f"{means[name]:.0f} %", f"{peaks[name]:.0f} %"
            _line(out, "", text("{metric}: mean {mean}, peak {peak}", metric=label, mean=mean, peak=peak))
    if "memory_used" in means:
        _line(out, text("RAM"), _format_peak(peaks["memory_used"], means.get("memory")))
    labels = {
        "disk_read": text("disk read"),
        "disk_written": text("disk written"),
        "received": text("network received"),
        "sent": text("network sent"),
    }
    rates = [
        text("{flow} {rate}/s", flow=label, rate=format_bytes(means[name]))
        for name, label in labels.items()
        if name in means
    ]
    if rates:
        _line(out, text("rates"), facts(*rates))


def _format_peak(peak: float, total: float | None) -> str:
    if total is None:
        return text("peak {peak}", peak=format_bytes(peak))
    return text("peak {peak} of {total}", peak=format_bytes(peak), total=format_bytes(total))


def _line(out: Console, label: str, content: str) -> None:
    labelled(out, label, content, indent=2, width=_LABEL)

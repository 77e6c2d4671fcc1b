"""A report of a recording in the terminal."""

from __future__ import annotations

from rich.console import Console

from ownlab.instruments.top.fields import format_time
from ownlab.instruments.top.report import CardReport, Report
from ownlab.instruments.top.verdict_rules import format_figure, load_rules
from ownlab.render.console import labelled
from ownlab.units import format_bytes, format_seconds

__all__ = ["show_report"]

# Shown of each card, where they are known.
_FIGURES = ("busy", "sm", "occupancy", "tensor", "dram", "fp64", "fp32", "fp16", "power", "temperature", "pcie")
# Units that never worked are not worth a line.
_LEAST = {"fp64": 1.0, "fp32": 1.0, "fp16": 1.0}
_MOST_SPANS = 20
_LABEL = 10
_JOULES_IN_WH = 3600


def show_report(report: Report, out: Console) -> None:
    """For each card what its time went into, means and peaks, and its verdicts over time; then the host."""
    begun = format_time(report.begun).rpartition(".")[0]
    out.print(
        f"{begun}, {format_seconds(round(report.seconds) or 1)}, {report.samples} samples",
        markup=False,
        highlight=False,
    )
    for card in report.cards:
        out.print()
        _show_card(card, report, out)
    if not report.cards:
        out.print()
        labelled(
            out, "cards", f"none is known{f': {report.trouble}' if report.trouble else ''}", indent=0, width=_LABEL
        )
    if report.host.means:
        out.print()
        out.print("Host", style="bold")
        _show_host(report, out)


def _show_card(card: CardReport, report: Report, out: Console) -> None:
    out.print(f"{card.index}: {card.name or card.uuid}", style="bold", markup=False, highlight=False)
    _line(out, "verdict", f"{card.headline}.")
    if card.advice:
        _line(out, "try", card.advice)
    names = load_rules().figures
    for name in _FIGURES:
        if card.peaks.get(name, 0.0) >= _LEAST.get(name, 0.0) and name in card.means:
            mean, peak = format_figure(name, card.means[name]), format_figure(name, card.peaks[name])
            _line(out, "", f"{names[name].words}: {mean} in the mean, {peak} at most")
    if card.no_saturation:
        _line(out, "", f"how much of the card worked is not known: {card.no_saturation}")
    if card.memory_peak is not None:
        of = "" if card.memory_total is None else f" of {format_bytes(card.memory_total)}"
        _line(out, "memory", f"{format_bytes(card.memory_peak)}{of} at most")
    if card.energy is not None:
        how = "by the card's counter" if card.energy_from == "counter" else "power summed over time"
        _line(out, "energy", f"{card.energy / _JOULES_IN_WH:.3g} Wh ({how})")
    if len(card.spans) > 1:
        _show_spans(card, report, out)


def _show_spans(card: CardReport, report: Report, out: Console) -> None:
    """The longest ones, in their order."""
    longest = sorted(card.spans, key=lambda span: -span.seconds)[:_MOST_SPANS]
    labels = {span.begun: f"+{_after(span.begun - report.begun)}" for span in longest}
    width = max(_LABEL, 2 + max(map(len, labels.values())))
    for span in sorted(longest, key=lambda span: span.begun):
        text = f"{format_seconds(round(span.seconds) or 1)}: {span.sentence}"
        labelled(out, labels[span.begun], text, indent=2, width=width)
    if len(card.spans) > _MOST_SPANS:
        _line(out, "", f"and {len(card.spans) - _MOST_SPANS} shorter ones; all: --json")


def _after(seconds: float) -> str:
    return format_seconds(round(seconds)) if seconds >= 1 else "0 s"


def _show_host(report: Report, out: Console) -> None:
    means, peaks = report.host.means, report.host.peaks
    for name, words in (("cpu", "CPU"), ("io_wait", "waiting for disks")):
        if name in means:
            _line(out, "", f"{words}: {means[name]:.0f} % in the mean, {peaks[name]:.0f} % at most")
    if "memory_used" in means:
        of = f" of {format_bytes(means['memory'])}" if "memory" in means else ""
        _line(out, "memory", f"{format_bytes(peaks['memory_used'])}{of} at most")
    rates = (("disk_read", "read from disks"), ("disk_written", "written"), ("received", "received"), ("sent", "sent"))
    told = [f"{words} {format_bytes(means[name])}/s" for name, words in rates if name in means]
    if told:
        _line(out, "rates", ", ".join(told))


def _line(out: Console, label: str, text: str) -> None:
    labelled(out, label, text, indent=2, width=_LABEL)

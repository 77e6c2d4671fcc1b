"""`ownlab bench` in the terminal: progress, then each result with its interval and its limit; comparisons; the list."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator

from rich.console import Console
from rich.text import Text

from ownlab.instruments.bench.comparison import Cell, Comparison, Ranking, ReferenceRatios, Row
from ownlab.instruments.bench.group_texts import GROUP_MEANINGS, GROUP_TITLES, WORKLOADS
from ownlab.instruments.bench.records import (
    GROUPS,
    PROFILE_NAMES,
    BenchReport,
    Event,
    Measure,
    Plan,
    Skipped,
    Started,
)
from ownlab.instruments.bench.report_files import ReportList
from ownlab.instruments.bench.statistics import CONFIDENCE
from ownlab.render.console import labelled
from ownlab.render.wide_text import align_left, align_right, cell_width
from ownlab.text import facts, listing, plural, sentences, text
from ownlab.units import format_bytes, format_rate, format_seconds

__all__ = ["show_bench", "show_comparison", "show_progress", "show_reports"]

_KINDS = {"measured": text("measured"), "computed": text("computed")}
_BAR = 12
_NAME_NARROWEST = 16
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RATE, _RATIO = 15, 9
# Reasons that skip many tests at once.
_MISSING = ("no-gpu", "no-torch", "no-numpy", "no-pillow", "not-installed")
_REASONS = {
    "no-gpu": text("no card that torch can use"),
    "no-torch": text("no torch in this Python (choose another with --python PATH)"),
    "no-numpy": text("neither torch nor numpy in this Python"),
    "no-pillow": text("no Pillow in this Python"),
    "unwritable": text("the folder is not writable (choose another with --folder)"),
    "failed": text("it failed"),
    "out-of-memory": text("not enough memory"),
    "unsupported": text("not supported here"),
    "card-lost": text("the card was lost"),
    "no-space": text("no space on the disk (choose another with --folder)"),
    "cache-cannot-be-avoided": text("the cache cannot be avoided (choose another disk with --folder)"),
    "no-time": text("no time left"),
    "budget": text("no time left (use --budget SECONDS for more)"),
    "not-installed": text("not installed"),
}


@contextlib.contextmanager
def show_progress(title: str) -> Iterator[Callable[[Event], None]]:
    """Show the running test on stderr, if it is a terminal. Yields the function that takes the events."""
    progress = Console(file=sys.stderr)
    if not progress.is_terminal:
        yield lambda event: None
        return
    count, done = 0, 0
    with progress.status(f"{title} …", spinner="dots") as status:

        def on_event(event: Event) -> None:
            nonlocal count, done
            if isinstance(event, Plan):
                count = len(event.tests)
            elif isinstance(event, Started):
                done += 1
                count = max(count, done)  # without enough memory, a smaller test is added
                status.update(
                    text(
                        "{done} of {count}  {test} … (Ctrl-C stops and keeps the results)",
                        done=done,
                        count=count,
                        test=event.name,
                    )
                )

        yield on_event


def show_bench(
    report: BenchReport, out: Console, rankings: Iterable[Ranking] = (), references: Iterable[ReferenceRatios] = ()
) -> None:
    """Print a report and how it compares."""
    _show_head(report, out)
    width = _name_width([measure.name for measure in report.results], out, _RATE + _BAR + 19)
    groups = {measure.group: None for measure in report.results}
    for group in sorted(groups, key=(*GROUPS, *groups).index):
        _heading(out, GROUP_TITLES.get(group, group))
        if group in GROUP_MEANINGS:
            labelled(out, "", Text(GROUP_MEANINGS[group], style="dim"), width=0)
        _show_group([measure for measure in report.results if measure.group == group], width, out)
    cards = dict.fromkeys(measure.limit.card for measure in report.results if measure.limit and measure.limit.card)
    for card in cards:
        out.print()
        source = text('Source of the limits of the {card}: ownlab gpus "{card}"', card=card)
        labelled(out, "", Text(source, style="dim"), width=0)
    _show_verdicts(report, out)
    if report.skipped:
        _heading(out, text("Not measured"))
        _show_skipped(report.skipped, out)
    rankings, references = tuple(rankings), tuple(references)
    if rankings or references:
        _heading(out, text("Comparison"))
        for ranking in rankings:
            label = WORKLOADS.get(ranking.workload) or ranking.workload
            labelled(out, label, _format_ranking(ranking), width=26)
        for reference in references:
            ratios = facts(
                *(f"{GROUP_TITLES.get(mean.group, mean.group)} {mean.ratios[1]:.2f} ×" for mean in reference.means)
            )
            message = (
                text("{ratios} as fast as {machine}", ratios=ratios, machine=reference.machine)
                if ratios
                else text("no complete test in common")
            )
            labelled(out, text("against {name}", name=reference.name), message, width=26)


def show_reports(reports: ReportList, out: Console) -> None:
    """Print the names for `compare` and `show`."""
    if not reports.reports:
        labelled(out, "", text("No results yet. `ownlab bench` creates and saves the first."), indent=0, width=0)
    width = max((cell_width(entry.name) for entry in reports.reports), default=0) + 2
    for entry in reports.reports:
        if entry.trouble:
            labelled(out, entry.name, Text(entry.trouble, style="red"), width=width)
            continue
        origin = entry.source or (text("measured for ownlab") if entry.reference else text("yours"))
        about = facts(
            plural(entry.results, "one result", "{n} results"),
            "" if entry.complete else text("incomplete"),
            entry.when[:10],
            origin,
        )
        labelled(out, entry.name, facts(entry.machine, about, separator="; "), width=width)


def _show_head(report: BenchReport, out: Console) -> None:
    labelled(out, "", Text(_machine_line(report), style="bold"), indent=0, width=0)
    machine = report.machine
    host = facts(
        machine.cpu if machine.cards else "",
        text("{cores:g} cores", cores=machine.cores) if machine.cores else "",
        format_bytes(machine.memory_bytes) if machine.memory_bytes else "",
        text("driver {version}", version=machine.driver) if machine.driver else "",
        text("kernel {version}", version=machine.kernel) if machine.kernel else "",
    )
    labelled(out, "", Text(host, style="dim"), indent=0, width=0)
    if report.seconds:
        duration = format_seconds(report.seconds)
        results = plural(
            len(report.results), "one result in {duration}", "{n} results in {duration}", duration=duration
        )
    else:
        results = plural(len(report.results), "one result", "{n} results")
    when = f"{report.when[:16].replace('T', ' ')} UTC"
    run = facts(results, text("profile {profile}", profile=PROFILE_NAMES.get(report.profile, report.profile)), when)
    labelled(out, "", Text(run, style="dim"), indent=0, width=0)
    if report.results:
        labelled(out, "", Text(_legend(report), style="dim"), indent=0, width=0)
    for note in report.notes:
        labelled(out, "", Text(note, style="yellow"), indent=0, width=0)
    if not report.complete:
        message = sentences(
            text("Incomplete: {reason}.", reason=report.trouble),
            text("The results so far are below.") if report.results else text("There are no results yet."),
        )
        labelled(out, "", Text(message, style="bold yellow"), indent=0, width=0)


def _legend(report: BenchReport) -> str:
    few = any(measure.confidence < CONFIDENCE for measure in report.results if measure.count > 1)
    limits = any(measure.share_of_peak is not None for measure in report.results)
    return sentences(
        text("Each result is the median of its repetitions, ± half of its 95 % interval."),
        text("~: half of the range, if there are too few repetitions.") if few else None,
        text("Percentages are relative to the theoretical limit.") if limits else None,
    )


def _machine_line(report: BenchReport) -> str:
    machine = report.machine
    names = [card.name for card in machine.cards]
    cards = [f"{name} ×{names.count(name)}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    torch: str = f"torch {machine.torch}" if machine.torch else text("no torch")
    if machine.torch and machine.cuda and "+cu" not in machine.torch:
        torch = f"{torch} (CUDA {machine.cuda})"
    numpy = f"numpy {machine.numpy}" if machine.numpy and not machine.torch else None
    return facts(*(cards or [machine.cpu or text("a machine")]), torch, numpy)


def _show_group(measures: list[Measure], width: int, out: Console) -> None:
    for measure in measures:
        line = Text(f"  {align_left(_shorten(measure.name, width), width)}")
        line.append(align_right(format_rate(measure.median, measure.unit), _RATE))
        line.append(f"  {align_right(_format_spread(measure), 7)}", style="dim")
        line.append(_format_tail(measure), style="")
        if measure.share_of_peak is not None:
            style = {"low": "yellow", "above-limit": "red"}.get(measure.verdict, "green")
            line.append(f"  {_format_share(measure.share_of_peak)} ")
            line.append("" if measure.percentiles else _bar(measure.share_of_peak), style=style)
        line.rstrip()
        _print_line(out, line)
    limits = _format_limits(measures)
    if limits:
        labelled(out, "", Text(text("limits: {limits}", limits=limits), style="dim"), width=0)
    notes = dict.fromkeys(measure.note for measure in measures if measure.note)
    for note in notes:
        names = [measure.name for measure in measures if measure.note == note]
        line_text = (
            note
            if len(names) == len(measures)
            else text("{tests}: {note}", tests=listing(names, "{items}, {last}"), note=note)
        )
        labelled(out, "", Text(line_text, style="dim"), width=0)


def _format_limits(measures: list[Measure]) -> str:
    """Return "989 TFLOP/s (bf16 peak, fp16 peak), 67 TFLOP/s (fp32 peak)"."""
    unit = "B/s" if measures[0].group in ("memory", "copies") else "FLOP/s"
    names_by_value: dict[str, list[str]] = {}
    for limit in dict.fromkeys(measure.limit for measure in measures if measure.limit is not None):
        names_by_value.setdefault(format_rate(limit.value, unit), []).append(limit.what)
    limits_by_value = {
        value: listing(dict.fromkeys(names), "{items}, {last}") for value, names in names_by_value.items()
    }
    return facts(*(text("{value} ({limits})", value=value, limits=limits) for value, limits in limits_by_value.items()))


def _format_tail(measure: Measure) -> str:
    """Return the highest known percentile of a latency."""
    slowest = next((name for name in ("p99", "p90") if name in measure.percentiles), None)
    return "" if slowest is None else f"  {slowest} {format_seconds(measure.percentiles[slowest])}"


def _format_spread(measure: Measure) -> str:
    """Return half of the interval, relative to the median."""
    if measure.count < 2:
        return text("once")
    half = 100 * (measure.high - measure.low) / 2 / measure.median
    sign = "±" if measure.confidence >= CONFIDENCE else "~"
    return f"{sign} {half:.1f} %" if half < 10 else f"{sign} {half:.0f} %"


def _bar(share: float) -> str:
    return "█" * round(_BAR * min(1.0, share))


def _format_share(share: float) -> str:
    if share < 2:
        return f"{100 * share:3.0f} %"
    return f"{share:.3g} ×" if share < 100 else f"{share:,.0f} ×"


def _show_verdicts(report: BenchReport, out: Console) -> None:
    problems = [measure for measure in report.results if measure.verdict in ("above-limit", "low")]
    if not problems:
        return
    _heading(out, text("Problems"))
    for measure in problems:
        style = "red" if measure.verdict == "above-limit" else "yellow"
        head = Text(f"{measure.name}: ", style=style)
        if measure.verdict == "low" and measure.share_of_peak is not None and measure.limit is not None:
            share = f"{100 * measure.share_of_peak:.0f} %"
            message = text("{share} of the {limit}. Possible causes: ", share=share, limit=measure.limit.named)
            head.append(message, style="")
        labelled(out, "", head + Text(sentences(*measure.why)), width=0)


def _show_skipped(skipped: Iterable[Skipped], out: Console) -> None:
    """Print skipped tests by reason, with the message of the guest if it is the same for all."""
    by_reason: dict[str, list[Skipped]] = {}
    for test in skipped:
        by_reason.setdefault(test.reason, []).append(test)
    for reason, tests in by_reason.items():
        messages = {test.message for test in tests if test.message}
        known = _REASONS.get(reason) or reason
        message = next(iter(messages)) if len(messages) == 1 else None
        names = listing((GROUP_TITLES.get(test.name, test.name) for test in tests[:4]), "{items}, {last}")
        if len(tests) > 4:
            names = text("{names} and {count} more", names=names, count=len(tests) - 4)
        line = text("{names}: {reason}", names=names, reason=known)
        if message and reason not in _MISSING:  # what is missing is the whole message
            line = text("{names}: {reason}. The message was: {message}", names=names, reason=known, message=message)
        labelled(out, "", Text(line, style="dim"), width=0)


def _format_ranking(ranking: Ranking) -> str:
    speed = ranking.speed
    factor = f"{speed.relative:.2f} ×"
    if speed.high > speed.low:
        factor = text("{factor} ({low:.2g} to {high:.2g} ×)", factor=factor, low=speed.low, high=speed.high)
    return text(
        "{factor} the speed of a V100, {kind}; rank {rank} of {count}",
        factor=factor,
        kind=_KINDS[speed.kind],
        rank=ranking.rank,
        count=ranking.of,
    )


# --- comparisons ------------------------------------------------------------------------------------------------------


def show_comparison(comparison: Comparison, out: Console) -> None:
    """Print the results of the first side and the ratios to it; for two sides, both results."""
    for letter, side in zip(_LETTERS, comparison.sides, strict=False):
        parts = [side.machine, side.when[:10], "" if side.complete else text("incomplete")]
        labelled(out, letter, text("{name}: {about}", name=side.label, about=facts(*parts)), indent=0, width=3)
    head = _columns(len(comparison.sides))
    width = _name_width([row.name for row in comparison.rows], out, len(head) + 4)
    out.print()
    _print_line(out, Text(f"  {''.ljust(width)}{head}", style="dim"))
    for number, group in enumerate(dict.fromkeys(row.group for row in comparison.rows)):
        if number:
            out.print()
        _print_line(out, Text(GROUP_TITLES.get(group, group), style="bold"))
        for row in comparison.rows:
            if row.group == group:
                _print_line(out, _row(row, width))
        mean = next((mean for mean in comparison.means if mean.group == group), None)
        if mean is not None and mean.count > 1:
            before = "".rjust(_RATE * (2 if len(mean.ratios) == 2 else 1))
            ratios = "".join(f"{align_right(_format_ratio(ratio), _RATIO)}  " for ratio in mean.ratios[1:])
            label = align_left(text("geometric mean of {count}", count=mean.count), width)
            _print_line(out, Text(f"  {label}{before}{ratios}".rstrip(), style="bold"))
    out.print()
    legend = sentences(
        text(
            "×: speed relative to A. =: no difference. ~: a likely difference. ?: other sizes or no repetitions. "
            "!: above the limit, a measurement error."
        ),
        comparison.method,
    )
    labelled(out, "", Text(legend, style="dim"), indent=0, width=0)
    for letter, names in zip(_LETTERS, comparison.only, strict=False):
        if names:
            line_text = text("Only in {letter}: {names}", letter=letter, names=listing(names, "{items}, {last}"))
            labelled(out, "", Text(line_text, style="dim"), indent=0, width=0)


def _columns(sides: int) -> str:
    if sides == 2:
        return align_right("A", _RATE) + align_right("B", _RATE) + align_right("B/A", _RATIO)
    return (
        align_right("A", _RATE)
        + "".join(align_right(f"{letter}  ", _RATIO + 2) for letter in _LETTERS[1:sides]).rstrip()
    )


def _row(row: Row, width: int) -> Text:
    line = Text(f"  {align_left(_shorten(row.name, width), width)}")
    for number, cell in enumerate(row.cells):
        if number == 0 or len(row.cells) == 2:
            line.append(align_right("–" if cell is None else format_rate(cell.median, row.unit), _RATE))
        if number:
            line.append(align_right("–" if cell is None else _format_ratio(cell.ratio), _RATIO), style=_style(cell))
            line.append(f" {_sign(cell)}")
    line.rstrip()
    return line


def _style(cell: Cell | None) -> str:
    if cell is None:
        return "dim"
    if cell.above_limit:
        return "red"
    if cell.difference not in ("differs", "likely"):
        return "dim"
    return "green" if cell.ratio > 1 else "yellow"


def _sign(cell: Cell | None) -> str:
    if cell is None:
        return " "
    if cell.above_limit:
        return "!"
    return {"differs": " ", "likely": "~", "same": "="}.get(cell.difference, "?")


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.3g} ×" if ratio >= 10 or ratio < 0.1 else f"{ratio:.2f} ×"


def _name_width(names: list[str], out: Console, other_columns: int) -> int:
    """Return the width of the longest name, limited by the room for the other columns."""
    return max(_NAME_NARROWEST, min(max(map(cell_width, names), default=0), out.width - other_columns))


def _shorten(name: str, width: int) -> str:
    """Keep the beginning and the end, which has the size."""
    if len(name) <= width:
        return name
    end = width // 3
    return f"{name[: width - end - 1]}…{name[-end:]}"


def _print_line(out: Console, line: Text) -> None:
    out.print(line, no_wrap=True, overflow="ignore", crop=False)


def _heading(out: Console, title: str) -> None:
    out.print(Text.assemble("\n", (title, "bold")))

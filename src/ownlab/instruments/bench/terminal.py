"""`ownlab bench` in the terminal: progress while it measures, then each figure with its interval and its limit."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator

from rich.console import Console
from rich.text import Text

from ownlab.instruments.bench.comparison import Cell, Comparison, Ranking, ReferenceRatios, Row
from ownlab.instruments.bench.records import (
    GROUPS,
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
from ownlab.units import format_bytes, format_rate, format_seconds

__all__ = ["following", "show_bench", "show_comparison", "show_reports"]

_TITLES = {
    "products": "Matrix products",
    "memory": "Memory of the device",
    "copies": "Copies between host and device",
    "launch": "Launches",
    "layers": "Layers",
    "training": "Training steps",
    "inference": "Inference",
    "frameworks": "The same product in other frameworks",
    "cpu": "The CPU and its memory",
    "disk": "The disk",
    "loader": "Preparing data",
}
# For those who see such figures for the first time.
_MEANINGS = {
    "products": "How fast it multiplies matrices, which is most of training. FLOP/s: additions and multiplications a second; "
    "the names have the type of the numbers, and the rows and columns.",
    "memory": "How fast it reads and writes its own memory: what writing text word by word waits for, and layers that compute little.",
    "copies": "How fast data comes onto the card and back. Pinned memory saves the driver a copy (a loader's pin_memory=True).",
    "launch": "How long it takes to start work on the card: what small models and batches wait for. Less is better.",
    "layers": "Two layers that networks are made of, each by itself.",
    "training": "Whole steps (forward, backward, update) of known networks; their data is on the device already.",
    "inference": "One batch after the other, each waited for. p90, p99: all but one of ten, of a hundred, took no longer.",
    "frameworks": "The product of the first group, by other libraries.",
    "cpu": "Matrix products on the processor, and copies within its memory.",
    "disk": "Past the system's cache: a large file in its order, and pieces of 4 KiB anywhere, one (x1) or 16 at a time.",
    "loader": "How many photographs a second are decoded and scaled: a card that trains faster than that waits for them.",
}
_WORKLOADS = {
    "vision": "training vision",
    "transformer": "training transformers",
    "recurrent": "training recurrent nets",
    "decoding": "decoding text",
}
_BAR = 12
_NAME_NARROWEST = 16
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RATE, _RATIO = 15, 9
# Reasons for which many tests are left out at once: said once.
_REASONS = {
    "no-gpu": "no card that torch can use",
    "no-torch": "no torch in this Python",
    "no-numpy": "neither torch nor numpy in this Python",
    "no-pillow": "no Pillow in this Python",
    "unwritable": "the folder cannot be written to",
    "failed": "it failed",
    "out-of-memory": "memory did not suffice",
    "unsupported": "not supported here",
    "card-lost": "the card was lost",
    "no-space": "no room on the disk",
    "cache-cannot-be-avoided": "a cache would have been measured",
    "no-time": "no time was left",
    "budget": "no time was left",
    "not-installed": "not installed",
}


_REMEDIES = {
    "budget": " (--budget SECONDS gives more)",
    "no-torch": " (--python PATH names another)",
    "no-space": " (--folder names another disk)",
    "unwritable": " (--folder names another)",
    "cache-cannot-be-avoided": " (--folder names another disk)",
}


@contextlib.contextmanager
def following(what: str) -> Iterator[Callable[[Event], None]]:
    """Shows on stderr, where a person watches, which test is under way and what the last one gave."""
    progress = Console(file=sys.stderr)
    if not progress.is_terminal:
        yield lambda event: None
        return
    count, done = 0, 0
    with progress.status(f"{what} …", spinner="dots") as status:

        def heard(event: Event) -> None:
            nonlocal count, done
            if isinstance(event, Plan):
                count = len(event.tests)
            elif isinstance(event, Started):
                done += 1
                count = max(count, done)  # where memory did not suffice, a smaller test comes on top
                status.update(f"{done} of {count}  {event.name} … (Ctrl-C keeps what there is)")

        yield heard


def show_bench(
    report: BenchReport, out: Console, places: Iterable[Ranking] = (), references: Iterable[ReferenceRatios] = ()
) -> None:
    """Print a report, and how it compares."""
    _show_head(report, out)
    width = _name_width([measure.name for measure in report.results], out, _RATE + _BAR + 19)
    for group in sorted({measure.group for measure in report.results}, key=_order):
        _heading(out, _TITLES.get(group, group))
        if group in _MEANINGS:
            labelled(out, "", Text(_MEANINGS[group], style="dim"), width=0)
        _show_group([measure for measure in report.results if measure.group == group], width, out)
    cards = dict.fromkeys(measure.limit.card for measure in report.results if measure.limit and measure.limit.card)
    for card in cards:
        out.print()
        labelled(out, "", Text(f'Where the limits of the {card} are from: ownlab gpus "{card}"', style="dim"), width=0)
    _show_verdicts(report, out)
    if report.skipped:
        _heading(out, "Not measured")
        _show_skipped(report.skipped, out)
    places, references = tuple(places), tuple(references)
    if places or references:
        _heading(out, "How it compares")
        for place in places:
            labelled(out, _WORKLOADS.get(place.workload, place.workload), _standing(place), width=26)
        for beside in references:
            ratios = ", ".join(f"{mean.group} {mean.ratios[1]:.2f} ×" for mean in beside.means)
            said = f"{ratios} as fast as {beside.machine}" if ratios else "no whole test in common"
            labelled(out, f"against {beside.name}", said, width=26)


def show_reports(reports: ReportList, out: Console) -> None:
    """Print what `compare` and `show` can be given by name."""
    if not reports.reports:
        labelled(out, "", "No results yet. `ownlab bench` makes the first, and keeps it.", indent=0, width=0)
    width = max((len(each.name) for each in reports.reports), default=0) + 2
    for each in reports.reports:
        if each.trouble:
            labelled(out, each.name, Text(each.trouble, style="red"), width=width)
            continue
        origin = each.source or ("measured for ownlab" if each.reference else "yours")
        how = "" if each.complete else ", not complete"
        labelled(
            out, each.name, f"{each.machine}; {each.results} results{how}, {each.when[:10]}, {origin}", width=width
        )


def _show_head(report: BenchReport, out: Console) -> None:
    labelled(out, "", Text(_machine_line(report), style="bold"), indent=0, width=0)
    machine = report.machine
    host = [
        machine.cpu if machine.cards else "",
        f"{machine.cores:g} cores" if machine.cores else "",
        format_bytes(machine.memory_bytes) if machine.memory_bytes else "",
        f"driver {machine.driver}" if machine.driver else "",
        f"kernel {machine.kernel}" if machine.kernel else "",
    ]
    labelled(out, "", Text(", ".join(part for part in host if part), style="dim"), indent=0, width=0)
    took = f" in {format_seconds(report.seconds)}" if report.seconds else ""
    said = f"{len(report.results)} results{took}, profile {report.profile}, {report.when[:16].replace('T', ' ')} UTC"
    labelled(out, "", Text(said, style="dim"), indent=0, width=0)
    told = "Each is the median of its repetitions, ± half of its 95 % interval"
    if any(measure.confidence < CONFIDENCE for measure in report.results if measure.count > 1):
        told += " (~: half of the range, of too few for one)"
    if any(measure.share_of_peak is not None for measure in report.results):
        told += "; the share is that of what is possible"
    if report.results:
        labelled(out, "", Text(f"{told}.", style="dim"), indent=0, width=0)
    for note in report.notes:
        labelled(out, "", Text(note, style="yellow"), indent=0, width=0)
    if not report.complete:
        kept = "What had been measured is below." if report.results else "Nothing had been measured yet."
        words = f"Not complete: {report.trouble}. {kept}"
        labelled(out, "", Text(words, style="bold yellow"), indent=0, width=0)


def _machine_line(report: BenchReport) -> str:
    machine = report.machine
    names = [card.name for card in machine.cards]
    cards = ", ".join(
        f"{name} ×{names.count(name)}" if names.count(name) > 1 else name for name in dict.fromkeys(names)
    )
    numpy = f", numpy {machine.numpy}" if machine.numpy else ""
    torch = f"torch {machine.torch}" if machine.torch else f"no torch{numpy}"
    if machine.torch and machine.cuda and "+cu" not in machine.torch:
        torch += f" (CUDA {machine.cuda})"
    return f"{cards or machine.cpu or 'a machine'}, {torch}"


def _show_group(measures: list[Measure], width: int, out: Console) -> None:
    for measure in measures:
        line = Text(f"  {_shortened(measure.name, width).ljust(width)}")
        line.append(format_rate(measure.median, measure.unit).rjust(_RATE))
        line.append(f"  {_spread(measure):>7}", style="dim")
        line.append(_tail(measure), style="")
        if measure.share_of_peak is not None:
            style = {"low": "yellow", "above-limit": "red"}.get(measure.verdict, "green")
            line.append(f"  {_share(measure.share_of_peak)} ")
            line.append("" if measure.percentiles else _bar(measure.share_of_peak), style=style)
        line.rstrip()
        _print_whole(out, line)
    said = _limits(measures)
    if said:
        labelled(out, "", Text(f"of {said}", style="dim"), width=0)
    notes = dict.fromkeys(measure.note for measure in measures if measure.note)
    for note in notes:
        names = [measure.name for measure in measures if measure.note == note]
        which = "" if len(names) == len(measures) else f"{', '.join(names)}: "
        labelled(out, "", Text(f"{which}{note}", style="dim"), width=0)


def _limits(measures: list[Measure]) -> str:
    """ "989 TFLOP/s (bf16 peak, fp16 peak), 67 TFLOP/s (fp32 peak)"."""
    unit = "B/s" if measures[0].group in ("memory", "copies") else "FLOP/s"
    by: dict[str, list[str]] = {}
    for limit in dict.fromkeys(measure.limit for measure in measures if measure.limit is not None):
        by.setdefault(format_rate(limit.value, unit), []).append(limit.what)
    return ", ".join(f"{value} ({', '.join(dict.fromkeys(names))})" for value, names in by.items())


def _tail(measure: Measure) -> str:
    """The slowest that its repetitions can show, of a latency."""
    slowest = next((name for name in ("p99", "p90") if name in measure.percentiles), None)
    return "" if slowest is None else f"  {slowest} {format_seconds(measure.percentiles[slowest])}"


def _spread(measure: Measure) -> str:
    """Half of the interval, of the median."""
    if measure.count < 2:
        return "once"
    half = 100 * (measure.high - measure.low) / 2 / measure.median
    sign = "±" if measure.confidence >= CONFIDENCE else "~"
    return f"{sign} {half:.1f} %" if half < 10 else f"{sign} {half:.0f} %"


def _bar(share: float) -> str:
    return "█" * round(_BAR * min(1.0, share))


def _share(share: float) -> str:
    if share < 2:
        return f"{100 * share:3.0f} %"
    return f"{share:.3g} ×" if share < 100 else f"{share:,.0f} ×"


def _show_verdicts(report: BenchReport, out: Console) -> None:
    told = [measure for measure in report.results if measure.verdict in ("above-limit", "low")]
    if not told:
        return
    _heading(out, "What is not as it should be")
    for measure in told:
        style = "red" if measure.verdict == "above-limit" else "yellow"
        head = Text(f"{measure.name}: ", style=style)
        if measure.verdict == "low" and measure.share_of_peak is not None and measure.limit is not None:
            head.append(f"{100 * measure.share_of_peak:.0f} % of the {measure.limit.named}. It may be that ", style="")
        labelled(out, "", head + Text("; ".join(measure.why)), width=0)


def _show_skipped(skipped: Iterable[Skipped], out: Console) -> None:
    """By reason, in the reason's own words where all agree."""
    by: dict[str, list[Skipped]] = {}
    for each in skipped:
        by.setdefault(each.reason, []).append(each)
    for reason, several in by.items():
        words = {each.message for each in several if each.message}
        said = next(iter(words)) if len(words) == 1 else _REASONS.get(reason, reason)
        said += _REMEDIES.get(reason, "")
        names = [each.name for each in several]
        listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        labelled(out, "", Text(f"{said}: ").append(listed, style="dim"), width=0)


def _standing(place: Ranking) -> str:
    speed = place.speed
    span = f" ({speed.low:.2g} to {speed.high:.2g})" if speed.high > speed.low else ""
    return f"{speed.relative:.2f} × a V100{span}, {speed.kind}; place {place.rank} of {place.of}"


# --- several ----------------------------------------------------------------------------------------------------------


def show_comparison(comparison: Comparison, out: Console) -> None:
    """Print the first's figures, and ratios to them; of two, the second's figures too."""
    for letter, side in zip(_LETTERS, comparison.sides, strict=False):
        how = "" if side.complete else ", not complete"
        labelled(out, letter, f"{side.label}: {side.machine}, {side.when[:10]}{how}", indent=0, width=3)
    head = _columns(len(comparison.sides))
    width = _name_width([row.name for row in comparison.rows], out, len(head) + 4)
    out.print()
    _print_whole(out, Text(f"  {''.ljust(width)}{head}", style="dim"))
    for number, group in enumerate(dict.fromkeys(row.group for row in comparison.rows)):
        if number:
            out.print()
        _print_whole(out, Text(_TITLES.get(group, group), style="bold"))
        for row in comparison.rows:
            if row.group == group:
                _print_whole(out, _row(row, width))
        mean = next((mean for mean in comparison.means if mean.group == group), None)
        if mean is not None and mean.count > 1:
            before = "".rjust(_RATE * (2 if len(mean.ratios) == 2 else 1))
            ratios = "".join(f"{_times(ratio).rjust(_RATIO)}  " for ratio in mean.ratios[1:])
            label = f"geometric mean of {mean.count}".ljust(width)
            _print_whole(out, Text(f"  {label}{before}{ratios}".rstrip(), style="bold"))
    out.print()
    legend = (
        "× how many times as fast as A; = no difference seen, ~ a likely one, ? other sizes or no repetitions, "
        "! above its limit: a measuring error."
    )
    labelled(out, "", Text(f"{legend} {comparison.method}", style="dim"), indent=0, width=0)
    for letter, names in zip(_LETTERS, comparison.only, strict=False):
        if names:
            labelled(out, "", Text(f"Only in {letter}: {', '.join(names)}", style="dim"), indent=0, width=0)


def _columns(sides: int) -> str:
    if sides == 2:
        return "A".rjust(_RATE) + "B".rjust(_RATE) + "B to A".rjust(_RATIO)
    return "A".rjust(_RATE) + "".join(f"{letter}  ".rjust(_RATIO + 2) for letter in _LETTERS[1:sides]).rstrip()


def _row(row: Row, width: int) -> Text:
    line = Text(f"  {_shortened(row.name, width).ljust(width)}")
    for number, cell in enumerate(row.cells):
        if number == 0 or len(row.cells) == 2:
            line.append(("–" if cell is None else format_rate(cell.median, row.unit)).rjust(_RATE))
        if number:
            line.append(("–" if cell is None else _times(cell.ratio)).rjust(_RATIO), style=_style(cell))
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


def _times(ratio: float) -> str:
    return f"{ratio:.3g} ×" if ratio >= 10 or ratio < 0.1 else f"{ratio:.2f} ×"


def _order(group: str) -> int:
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)


def _name_width(names: list[str], out: Console, beside: int) -> int:
    """As wide as the longest, as long as what stands beside it has its room."""
    return max(_NAME_NARROWEST, min(max(map(len, names), default=0), out.width - beside))


def _shortened(name: str, width: int) -> str:
    """Its beginning and its end: there stand what was done, and how great it was."""
    if len(name) <= width:
        return name
    end = width // 3
    return f"{name[: width - end - 1]}…{name[-end:]}"


def _print_whole(out: Console, line: Text) -> None:
    out.print(line, no_wrap=True, overflow="ignore", crop=False)


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))

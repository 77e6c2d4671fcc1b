"""The terminal table of `ownlab top --once`: cards with their verdicts, processes and host, as plain lines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ownlab.instruments.top.formatting import (
    MEASURES,
    ProcessRow,
    card_name,
    format_host_memory,
    format_host_rates,
    format_host_state,
    format_percent,
    process_rows,
    sort_rows,
)
from ownlab.instruments.top.records import CardSample, HostSample, TopReading, Verdict
from ownlab.render.console import labelled
from ownlab.render.wide_text import align_left, align_right, cell_width, shorten
from ownlab.text import facts, sentences, text

__all__ = ["show_reading"]

_NAME_WIDTH_IN_A_PIPE = 32
# The columns of the table of cards: title and width. The name gets the rest of the line.
_CARD_COLUMNS = (
    (text("busy"), 5),
    (text("SM"), 5),
    (text("tensor"), 6),
    (text("DRAM"), 5),
    (text("VRAM"), 15),
    (text("power"), 9),
    ("", 5),
)
_PROCESS_COLUMNS = (
    (text("PID"), 8),
    (text("card"), 5),
    (text("GPU mem"), 9),
    (text("GPU"), 5),
    (text("CPU"), 6),
    (text("RAM"), 9),
)


def show_reading(reading: TopReading, out: Console) -> None:
    """Print a sample and its verdicts."""
    sample = reading.sample
    if sample.cards:
        _show_cards(sample.cards, reading.verdicts, out)
    else:
        message = (
            text("No GPU to watch: {reason}.", reason=sample.trouble)
            if sample.trouble
            else text("No GPU to watch: NVML finds none on this machine.")
        )
        labelled(out, "", Text(message, style="bold"), indent=0, width=0)
    gone = [verdict for verdict in reading.verdicts if all(verdict.card != card.uuid for card in sample.cards)]
    for verdict in gone:
        labelled(out, "", f"{verdict.card}: {sentences(verdict.sentence, verdict.advice)}", indent=0, width=0)
    rows = sort_rows(process_rows(sample))
    if rows:
        out.print()
        _show_processes(rows, out)
    out.print()
    labelled(out, text("host"), _format_host(sample.host), indent=0, width=6)
    seconds = max((verdict.seconds for verdict in reading.verdicts), default=0.0)
    if seconds >= 1:
        note = text("verdicts over {seconds} s", seconds=f"{seconds:.{seconds < 10:d}f}")
    else:
        note = text("verdicts over {seconds:.1f} s; use --interval SECONDS for longer", seconds=seconds)
    if seconds:
        labelled(out, "", Text(note, style="dim"), indent=0, width=0)


def _show_cards(cards: Sequence[CardSample], verdicts: Sequence[Verdict], out: Console) -> None:
    room = (out.width if out.width < 1000 else 0) - sum(width + 2 for _, width in _CARD_COLUMNS)
    room = max(room, 12) if out.width < 1000 else _NAME_WIDTH_IN_A_PIPE
    verdict_by_card = {verdict.card: verdict for verdict in verdicts}
    _print_line(out, Text(align_left(text("card"), room) + _align([title for title, _ in _CARD_COLUMNS]), style="dim"))
    for card in cards:
        temperature = "" if card.temperature is None else f"{card.temperature:.0f} °C"
        cells = [*(measure.cell(card) for measure in MEASURES), temperature]
        name = shorten(card_name(card, short=room < _NAME_WIDTH_IN_A_PIPE), room)
        _print_line(out, Text(align_left(name, room), style="bold").append(_align(cells), style="not bold"))
        verdict = verdict_by_card.get(card.uuid)
        if verdict is not None:
            labelled(out, "", sentences(verdict.sentence, verdict.advice), indent=2, width=0)
        if card.saturation is None and card.no_saturation:
            note = text("saturation unknown: {reason}", reason=card.no_saturation)
            labelled(out, "", Text(note, style="dim"), indent=2, width=0)


def _align(cells: Sequence[str]) -> str:
    return "".join(f"  {align_right(cell, width)}" for cell, (_, width) in zip(cells, _CARD_COLUMNS, strict=True))


def _show_processes(rows: Sequence[ProcessRow], out: Console) -> None:
    head = " ".join(align_right(title, width) for title, width in _PROCESS_COLUMNS)
    _print_line(out, Text(f"{head}  {text('owner, command')}", style="dim"))
    for row in rows:
        figures = " ".join(
            align_right(cell, width) for cell, (_, width) in zip(row.cells, _PROCESS_COLUMNS, strict=True)
        )
        names = "  ".join(part for part in (row.owner, row.command) if part)
        _print_line(out, Text(f"{figures}  {shorten(names, max(12, out.width - cell_width(figures) - 2))}"))


def _format_host(host: HostSample) -> str:
    memory = format_host_memory(host)
    known = facts(
        _format_cpu(host),
        text("RAM {usage}", usage=memory) if memory else "",
        format_host_state(host),
        format_host_rates(host),
    )
    return known or text("unknown")


def _format_cpu(host: HostSample) -> str:
    if host.cpu is None:
        return ""
    share = format_percent(host.cpu)
    if host.cores is None:
        return text("CPU {share}", share=share)
    return text("CPU {share} of {cores} cores", share=share, cores=host.cores)


def _print_line(out: Console, line: Text) -> None:
    line.rstrip()
    out.print(line, no_wrap=True, overflow="ignore", crop=False)

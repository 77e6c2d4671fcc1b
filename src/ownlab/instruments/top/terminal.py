"""`ownlab top --once`: cards, what is said of them, processes and host, as lines that a pipe can take."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ownlab.instruments.top.formatting import (
    MEASURES,
    Row,
    card_name,
    host_words,
    memory_words,
    percent,
    process_rows,
    sorted_rows,
)
from ownlab.instruments.top.records import CardSample, HostSample, Look, Verdict
from ownlab.render.console import labelled

__all__ = ["show_look"]

_NAME_IN_A_PIPE = 32
# Of the table of cards: title and width; what is left of the line is the name's.
_CARD_COLUMNS = (("busy", 5), ("SM", 5), ("tensor", 6), ("DRAM", 5), ("memory", 15), ("power", 9), ("", 5))
_PROCESS_COLUMNS = (("PID", 8), ("card", 5), ("GPU mem", 9), ("GPU", 5), ("CPU", 6), ("RAM", 9))


def show_look(look: Look, out: Console) -> None:
    """Everything that is known at this moment."""
    sample = look.sample
    if sample.cards:
        _show_cards(sample.cards, look.verdicts, out)
    else:
        why = sample.trouble or "this machine has none that NVML knows"
        labelled(out, "", Text(f"No GPU to watch: {why}", style="bold"), indent=0, width=0)
    gone = [each for each in look.verdicts if all(each.card != card.uuid for card in sample.cards)]
    for verdict in gone:
        labelled(out, "", f"{verdict.card}: {_said(verdict)}", indent=0, width=0)
    rows = sorted_rows(process_rows(sample))
    if rows:
        out.print()
        _show_processes(rows, out)
    out.print()
    labelled(out, "host", _host(sample.host), indent=0, width=6)
    seconds = max((verdict.seconds for verdict in look.verdicts), default=0.0)
    if seconds:
        hint = "" if seconds >= 1 else "; --interval SECONDS looks longer"
        labelled(out, "", Text(f"verdicts over {seconds:.{seconds < 10:d}f} s{hint}", style="dim"), indent=0, width=0)


def _show_cards(cards: Sequence[CardSample], verdicts: Sequence[Verdict], out: Console) -> None:
    room = (out.width if out.width < 1000 else 0) - sum(width + 2 for _, width in _CARD_COLUMNS)
    room = max(room, 12) if out.width < 1000 else _NAME_IN_A_PIPE
    said = {verdict.card: verdict for verdict in verdicts}
    _line(out, Text("card".ljust(room) + _cells([title for title, _ in _CARD_COLUMNS]), style="dim"))
    for card in cards:
        warmth = "" if card.temperature is None else f"{card.temperature:.0f} °C"
        cells = [_tight(measure.words(card)) for measure in MEASURES]
        line = Text(_fitted(card_name(card, short=room < _NAME_IN_A_PIPE), room).ljust(room), style="bold")
        _line(out, line.append(_cells([*cells, warmth]), style="not bold"))
        if card.uuid in said:
            labelled(out, "", _said(said[card.uuid]), indent=2, width=0)
        if card.saturation is None and card.no_saturation:
            labelled(out, "", Text(f"saturation not known: {card.no_saturation}", style="dim"), indent=2, width=0)


def _tight(words: str) -> str:
    """ "12.3 GiB of 141 GiB" -> "12.3/141 GiB"."""
    used, _, total = words.rpartition(" of ")
    if not used:
        return words
    return f"{used.removesuffix(total.lstrip('.0123456789'))}/{total}"


def _said(verdict: Verdict) -> str:
    return " ".join(part for part in (verdict.sentence, verdict.advice) if part)


def _cells(cells: Sequence[str]) -> str:
    return "".join(f"  {cell.rjust(width)}" for cell, (_, width) in zip(cells, _CARD_COLUMNS, strict=True))


def _show_processes(rows: Sequence[Row], out: Console) -> None:
    head = " ".join(title.rjust(width) for title, width in _PROCESS_COLUMNS)
    _line(out, Text(f"{head}  whose, command", style="dim"))
    for row in rows:
        figures = " ".join(cell.rjust(width) for cell, (_, width) in zip(row.cells, _PROCESS_COLUMNS, strict=True))
        words = "  ".join(part for part in (row.whose, row.command) if part)
        _line(out, Text(f"{figures}  {_fitted(words, max(12, out.width - len(figures) - 2))}"))


def _host(host: HostSample) -> str:
    cores = "" if host.cores is None else f" of {host.cores} cores"
    processor = "" if host.cpu is None else f"CPU {percent(host.cpu)}{cores}"
    memory = memory_words(host)
    parts = (processor, f"RAM {memory}" if memory else "", *host_words(host))
    return ", ".join(part for part in parts if part) or "not known"


def _line(out: Console, text: Text) -> None:
    text.rstrip()
    out.print(text, no_wrap=True, overflow="ignore", crop=False)


def _fitted(name: str, room: int) -> str:
    return name if len(name) <= room else f"{name[: room - 1]}…"

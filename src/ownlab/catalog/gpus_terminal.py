"""`ownlab gpus` in the terminal: the table, one card in full, the ladder."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.catalog.card_speeds import WORKLOADS, Speed, price_of, speed_of
from ownlab.catalog.cards import FIGURES, Card, Figure, FigureName, Unstated, load_sources
from ownlab.catalog.ladder import WORK, Ladder, Order, Rung
from ownlab.render.console import labelled

__all__ = ["show_card", "show_cards", "show_ladder"]

_SCORES: dict[Order, str] = {
    "speed": "beside a V100 SXM2 (= 1)",
    "price": "for 1000 USD of its price, beside a V100 SXM2 (= 1)",
    "watt": "for 100 W of its limit, beside a V100 SXM2 (= 1)",
}
_COLUMNS: tuple[tuple[FigureName, str, int], ...] = (
    ("memory_gb", "GB", 5),
    ("bandwidth_gb_s", "GB/s", 6),
    ("fp32_tflops", "fp32", 6),
    ("fp16_tflops", "fp16", 6),
    ("bf16_tflops", "bf16", 6),
    ("power_w", "W", 6),
    ("launch_usd", "USD", 6),
)
_NAMES: dict[FigureName, tuple[str, str]] = {
    "memory_gb": ("memory", "GB"),
    "memory_gib": ("for programs", "GiB"),
    "bandwidth_gb_s": ("bandwidth", "GB/s"),
    "fp64_tflops": ("fp64", "TFLOP/s"),
    "fp32_tflops": ("fp32", "TFLOP/s"),
    "tf32_tflops": ("tf32 tensor", "TFLOP/s"),
    "fp16_tflops": ("fp16 tensor", "TFLOP/s"),
    "bf16_tflops": ("bf16 tensor", "TFLOP/s"),
    "fp8_tflops": ("fp8 tensor", "TFLOP/s"),
    "int8_tops": ("int8 tensor", "TOP/s"),
    "power_w": ("power limit", "W"),
    "launch_usd": ("list price", "USD"),
}
_LABEL = 14
_YEAR = 4
_SIGNS = {"measured": "●", "computed": "○"}
_BAR = 20
_BESIDE_BAR = 29  # mark, memory, score, sign and span
_FEW = 4
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def show_cards(cards: tuple[Card, ...], out: Console) -> None:
    """The table of all."""
    width = max(len(card.name) for card in cards) + 1
    columns = _columns(out.width - width - _YEAR)
    head = "".join(title.rjust(size) for _, title, size in columns)
    _print(out, Text(f"{''.ljust(width)}year{head}", style="bold"))
    for card in cards:
        line = Text(card.name.ljust(width) + str(card.year or "").rjust(_YEAR))
        for name, _, size in columns:
            line.append(_cell(card, name).rjust(size), style="" if card.value(name) is not None else "dim")
        _print(out, line)
    out.print()
    unknown = sum(not card.lacks(name) and card.value(name) is None for card in cards for name in FIGURES)
    known = sum(len(card.known()) for card in cards)
    for note in (
        "fp16 and bf16: TFLOP/s of tensor cores, dense, sums in fp32, as frameworks use them; – has no such units.",
        f"{known} figures of {len(cards)} cards, each with its source: ownlab gpus NAME. {unknown} are not known (?).",
    ):
        labelled(out, "", Text(note, style="dim"), indent=0, width=0)


def _columns(room: int) -> list[tuple[FigureName, str, int]]:
    """As many as a line has room for: in a narrow terminal a table that is cut into halves is none."""
    found = list(_COLUMNS)
    while len(found) > 1 and sum(size for _, _, size in found) > room:
        found.pop()
    return found


def show_card(card: Card, out: Console) -> None:
    """All that is known of one, and from where."""
    kind = [card.vendor, card.architecture, str(card.year or "")]
    kind += [f"compute capability {card.capability}" if card.capability[:1].isdigit() else card.capability]
    out.print(Text(card.name, style="bold"))
    labelled(out, "", Text(", ".join(word for word in kind if word), style="dim"), indent=0, width=0)
    if card.devices > 1:
        labelled(out, "", f"One board shows as {card.devices} devices; figures are of one.", indent=0, width=0)
    sources = list(dict.fromkeys(each.source for name in FIGURES if isinstance(each := card.figure(name), Figure)))
    for name in FIGURES:
        _show_figure(name, card.figure(name), sources, out)
    price = price_of(card)
    if isinstance(price, Figure) and isinstance(card.launch_usd, Unstated):
        labelled(out, "asked once", f"{price.value:,.0f} USD, by Lambda (2022 to 2025)", width=_LABEL)
    _heading(out, f"How fast, {_SCORES['speed']}")
    for workload in WORKLOADS:
        labelled(out, workload, _speed(speed_of(card, workload)), width=_LABEL)
    if card.notes:
        _heading(out, "To know")
        for note in card.notes:
            labelled(out, "", note, width=0)
    if sources:
        _heading(out, "Sources")
    for number, key in enumerate(sources, 1):
        source = load_sources()[key]
        labelled(out, f"[{number}]", f"{source.title}; {source.address}", width=5)


def show_ladder(ladder: Ladder, out: Console) -> None:
    """The ladder, best first."""
    labelled(out, "", Text(f"{WORK[ladder.workload]}: speed {_SCORES[ladder.by]}", style="bold"), indent=0, width=0)
    signs = "● measured   ○ computed, with the span in which it may lie"
    own = any(rung.own for rung in ladder.rungs)
    labelled(out, "", Text(signs + ("   ▶ this machine's" if own else ""), style="dim"), indent=0, width=0)
    out.print()
    width = max(len(rung.card) for rung in ladder.rungs) + 1
    best = ladder.rungs[0].score
    bar = max(0, min(_BAR, out.width - width - _BESIDE_BAR))
    for rung in ladder.rungs:
        _print(out, _rung(rung, width, best, bar))
    out.print()
    for note in _own_notes(ladder):
        labelled(out, "", note, indent=0, width=0)
    if ladder.left_out:
        labelled(out, "", Text(_left_out(ladder), style="dim"), indent=0, width=0)
    if ladder.by == "price":
        text = "Prices are those of the launch, or what Lambda asked (2022 to 2025): shops keep to neither."
        labelled(out, "", Text(text, style="dim"), indent=0, width=0)
    for source in dict.fromkeys(rung.speed.source for rung in ladder.rungs):
        labelled(out, "", Text(f"Measured: {ladder.sources[source].title}", style="dim"), indent=0, width=0)


def _left_out(ladder: Ladder) -> str:
    """Few of them with their reasons; of many the names of some."""
    if len(ladder.left_out) <= _FEW:
        return "Left out: " + "; ".join(f"{each.card} ({each.reason})" for each in ladder.left_out) + "."
    names = ", ".join(each.card for each in ladder.left_out[:_FEW])
    what = {"speed": "rates", "price": "price or rates", "watt": "power limit or rates"}[ladder.by]
    return (
        f"Left out, since too little of their {what} is known: {names} and {len(ladder.left_out) - _FEW} more (--json)."
    )


def _own_notes(ladder: Ladder) -> list[str]:
    """Cards that are here, and not on the ladder: why."""
    reasons = {each.card: each.reason for each in ladder.left_out}
    told = [f"This machine's {name} is not on it: {reasons[name]}." for name in ladder.own if name in reasons]
    told += [f"This machine's {name} is not on it: it is not in the catalogue." for name in ladder.own_unknown]
    return told


def _cell(card: Card, name: FigureName) -> str:
    value = card.value(name)
    if value is None:
        return "–" if card.lacks(name) else "?"
    return f"{value:.0f}" if value >= 100 or name == "power_w" else f"{value:.3g}"


def _show_figure(name: FigureName, figure: Figure | Unstated, sources: list[str], out: Console) -> None:
    label, unit = _NAMES[name]
    if isinstance(figure, Unstated):
        labelled(out, label, Text(figure.reason, style="dim"), width=_LABEL)
        return
    number = f"{figure.value:,.0f}" if figure.value >= 1000 else f"{figure.value:.4g}"
    line = Text(f"{number} {unit}".ljust(16))
    line.append(f"[{sources.index(figure.source) + 1}] {figure.as_of}", style="dim")
    labelled(out, label, line, width=_LABEL)


def _speed(speed: Speed | Unstated) -> Text:
    if isinstance(speed, Unstated):
        return Text(speed.reason, style="dim")
    line = Text(f"{_number(speed.relative)}".ljust(6))
    line.append(f"({_number(speed.low)} to {_number(speed.high)}) ", style="dim")
    return line.append(f"{speed.kind}: {speed.why}", style="dim")


def _rung(rung: Rung, width: int, best: float, bar: int) -> Text:
    """Mark, name, memory, bar (as long as there is room), score; where it is computed, the span."""
    style = "bold green" if rung.own else ""
    line = Text(("▶ " if rung.own else "  ") + rung.card.ljust(width), style=style)
    memory = f"{rung.memory_gb.value:.0f} GB" if isinstance(rung.memory_gb, Figure) else ""
    line.append(memory.rjust(6) + " ", style="dim")
    measured = rung.speed.kind == "measured"
    line.append(
        _bar(rung.score / best, bar).ljust(bar + 1) if bar else "", style=style or ("blue" if measured else "cyan")
    )
    line.append(f"{_number(rung.score).rjust(5)} {_SIGNS[rung.speed.kind]}", style=style)
    if not measured and bar:  # where there is no room for a bar, there is none for the span
        scale = rung.score / rung.speed.relative
        line.append(f" {_number(rung.speed.low * scale)}–{_number(rung.speed.high * scale)}", style="dim")
    line.rstrip()
    return line


def _bar(share: float, longest: int) -> str:
    eighths = max(1, round(share * longest * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))


def _print(out: Console, line: Text) -> None:
    out.print(line, no_wrap=True, overflow="ignore", crop=False)

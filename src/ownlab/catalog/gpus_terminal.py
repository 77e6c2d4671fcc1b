"""`ownlab gpus` in the terminal: the table of cards, one card in full, and the ladder."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.catalog.card_speeds import WORKLOADS, Speed, price_of, speed_of
from ownlab.catalog.cards import FIGURES, Card, Figure, FigureName, Unstated, load_sources
from ownlab.catalog.gpu_ladder import WORKLOAD_NAMES, WORKLOAD_TITLES, Ladder, Order, Rung
from ownlab.render.console import labelled
from ownlab.render.wide_text import align_left, align_right, cell_width
from ownlab.text import Template, facts, listing, template, text

__all__ = ["show_card", "show_cards", "show_ladder"]

_LADDER_TITLES: dict[Order, Template] = {
    "speed": template("{work}: speed relative to a V100 SXM2 (= 1)"),
    "price": template("{work}: speed per 1000 USD, relative to a V100 SXM2 (= 1)"),
    "watt": template("{work}: speed per 100 W, relative to a V100 SXM2 (= 1)"),
}
_MANY_LEFT_OUT: dict[Order, Template] = {
    "speed": template("Not ranked, because their rates are unknown: {cards} and {more} more (--json)."),
    "price": template("Not ranked, because their price or rates are unknown: {cards} and {more} more (--json)."),
    "watt": template("Not ranked, because their power limit or rates are unknown: {cards} and {more} more (--json)."),
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
    "memory_gb": (text("memory"), "GB"),
    "memory_gib": (text("usable"), "GiB"),
    "bandwidth_gb_s": (text("bandwidth"), "GB/s"),
    "fp64_tflops": ("fp64", "TFLOP/s"),
    "fp32_tflops": ("fp32", "TFLOP/s"),
    "tf32_tflops": ("tf32 tensor", "TFLOP/s"),
    "fp16_tflops": ("fp16 tensor", "TFLOP/s"),
    "bf16_tflops": ("bf16 tensor", "TFLOP/s"),
    "fp8_tflops": ("fp8 tensor", "TFLOP/s"),
    "int8_tops": ("int8 tensor", "TOP/s"),
    "nvlink_gb_s": ("NVLink", "GB/s"),
    "power_w": (text("power limit"), "W"),
    "launch_usd": (text("list price"), "USD"),
}
_LABEL_WIDTH = 14
_YEAR_WIDTH = 4
_SIGNS = {"measured": "●", "computed": "○"}
_BAR_WIDTH = 20
_OTHER_COLUMNS = 29  # the width of mark, memory, score, sign and range
_MAX_LEFT_OUT = 4
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def show_cards(cards: tuple[Card, ...], out: Console) -> None:
    """Print the table of cards."""
    width = max(cell_width(card.name) for card in cards) + 1
    columns = _columns(out.width - width - _YEAR_WIDTH)
    head = "".join(align_right(title, size) for _, title, size in columns)
    _print(out, Text(f"{''.ljust(width)}{align_right(text('year'), _YEAR_WIDTH)}{head}", style="bold"))
    for card in cards:
        line = Text(align_left(card.name, width) + align_right(str(card.year or ""), _YEAR_WIDTH))
        for name, _, size in columns:
            line.append(align_right(_cell(card, name), size), style="" if card.value(name) is not None else "dim")
        _print(out, line)
    out.print()
    unknown = sum(not card.lacks(name) and card.value(name) is None for card in cards for name in FIGURES)
    known = sum(len(card.known()) for card in cards)
    for note in (
        text(
            "fp16, bf16: dense TFLOP/s of tensor cores with fp32 accumulation, as frameworks use them; –: no such units."
        ),
        text(
            "{known} figures of {cards} cards, each with its source: ownlab gpus NAME. {unknown} are unknown (?).",
            known=known,
            cards=len(cards),
            unknown=unknown,
        ),
    ):
        labelled(out, "", Text(note, style="dim"), indent=0, width=0)


def _columns(room: int) -> list[tuple[FigureName, str, int]]:
    """Return as many columns as fit into a line."""
    columns = list(_COLUMNS)
    while len(columns) > 1 and sum(size for _, _, size in columns) > room:
        columns.pop()
    return columns


def show_card(card: Card, out: Console) -> None:
    """Print everything known about one card, with the sources."""
    kind: list[str] = [card.vendor, card.architecture, str(card.year or "")]
    if card.capability[:1].isdigit():
        kind.append(text("compute capability {capability}", capability=card.capability))
    else:
        kind.append(card.capability)
    out.print(Text(card.name, style="bold"))
    labelled(out, "", Text(facts(*kind), style="dim"), indent=0, width=0)
    if card.devices > 1:
        labelled(
            out,
            "",
            text("One board shows as {devices} devices; the figures describe one.", devices=card.devices),
            indent=0,
            width=0,
        )
    sources = list(dict.fromkeys(each.source for name in FIGURES if isinstance(each := card.figure(name), Figure)))
    for name in FIGURES:
        _show_figure(name, card.figure(name), sources, out)
    price = price_of(card)
    if isinstance(price, Figure) and isinstance(card.launch_usd, Unstated):
        asked = text("{price:,.0f} USD, asked by Lambda (2022 to 2025)", price=price.value)
        labelled(out, text("price"), asked, width=_LABEL_WIDTH)
    _heading(out, text("Speed relative to a V100 SXM2 (= 1)"))
    for workload in WORKLOADS:
        labelled(out, WORKLOAD_NAMES[workload], _speed(speed_of(card, workload)), width=_LABEL_WIDTH)
    if card.notes:
        _heading(out, text("Notes"))
        for note in card.notes:
            labelled(out, "", note, width=0)
    if sources:
        _heading(out, text("Sources"))
    for number, key in enumerate(sources, 1):
        source = load_sources()[key]
        labelled(out, f"[{number}]", f"{source.title}; {source.address}", width=5)


def show_ladder(ladder: Ladder, out: Console) -> None:
    """Print the ladder, best first."""
    title = _LADDER_TITLES[ladder.by].fill(work=WORKLOAD_TITLES[ladder.workload])
    labelled(out, "", Text(title, style="bold"), indent=0, width=0)
    if ladder.count > 1:
        several = text(
            "{count} of each card in one machine, training data-parallel: published results", count=ladder.count
        )
        labelled(out, "", Text(several, style="bold"), indent=0, width=0)
    if any(rung.own for rung in ladder.rungs):
        signs = text("● measured   ○ computed   ▶ in this machine")
    else:
        signs = text("● measured   ○ computed")
    labelled(out, "", Text(signs, style="dim"), indent=0, width=0)
    order = text("Ranked by what each reaches at least, the lower end of its range.")
    labelled(out, "", Text(order, style="dim"), indent=0, width=0)
    out.print()
    width = max(cell_width(rung.card) for rung in ladder.rungs) + 1
    best = max(rung.score for rung in ladder.rungs)
    bar = max(0, min(_BAR_WIDTH, out.width - width - _OTHER_COLUMNS))
    sized = out.width >= width + _OTHER_COLUMNS  # in a narrow terminal the range matters more than the memory
    for rung in ladder.rungs:
        _print(out, _rung(rung, width, best, bar, sized=sized))
    out.print()
    for note in _own_notes(ladder):
        labelled(out, "", note, indent=0, width=0)
    if ladder.left_out:
        labelled(out, "", Text(_left_out(ladder), style="dim"), indent=0, width=0)
    if ladder.by == "price":
        note = text("Prices are launch prices, or what Lambda asked (2022 to 2025). Prices in shops differ.")
        labelled(out, "", Text(note, style="dim"), indent=0, width=0)
    for source in dict.fromkeys(rung.speed.source for rung in ladder.rungs):
        labelled(
            out, "", Text(text("Measured: {title}", title=ladder.sources[source].title), style="dim"), indent=0, width=0
        )


def _left_out(ladder: Ladder) -> str:
    """List a few cards with their reasons; of many, the names of some."""
    if len(ladder.left_out) <= _MAX_LEFT_OUT:
        cards = [text("{card} ({reason})", card=each.card, reason=each.reason) for each in ladder.left_out]
        return text("Not ranked: {cards}.", cards=facts(*cards, separator="; "))
    if ladder.count > 1:
        return text(
            "Not ranked: {cards} cards without a published result for {count} of them (--json).",
            cards=len(ladder.left_out),
            count=ladder.count,
        )
    names = [each.card for each in ladder.left_out[:_MAX_LEFT_OUT]]
    more = len(ladder.left_out) - _MAX_LEFT_OUT
    return _MANY_LEFT_OUT[ladder.by].fill(cards=listing(names, "{items}, {last}"), more=more)


def _own_notes(ladder: Ladder) -> list[str]:
    """Explain why cards of this machine are not on the ladder."""
    reasons = {each.card: each.reason for each in ladder.left_out}
    notes: list[str] = [
        text("This machine's {card} is not ranked: {reason}.", card=name, reason=reasons[name])
        for name in ladder.own
        if name in reasons
    ]
    notes += [
        text("This machine's {card} is not ranked: it is not in the catalog.", card=name) for name in ladder.own_unknown
    ]
    return notes


def _cell(card: Card, name: FigureName) -> str:
    value = card.value(name)
    if value is None:
        return "–" if card.lacks(name) else "?"
    return f"{value:.0f}" if value >= 100 or name == "power_w" else f"{value:.3g}"


def _show_figure(name: FigureName, figure: Figure | Unstated, sources: list[str], out: Console) -> None:
    label, unit = _NAMES[name]
    if isinstance(figure, Unstated):
        labelled(out, label, Text(figure.reason, style="dim"), width=_LABEL_WIDTH)
        return
    number = f"{figure.value:,.0f}" if figure.value >= 1000 else f"{figure.value:.4g}"
    line = Text(align_left(f"{number} {unit}", 16))
    line.append(f"[{sources.index(figure.source) + 1}] {figure.as_of}", style="dim")
    labelled(out, label, line, width=_LABEL_WIDTH)


def _speed(speed: Speed | Unstated) -> Text:
    if isinstance(speed, Unstated):
        return Text(speed.reason, style="dim")
    line = Text(align_left(f"{_number(speed.relative)}", 6))
    line.append(text("({low} to {high})", low=_number(speed.low), high=_number(speed.high)), style="dim")
    return line.append(
        f" {speed.why}" if speed.kind == "computed" else f" {text('measured: {source}', source=speed.why)}", style="dim"
    )


def _rung(rung: Rung, width: int, best: float, bar: int, *, sized: bool) -> Text:
    """Return a row: mark, name, memory, bar where there is room, score, and the range by which it is ranked."""
    style = "bold green" if rung.own else ""
    line = Text(("▶ " if rung.own else "  ") + align_left(rung.card, width), style=style)
    memory = f"{rung.memory_gb.value:.0f} GB" if isinstance(rung.memory_gb, Figure) else ""
    line.append(align_right(memory, 6) + " " if sized else "", style="dim")
    measured = rung.speed.kind == "measured"
    line.append(
        align_left(_bar(rung.score / best, bar), bar + 1) if bar else "",
        style=style or ("blue" if measured else "cyan"),
    )
    line.append(f"{align_right(_number(rung.score), 5)} {_SIGNS[rung.speed.kind]}", style=style)
    line.append(f" {_number(rung.least)}–{_number(rung.most)}", style="dim")
    line.rstrip()
    return line


def _bar(share: float, longest: int) -> str:
    eighths = max(1, round(share * longest * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _heading(out: Console, title: str) -> None:
    out.print()
    out.print(Text(title, style="bold"))


def _print(out: Console, line: Text) -> None:
    out.print(line, no_wrap=True, overflow="ignore", crop=False)

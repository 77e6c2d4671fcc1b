"""`ownlab gpus advise` and `ownlab clouds cost` in the terminal: what is recommended first, then all of it, then what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ownlab.catalog.cards import Figure
from ownlab.instruments.advise.formatting import (
    count_words,
    days_words,
    hours_words,
    money_words,
)
from ownlab.instruments.advise.records import Advice, CardAdvice, Pick, Question, Stay
from ownlab.render.console import labelled
from ownlab.units import format_bytes, format_price

__all__ = ["show_advice", "show_cost"]

_LABEL = 10
_KINDS = {"free": "free", "cheapest": "cheapest", "fastest": "fastest", "buy": "to buy"}
_FITS = {"yes": ("fits", "green"), "tight": ("tight", "yellow"), "no": ("too small", "red"), "unknown": ("?", "dim")}
# Rows that are shown; --all shows the rest.
_CARDS = 14
_STAYS = 16


def show_advice(advice: Advice, out: Console, *, everything: bool = False) -> None:
    """Print which card."""
    _show_question(advice.question, out)
    _show_picks(advice, out, buying=True)
    _show_cards(advice, out, everything)
    _show_assumptions(advice, out)


def show_cost(advice: Advice, out: Console, *, everything: bool = False) -> None:
    """Print which platform."""
    _show_question(advice.question, out)
    _show_picks(advice, out)
    _show_stays(advice, out, everything)
    _show_left_out(advice, out)
    _show_assumptions(advice, out)


def _show_question(question: Question, out: Console) -> None:
    parts = [f"{question.workload} work" if question.workload_told else "work"]
    if question.precision:
        parts.append(question.precision)
    if question.memory_bytes is not None and question.memory_least_bytes != 0:
        parts.append(f"{format_bytes(question.memory_bytes)} of a card")
    if question.basis is not None:
        parts.append(f"{hours_words(question.basis.hours)} on the {question.basis.card}")
    if question.hours_per_day is not None:
        parts.append(f"{question.hours_per_day:g} hours a day")
    if question.budget_usd is not None:
        parts.append(f"at most {format_price(question.budget_usd)}")
    labelled(out, "", Text(f"{parts[0][0].upper()}{', '.join(parts)[1:]}", style="bold"), indent=0, width=0)


def _show_picks(advice: Advice, out: Console, *, buying: bool = False) -> None:
    out.print()
    told: list[Pick] = []
    for pick in advice.picks:
        same = next((one for one in told if one.why == pick.why and one.card == pick.card), None)
        text = _pick(pick) if same is None else Text(f"the same: {pick.platform} {pick.offer}, {pick.card}")
        labelled(out, _KINDS[pick.kind], text, width=_LABEL)
        told.append(pick)
    budget = advice.question.budget_usd
    if buying and budget is not None and not any(pick.kind == "buy" for pick in advice.picks):
        none = f"no card that holds it and whose price is known cost {format_price(budget)} or less"
        labelled(out, _KINDS["buy"], none, width=_LABEL)
    if not advice.picks:
        labelled(out, "", Text(_nothing(advice), style="yellow"), width=0)


def _pick(pick: Pick) -> Text:
    where = f"{pick.platform} {pick.offer}, {pick.card}" if pick.platform else pick.card
    return Text.assemble((where, "bold"), f": {pick.why}")


def _nothing(advice: Advice) -> str:
    question = advice.question
    if question.memory_bytes is not None and not any(card.usable for card in advice.cards):
        if any(card.fits == "tight" for card in advice.cards):
            return "No card is sure to hold it. ownlab fit … --remedies says what makes it need less."
        return "No card here holds it: several cards, or a model that needs less (ownlab fit … --remedies)."
    if question.budget_usd is not None:
        return f"Nothing here does it for {format_price(question.budget_usd)}."
    return "No offer is known for it."


# -- cards ---------------------------------------------------------------------------------------------------------------


def _show_cards(advice: Advice, out: Console, everything: bool) -> None:
    good = [card for card in advice.cards if card.fits in ("yes", "tight") and not card.refused]
    rest = [card for card in advice.cards if card not in good]
    few = len(advice.cards) <= _CARDS
    good.sort(key=lambda card: not card.in_budget)
    shown = (good + rest) if everything or few else good[:_CARDS]
    if shown:
        first = "first those within the budget, " if advice.question.budget_usd is not None else ""
        _heading(out, f"Cards, {first}fastest first (speed: V100 = 1)")
        _rows(out, [_card_row(card, advice) for card in shown], ("", ">", "", ">", ">", ">", ""), 4)
    if shown and not everything and not few:
        slower = f"{len(good) - len(shown)} slower cards, and " if len(good) > len(shown) else ""
        text = f"not shown: {slower}{len(rest)} that are too small, lack something or are not known; --all shows all"
        labelled(out, "", Text(text, style="dim"), width=0)


def _card_row(card: CardAdvice, advice: Advice) -> list[Text]:
    fits, style = _FITS[card.fits] if advice.question.memory_bytes is not None else ("", "")
    if card.refused:
        fits, style = card.refused, "red"
    rent = _cheapest_rent(card.card, advice.stays)
    dim = "" if not card.refused and card.fits != "no" else "dim"
    return [
        Text(card.card, style=dim),
        Text(format_bytes(card.memory_bytes) if card.memory_bytes is not None else "?", style=dim),
        Text(fits, style=style),
        Text(_speed(card), style=dim),
        Text(hours_words(card.hours) if card.hours is not None else "", style=dim),
        _price(card),
        rent,
    ]


def _speed(card: CardAdvice) -> str:
    if card.speed is None:
        return "?"
    sign = "" if card.speed.kind == "measured" else "~"
    return f"{sign}{card.speed.relative:.2f}"


def _price(card: CardAdvice) -> Text:
    if not isinstance(card.price_usd, Figure):
        return Text("")
    style = "" if card.in_budget is None else "green" if card.in_budget else "dim"
    return Text(format_price(card.price_usd.value), style=style)


def _cheapest_rent(card: str, stays: Sequence[Stay]) -> Text:
    rents = [stay for stay in stays if stay.card == card and stay.hourly is not None and stay.currency == "USD"]
    rents = [stay for stay in rents if not stay.old] or rents
    if not rents:
        return Text("")
    best = min(rents, key=lambda stay: ((stay.hourly or 0.0) / stay.count, stay.hourly or 0.0))
    price = "free" if best.free else f"{format_price(best.hourly or 0.0)}/h"
    many = f" ({best.count} cards)" if best.count > 1 and not best.free else ""
    day = "" if best.free else f", {best.as_of[:7]}"
    return Text(f"{price}{many} {best.platform}{day}", style="dim" if best.old else "")


# -- offers --------------------------------------------------------------------------------------------------------------


def _show_stays(advice: Advice, out: Console, everything: bool) -> None:
    shown = advice.stays if everything or len(advice.stays) <= _STAYS else advice.stays[:_STAYS]
    if shown:
        ordered = "cheapest first" if advice.question.basis is not None else "cheapest for the same work first"
        _heading(out, f"Offers, {ordered}")
        _rows(out, [_stay_row(stay, advice.question) for stay in shown], ("", "", ">", ">", ">", "", ""), 2)
        _show_stay_notes(shown, out)
    if len(shown) < len(advice.stays):
        more = len(advice.stays) - len(shown)
        words = "one more offer" if more == 1 else f"{more} more offers"
        labelled(out, "", Text(f"not shown: {words}; --all shows all", style="dim"), width=0)


def _stay_row(stay: Stay, question: Question) -> list[Text]:
    style = "dim" if stay.old else ""
    cost = "" if stay.cost is None else "free" if stay.free else money_words(stay.cost, stay.currency)
    hourly = "?" if stay.hourly is None else "free" if stay.free else f"{format_price(stay.hourly, stay.currency)}/h"
    name = f"{stay.platform} {stay.offer}"
    card = f"{stay.count} × {stay.card}" if stay.count > 1 else stay.card
    return [
        Text(name, style=style),
        Text(card, style=style),
        Text(hourly, style=style),
        Text(hours_words(stay.hours) if stay.hours is not None else "", style=style),
        Text(cost, style=style or "bold"),
        Text(_remarks(stay, question), style="yellow" if stay.checkpoints else style),
        Text(f"{'old: ' if stay.old else ''}{stay.as_of}", style="dim"),
    ]


def _remarks(stay: Stay, question: Question) -> str:
    parts = ["tight"] if stay.fits == "tight" else []
    if question.basis is not None and stay.hours is None:
        parts.append("how fast it is, is not known")
    if question.budget_usd is not None and stay.cost is not None and stay.cost.high > question.budget_usd:
        parts.append("over budget" if stay.cost.low > question.budget_usd else "may exceed the budget")
    if stay.units is not None:
        parts.append(count_words(stay.units, "unit"))
    if stay.checkpoints and stay.sessions is not None and stay.days is not None:
        weeks = "" if stay.weeks is None or stay.weeks.high == 1 else f" in {count_words(stay.weeks, 'week')}"
        parts.append(f"{count_words(stay.sessions, 'session')}{weeks}: {days_words(stay.days)}")
    return ", ".join(parts)


def _show_stay_notes(stays: Sequence[Stay], out: Console) -> None:
    if any(stay.checkpoints for stay in stays):
        text = "More than one session: the job must write checkpoints and go on from the last; what a new session takes to set up is not counted."
        labelled(out, "", Text(text, style="yellow"), width=0)
    if any(stay.count > 1 for stay in stays):
        labelled(
            out,
            "",
            Text("Where a machine has several cards, the job uses one; all of them are paid, or lent.", style="dim"),
            width=0,
        )
    unsure = dict.fromkeys(f"{stay.platform}, {stay.unsure}" for stay in stays if stay.unsure)
    for text in unsure:
        labelled(out, "", Text(f"{text}.", style="dim"), width=0)


# -- all of it -----------------------------------------------------------------------------------------------------------


def _show_left_out(advice: Advice, out: Console) -> None:
    if advice.left_out:
        _heading(out, "Not counted")
        labelled(out, "", Text(" ".join(advice.left_out), style="dim"), width=0)
    if advice.notes:
        _heading(out, "To know")
        for text in advice.notes:
            labelled(out, "", text, width=0)


def _show_assumptions(advice: Advice, out: Console) -> None:
    _heading(out, "What this rests on")
    for text in advice.assumptions:
        labelled(out, "", text, width=0)


def _rows(out: Console, rows: list[list[Text]], sides: tuple[str, ...], first: int) -> None:
    """Columns as wide as they must be, none that is empty everywhere; in a narrow terminal, those after `first` go below."""
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    narrow = 2 + sum(width + 2 for width in widths if width) > out.width
    for row in rows:
        line = Text("  ")
        for cell, width, side in list(zip(row, widths, sides, strict=True))[: first if narrow else None]:
            if not width:
                continue
            pad = Text(" " * (width - cell.cell_len))
            line.append_text(pad + cell if side == ">" else cell + pad).append("  ")
        line.rstrip()
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
        below = [cell for cell in row[first:] if cell.cell_len]
        if narrow and below:
            labelled(out, "", Text(", ").join(below), indent=6, width=0)


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))

"""`ownlab gpus advise` and `ownlab clouds cost` in the terminal: recommendations, then all rows, then the assumptions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ownlab.catalog.card_speeds import Workload
from ownlab.catalog.cards import Figure
from ownlab.catalog.platforms import offer_label
from ownlab.instruments.advise.formatting import (
    format_days,
    format_hours,
    format_money,
    format_sessions,
    format_units,
    format_weeks,
)
from ownlab.instruments.advise.records import Advice, CardAdvice, Question, Recommendation, Rental
from ownlab.render.console import labelled
from ownlab.text import facts, plural, sentences, template, text, translated
from ownlab.units import format_bytes, format_price

__all__ = ["show_advice", "show_cost"]

_LABEL_WIDTH = 10
_COMMA = template(", ")
_KINDS = {"free": text("free"), "cheapest": text("cheapest"), "fastest": text("fastest"), "buy": text("to buy")}
_FITS = {
    "yes": (text("fits"), "green"),
    "tight": (text("tight"), "yellow"),
    "no": (text("too small"), "red"),
    "unknown": (text("not sure"), "yellow"),
}
_WORKLOADS: dict[Workload, str] = {
    "vision": text("Vision work"),
    "transformer": text("Transformer work"),
    "recurrent": text("Recurrent work"),
    "decoding": text("Decoding work"),
}
# Rows that are shown without --all.
_MAX_CARDS = 14
_MAX_RENTALS = 16


def show_advice(advice: Advice, out: Console, *, everything: bool = False) -> None:
    """Print the cards."""
    _show_question(advice.question, out)
    _show_recommendations(advice, out, buying=True)
    _show_cards(advice, out, everything)
    _show_assumptions(advice, out)


def show_cost(advice: Advice, out: Console, *, everything: bool = False) -> None:
    """Print the platforms."""
    _show_question(advice.question, out)
    _show_recommendations(advice, out)
    _show_rentals(advice, out, everything)
    _show_left_out(advice, out)
    _show_assumptions(advice, out)


def _show_question(question: Question, out: Console) -> None:
    kind_known = question.workload_given or question.workload_inferred
    parts: list[str] = [_WORKLOADS[question.workload] if kind_known else text("Work of any kind")]
    if question.precision:
        parts.append(question.precision)
    if question.memory_bytes is not None and question.memory_least_bytes != 0:
        parts.append(text("{size} of GPU memory", size=format_bytes(question.memory_bytes)))
    if question.count > 1:
        parts.append(text("on {count} cards", count=question.count))
    if question.basis is not None:
        parts.append(text("{hours} on the {card}", hours=format_hours(question.basis.hours), card=question.basis.card))
    if question.hours_per_day is not None:
        parts.append(text("{hours:g} hours per day", hours=question.hours_per_day))
    if question.budget_usd is not None:
        parts.append(text("at most {budget}", budget=format_price(question.budget_usd)))
    labelled(out, "", Text(facts(*parts), style="bold"), indent=0, width=0)


def _show_recommendations(advice: Advice, out: Console, *, buying: bool = False) -> None:
    out.print()
    shown: list[Recommendation] = []
    for recommendation in advice.recommendations:
        repeated = any(other.why == recommendation.why and other.card == recommendation.card for other in shown)
        labelled(out, _KINDS[recommendation.kind], _recommendation(recommendation, repeated), width=_LABEL_WIDTH)
        shown.append(recommendation)
    budget = advice.question.budget_usd
    if buying and budget is not None and not any(each.kind == "buy" for each in advice.recommendations):
        none = text("no card that fits has a known price of {budget} or less", budget=format_price(budget))
        labelled(out, _KINDS["buy"], none, width=_LABEL_WIDTH)
    if not advice.recommendations:
        labelled(out, "", Text(_no_recommendation(advice), style="yellow"), width=0)


def _recommendation(recommendation: Recommendation, repeated: bool) -> Text:
    if recommendation.platform:
        offer: str = facts(f"{recommendation.platform} {offer_label(recommendation.offer)}", recommendation.card)
    else:
        offer = recommendation.card
    if repeated:
        return Text(text("same as above: {offer}", offer=offer))
    return Text.assemble((text("{offer}. ", offer=offer), "bold"), recommendation.why)


def _no_recommendation(advice: Advice) -> str:
    question = advice.question
    if question.memory_bytes is not None and not any(card.usable for card in advice.cards):
        if any(card.fits == "tight" for card in advice.cards):
            return text("No card is certain to fit. `ownlab fit … --remedies` shows how to reduce the memory.")
        return text("No card here is large enough. Use several cards, or reduce the memory (ownlab fit … --remedies).")
    if question.budget_usd is not None:
        return text("No offer fits the budget of {budget}.", budget=format_price(question.budget_usd))
    return text("No offer is known for this job.")


# -- cards ---------------------------------------------------------------------------------------------------------------


def _show_cards(advice: Advice, out: Console, everything: bool) -> None:
    fitting = [card for card in advice.cards if card.fits != "no" and card.memory_bytes and not card.refused]
    others = [card for card in advice.cards if card not in fitting]
    few = len(advice.cards) <= _MAX_CARDS
    fitting.sort(key=lambda card: not card.in_budget)
    shown = (fitting + others) if everything or few else fitting[:_MAX_CARDS]
    if shown and advice.question.budget_usd is not None:
        _heading(out, text("Cards: within the budget first, then fastest first (speed: V100 = 1)"))
    elif shown:
        _heading(out, text("Cards, fastest first (speed: V100 = 1)"))
    if shown:
        _rows(out, [_card_row(card, advice) for card in shown], ("", ">", "", ">", ">", ">", ""), 4)
    if shown and not everything and not few:
        slower = len(fitting) - len(shown)
        rest = (
            template(
                "Not shown: {slower} slower cards, and {others} that are too small, lack a feature or are unknown. --all shows all."
            )
            if slower > 0
            else template(
                "Not shown: {others} cards that are too small, lack a feature or are unknown. --all shows all."
            )
        )
        labelled(out, "", Text(rest.fill(slower=slower, others=len(others)), style="dim"), width=0)


def _card_row(card: CardAdvice, advice: Advice) -> list[Text]:
    fits, style = _FITS[card.fits] if advice.question.memory_bytes is not None else ("", "")
    if card.refused:
        fits, style = card.refused, "red"
    dim = "" if not card.refused and card.fits != "no" else "dim"
    return [
        Text(card.card, style=dim),
        Text(_memory(card), style=dim),
        Text(fits, style=style),
        Text(_speed(card), style=dim),
        Text(_hours(card, advice.question), style=dim),
        _price(card),
        _cheapest_rent(card.card, advice.rentals),
    ]


def _hours(card: CardAdvice, question: Question) -> str:
    """The duration, and the days that it takes where it can run for some hours a day only."""
    if card.hours is None:
        return ""
    hours = format_hours(card.hours)
    if question.hours_per_day is None:
        return hours
    low, high = (math.ceil(round(end / question.hours_per_day, 6)) for end in (card.hours.low, card.hours.high))
    if low == high:
        return plural(high, "{hours}, 1 day", "{hours}, {n} days", hours=hours)
    return text("{hours}, {low} to {high} days", hours=hours, low=low, high=high)


def _memory(card: CardAdvice) -> str:
    """The usable memory; "≥" where it is inferred from cards like it."""
    if card.memory_bytes is None:
        return "?"
    size = format_bytes(card.memory_bytes)
    return size if card.memory_high_bytes is None else f"≥ {size}"


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


def _cheapest_rent(card: str, rentals: Sequence[Rental]) -> Text:
    priced = [
        rental for rental in rentals if rental.card == card and rental.hourly is not None and rental.currency == "USD"
    ]
    priced = [rental for rental in priced if not rental.old] or priced
    if not priced:
        return Text("")
    best = min(priced, key=lambda rental: ((rental.hourly or 0.0) / rental.count, rental.hourly or 0.0))
    if best.free:
        offer = template("free {platform}")
    elif best.count > 1:
        offer = template("{price}/h ({count} cards) {platform}, {month}")
    else:
        offer = template("{price}/h {platform}, {month}")
    rent = offer.fill(
        price=format_price(best.hourly or 0.0),
        count=best.count,
        platform=best.platform,
        month=best.as_of[:7],
    )
    return Text(rent, style="dim" if best.old else "")


# -- offers --------------------------------------------------------------------------------------------------------------


def _show_rentals(advice: Advice, out: Console, everything: bool) -> None:
    rentals = advice.rentals
    shown = rentals if everything or len(rentals) <= _MAX_RENTALS else rentals[:_MAX_RENTALS]
    if shown:
        timed = advice.question.basis is not None
        _heading(out, text("Offers, cheapest first") if timed else text("Offers, cheapest for the same work first"))
        _rows(out, [_rental_row(rental, advice.question) for rental in shown], ("", "", ">", ">", ">", "", ""), 2)
        _show_rental_notes(shown, advice.question, out)
    if len(shown) < len(rentals):
        hidden = plural(
            len(rentals) - len(shown),
            "Not shown: one more offer. --all shows all.",
            "Not shown: {n} more offers. --all shows all.",
        )
        labelled(out, "", Text(hidden, style="dim"), width=0)


def _rental_row(rental: Rental, question: Question) -> list[Text]:
    style = "dim" if rental.old else ""
    free = text("free")
    cost = "" if rental.cost is None else free if rental.free else format_money(rental.cost, rental.currency)
    if rental.hourly is None:
        hourly = "?"
    else:
        hourly = free if rental.free else f"{format_price(rental.hourly, rental.currency)}/h"
    return [
        Text(f"{rental.platform} {offer_label(rental.offer)}", style=style),
        Text(f"{rental.count} × {rental.card}" if rental.count > 1 else rental.card, style=style),
        Text(hourly, style=style),
        Text(format_hours(rental.hours) if rental.hours is not None else "", style=style),
        Text(cost, style=style or "bold"),
        Text(_remarks(rental, question), style="yellow" if rental.checkpoints else style),
        Text(text("old: {date}", date=rental.as_of) if rental.old else rental.as_of, style="dim"),
    ]


def _remarks(rental: Rental, question: Question) -> str:
    remarks: list[str] = [text("tight")] if rental.fits == "tight" else []
    if question.basis is not None and rental.hours is None:
        remarks.append(text("speed unknown"))
    dollars = rental.cost if rental.currency == "USD" else None
    if question.budget_usd is not None and dollars is not None and dollars.high > question.budget_usd:
        over = dollars.low > question.budget_usd
        remarks.append(text("over budget") if over else text("may exceed the budget"))
    if rental.plan_cost is not None:
        remarks.append(text("with {plan} for {cost}", plan=rental.plan, cost=format_money(rental.plan_cost)))
    if rental.units is not None:
        remarks.append(format_units(rental.units))
    if rental.checkpoints and rental.sessions is not None and rental.days is not None:
        shown, days = format_sessions(rental.sessions), format_days(rental.days)
        if rental.weeks is not None and rental.weeks.high > 1:
            weeks = format_weeks(rental.weeks)
            remarks.append(text("{sessions} in {weeks}: {days}", sessions=shown, weeks=weeks, days=days))
        else:
            remarks.append(text("{sessions}: {days}", sessions=shown, days=days))
    return facts(*remarks)


def _show_rental_notes(rentals: Sequence[Rental], question: Question, out: Console) -> None:
    if any(rental.checkpoints for rental in rentals):
        note = text(
            "More than one session: the job must write checkpoints and resume from the last one. The time to set up a new "
            "session is not included."
        )
        labelled(out, "", Text(note, style="yellow"), width=0)
    if question.count == 1 and any(rental.count > 1 for rental in rentals):
        note = text("The job uses one card. Where a machine has several, all of them are paid or provided.")
        labelled(out, "", Text(note, style="dim"), width=0)
    unpublished = dict.fromkeys((rental.platform, rental.unsure) for rental in rentals if rental.unsure)
    for platform, limits in unpublished:
        note = text("{platform}, {limits}.", platform=platform, limits=limits)
        labelled(out, "", Text(note, style="dim"), width=0)


# -- what both commands show ---------------------------------------------------------------------------------------------


def _show_left_out(advice: Advice, out: Console) -> None:
    if advice.left_out:
        _heading(out, text("Not considered"))
        labelled(out, "", Text(sentences(*advice.left_out), style="dim"), width=0)
    if advice.notes:
        _heading(out, text("Notes"))
        for note in advice.notes:
            labelled(out, "", note, width=0)


def _show_assumptions(advice: Advice, out: Console) -> None:
    _heading(out, text("Assumptions"))
    for assumption in advice.assumptions:
        labelled(out, "", assumption, width=0)


def _rows(out: Console, rows: list[list[Text]], sides: tuple[str, ...], first: int) -> None:
    """Print aligned columns without the empty ones. In a narrow terminal the columns after `first` go below each row."""
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
        # Without their columns, the price per hour and that of the job would read "free, free".
        below = list({cell.plain: cell for cell in row[first:] if cell.cell_len}.values())
        if narrow and below:
            labelled(out, "", Text(translated(_COMMA)).join(below), indent=6, width=0)


def _heading(out: Console, title: str) -> None:
    out.print()
    out.print(Text(title, style="bold"))

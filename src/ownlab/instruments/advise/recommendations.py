"""What is recommended: what costs nothing, what costs least, what is fastest, what to buy; each with its reason."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.catalog.cards import Figure
from ownlab.instruments.advise.formatting import (
    count_words,
    days_words,
    hours_words,
    money_words,
    where_words,
)
from ownlab.instruments.advise.platform_costs import order_of
from ownlab.instruments.advise.records import CardAdvice, Pick, Question, Stay
from ownlab.units import format_price

__all__ = ["pick_all"]


def pick_all(
    question: Question, cards: tuple[CardAdvice, ...], stays: tuple[Stay, ...], *, buying: bool
) -> tuple[Pick, ...]:
    """At most one of each kind; a tight fit is never recommended."""
    by_name = {card.card: card for card in cards}
    sure = [stay for stay in stays if stay.fits == "yes" and stay.currency == "USD" and stay.hourly is not None]
    paid = _newest([stay for stay in sure if not stay.free and (buying or _within(question, stay))])
    timed = question.basis is not None
    found = (
        _free([stay for stay in sure if stay.free], by_name, timed),
        _cheapest(paid, by_name, timed),
        _fastest(paid, by_name),
        _buy(question, cards, stays) if buying else None,
    )
    return tuple(pick for pick in found if pick is not None)


def _newest(stays: list[Stay]) -> list[Stay]:
    """Prices that may have changed count only where there are no others."""
    return [stay for stay in stays if not stay.old] or stays


def _within(question: Question, stay: Stay) -> bool:
    return question.budget_usd is None or stay.cost is None or stay.cost.high <= question.budget_usd


def _free(stays: list[Stay], cards: dict[str, CardAdvice], timed: bool) -> Pick | None:
    if not stays:
        return None
    best = min(
        stays,
        key=lambda stay: (
            timed and stay.days is None,
            bool(stay.unsure),
            stay.days.high if stay.days else 0.0,
            order_of(stay, cards[stay.card], timed=timed),
        ),
    )
    why = f"costs nothing, on a {best.card}"
    if best.hours is not None:
        why += f": {hours_words(best.hours)}{_cut(best)}"
    return Pick("free", best.card, best.platform, best.offer, f"{why}. Nothing free is guaranteed.")


def _cheapest(stays: list[Stay], cards: dict[str, CardAdvice], timed: bool) -> Pick | None:
    known = [stay for stay in stays if order_of(stay, cards[stay.card], timed=timed)[0] == 1]
    if not known:
        return None
    best = min(known, key=lambda stay: order_of(stay, cards[stay.card], timed=timed))
    return Pick(
        "cheapest",
        best.card,
        best.platform,
        best.offer,
        f"{_bill(best, cards[best.card])}{_dated(best)}.{_computed(cards[best.card])}",
    )


def _fastest(stays: list[Stay], cards: dict[str, CardAdvice]) -> Pick | None:
    known = [stay for stay in stays if cards[stay.card].speed is not None]
    if not known:
        return None
    best = min(known, key=lambda stay: (-_relative(cards[stay.card]), stay.hourly or 0.0))
    return Pick(
        "fastest",
        best.card,
        best.platform,
        best.offer,
        f"{_bill(best, cards[best.card])}{_dated(best)}.{_computed(cards[best.card])}",
    )


def _buy(question: Question, cards: tuple[CardAdvice, ...], stays: Iterable[Stay]) -> Pick | None:
    """The fastest that the budget buys; and after how many hours renting the same one has cost as much."""
    ours = [card for card in cards if card.in_budget and card.usable and card.speed is not None]
    if not ours:
        return None
    best = max(ours, key=_relative)
    assert isinstance(best.price_usd, Figure)
    price = best.price_usd.value
    why = f"the fastest that {format_price(question.budget_usd or 0)} bought at launch ({format_price(price)})"
    if best.hours is not None:
        why += f": {hours_words(best.hours)}"
    rents = [stay for stay in stays if stay.card == best.card and stay.currency == "USD" and stay.hourly]
    rent = min(_newest(rents), key=lambda stay: stay.hourly or 0.0, default=None)
    if rent is not None and rent.hourly:
        hours = price / rent.hourly / max(1, rent.count)
        why += f"; {where_words(rent)} ({format_price(rent.hourly)} an hour) costs as much after {hours:,.0f} hours"
    return Pick("buy", best.card, "", "", f"{why}.{_computed(best)}")


def _bill(stay: Stay, card: CardAdvice) -> str:
    """What it comes to; where no time is known, the speed for the money."""
    assert stay.hourly is not None
    an_hour = f"{format_price(stay.hourly)} an hour"
    if stay.hours is None or stay.cost is None:
        return f"{an_hour}, {_relative(card):.2g} × a V100" if card.speed is not None else an_hour
    return f"{money_words(stay.cost)} for {hours_words(stay.hours)} at {an_hour}{_cut(stay)}"


def _cut(stay: Stay) -> str:
    """How sessions and weeks cut it, and what that asks for."""
    if stay.sessions is None or stay.days is None or not stay.checkpoints:
        return ""
    parts = [f", in {count_words(stay.sessions, 'session')}"]
    if stay.weeks is not None and stay.weeks.high > 1:
        parts.append(f"over {count_words(stay.weeks, 'week')} of quota ({days_words(stay.days)} from beginning to end)")
    parts.append("so it must write checkpoints")
    return " ".join([parts[0], *parts[1:-1]]) + f": {parts[-1]}"


def _dated(stay: Stay) -> str:
    return f" (the price is of {stay.as_of}, and old)" if stay.old else ""


def _computed(card: CardAdvice) -> str:
    computed = card.speed is not None and card.speed.kind == "computed"
    return " Its speed is computed, nobody's measurement was found." if computed else ""


def _relative(card: CardAdvice) -> float:
    return card.speed.relative if card.speed is not None else 0.0

"""The recommendations: the free, the cheapest and the fastest offer, and the card to buy; each with its reason."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.catalog.cards import Figure
from ownlab.catalog.platforms import offer_label
from ownlab.instruments.advise.formatting import (
    format_days,
    format_hours,
    format_money,
    format_sessions,
    format_weeks,
)
from ownlab.instruments.advise.platform_costs import compared_currency, cost_rank
from ownlab.instruments.advise.records import CardAdvice, Question, Recommendation, Rental
from ownlab.text import sentences, text
from ownlab.units import format_price

__all__ = ["recommend"]

# From start to end, compared with the hours of work: then limits of the platform stretch the job.
_MUCH_LONGER = 1.2


def recommend(
    question: Question, cards: tuple[CardAdvice, ...], rentals: tuple[Rental, ...], *, buying: bool
) -> tuple[Recommendation, ...]:
    """Recommend at most one offer of each kind; never one whose card is a tight fit."""
    by_name = {card.card: card for card in cards}
    currency = compared_currency(rentals)
    safe = [
        rental
        for rental in rentals
        if rental.fits == "yes"
        and rental.hourly is not None
        and (rental.free or rental.currency == currency)
        # An old price in another currency is no recommendation: the platform may be gone.
        and (currency == "USD" or rental.free or not rental.old)
    ]
    paid = _newest([rental for rental in safe if not rental.free and (buying or _in_budget(question, rental))])
    timed = question.basis is not None
    recommendations = (
        _free([rental for rental in safe if rental.free], by_name, timed),
        _cheapest(paid, by_name, timed),
        _fastest(paid, by_name),
        _to_buy(question, cards, rentals) if buying else None,
    )
    return tuple(each for each in recommendations if each is not None)


def _newest(rentals: list[Rental]) -> list[Rental]:
    """Old prices count only where there are no others."""
    return [rental for rental in rentals if not rental.old] or rentals


def _in_budget(question: Question, rental: Rental) -> bool:
    if question.budget_usd is None:
        return True
    return rental.currency == "USD" and (rental.cost is None or rental.cost.high <= question.budget_usd)


def _free(rentals: list[Rental], cards: dict[str, CardAdvice], timed: bool) -> Recommendation | None:
    if not rentals:
        return None
    best = min(
        rentals,
        key=lambda rental: (
            timed and rental.days is None,
            bool(rental.unsure),
            rental.days.high if rental.days else 0.0,
            cost_rank(rental, cards[rental.card], timed=timed, currency=rental.currency),
        ),
    )
    if best.hours is None:
        cost = text("It is free.")
    else:
        cost = text("It is free and takes {hours}.", hours=format_hours(best.hours))
    # Of a job whose duration is known, the limits have been reckoned with.
    limits = text("Limits: {limits}.", limits=best.unsure) if best.hours is None and best.unsure else None
    why = sentences(cost, _sessions(best), limits, text("Free offers are not guaranteed."))
    return Recommendation("free", best.card, best.platform, best.offer, why)


def _cheapest(rentals: list[Rental], cards: dict[str, CardAdvice], timed: bool) -> Recommendation | None:
    def rank_of(rental: Rental) -> tuple[int, float]:
        return cost_rank(rental, cards[rental.card], timed=timed, currency=rental.currency)

    comparable = [rental for rental in rentals if rank_of(rental)[0] == 1]
    if not comparable:
        return None
    best = min(comparable, key=rank_of)
    return Recommendation("cheapest", best.card, best.platform, best.offer, _reason(best, cards[best.card]))


def _fastest(rentals: list[Rental], cards: dict[str, CardAdvice]) -> Recommendation | None:
    comparable = [rental for rental in rentals if cards[rental.card].speed is not None]
    if not comparable:
        return None
    best = min(comparable, key=lambda rental: (-_least_speed(cards[rental.card]), rental.hourly or 0.0))
    return Recommendation("fastest", best.card, best.platform, best.offer, _reason(best, cards[best.card]))


def _to_buy(question: Question, cards: tuple[CardAdvice, ...], rentals: Iterable[Rental]) -> Recommendation | None:
    """The fastest card within the budget, and after how many hours renting the same card has cost as much."""
    affordable = [card for card in cards if card.in_budget and card.usable and card.speed is not None]
    if not affordable:
        return None
    best = max(affordable, key=_least_speed)
    assert isinstance(best.price_usd, Figure)
    price = best.price_usd.value
    reason = text(
        "It is the fastest card within {budget}: it cost {price} at launch.",
        budget=format_price(question.budget_usd or 0),
        price=format_price(price),
    )
    duration = None if best.hours is None else text("The job takes {hours} on it.", hours=format_hours(best.hours))
    same_card = [
        rental for rental in rentals if rental.card == best.card and rental.currency == "USD" and rental.hourly
    ]
    rental = min(_newest(same_card), key=lambda each: each.hourly or 0.0, default=None)
    comparison = None
    if rental is not None and rental.hourly:
        comparison = text(
            "Renting from {platform} {offer} ({price} per hour) costs as much after {hours:,.0f} hours.",
            platform=rental.platform,
            offer=offer_label(rental.offer),
            price=format_price(rental.hourly),
            hours=price / rental.hourly / max(1, rental.count),
        )
    return Recommendation("buy", best.card, "", "", sentences(reason, duration, comparison, _if_computed(best)))


def _reason(rental: Rental, card: CardAdvice) -> str:
    return sentences(_cost(rental, card), _sessions(rental), _if_old(rental), _if_computed(card))


def _cost(rental: Rental, card: CardAdvice) -> str:
    """The cost of the job; without a known duration, the price and the speed."""
    assert rental.hourly is not None
    price = format_price(rental.hourly, rental.currency)
    if rental.hours is not None and rental.cost is not None:
        cost, hours = format_money(rental.cost, rental.currency), format_hours(rental.hours)
        if rental.plan_cost is not None:
            return text(
                "It costs {cost} for {hours}: {price} per hour, and the plan {plan} for {plan_cost}.",
                cost=cost,
                hours=hours,
                price=price,
                plan=rental.plan,
                plan_cost=format_money(rental.plan_cost),
            )
        return text("It costs {cost} for {hours} at {price} per hour.", cost=cost, hours=hours, price=price)
    if card.speed is not None:
        speed = _relative_speed(card)
        return text("It costs {price} per hour and is {speed:.2g} × as fast as a V100.", price=price, speed=speed)
    return text("It costs {price} per hour.", price=price)


def _sessions(rental: Rental) -> str | None:
    """How sessions and weekly quotas cut the job, and what that requires."""
    if rental.sessions is None or rental.days is None or not rental.checkpoints:
        return None
    sessions = format_sessions(rental.sessions)
    if rental.weeks is None or rental.weeks.high <= 1:
        if rental.hours is not None and rental.days.high * 24 > _MUCH_LONGER * rental.hours.high:
            return text(
                "It needs {sessions} over {days} (daily limits, lock-outs), so the job must write checkpoints.",
                sessions=sessions,
                days=format_days(rental.days),
            )
        return text("It needs {sessions}, so the job must write checkpoints.", sessions=sessions)
    return text(
        "It needs {sessions} over {weeks} of quota ({days} from start to end), so the job must write checkpoints.",
        sessions=sessions,
        weeks=format_weeks(rental.weeks),
        days=format_days(rental.days),
    )


def _if_old(rental: Rental) -> str | None:
    return text("The price is old: it is from {date}.", date=rental.as_of) if rental.old else None


def _if_computed(card: CardAdvice) -> str | None:
    computed = card.speed is not None and card.speed.kind == "computed"
    return text("Its speed is computed; no measurement was found.") if computed else None


def _least_speed(card: CardAdvice) -> float:
    """What a card reaches at least: a computed speed with a wide range does not win over a measured one."""
    return card.speed.low if card.speed is not None else 0.0


def _relative_speed(card: CardAdvice) -> float:
    return card.speed.relative if card.speed is not None else 0.0

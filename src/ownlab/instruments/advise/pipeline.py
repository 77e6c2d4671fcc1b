"""From a question to an answer: cards, offers, what is recommended, and what it all rests on."""

from __future__ import annotations

from datetime import date

from ownlab.catalog.cards import Card, Figure, Unstated, load_cards
from ownlab.catalog.platforms import OLD_DAYS, Platform, load_platforms
from ownlab.instruments.advise.card_filter import judge_cards
from ownlab.instruments.advise.duration import by_fp32, speed_at
from ownlab.instruments.advise.platform_costs import stays_on, why_not
from ownlab.instruments.advise.recommendations import pick_all
from ownlab.instruments.advise.records import Advice, CardAdvice, Question
from ownlab.units import format_bytes

__all__ = ["advise"]

# Of so many platforms what is to be known of them is said too.
_FEW = 2
_OLDEST_SERVED = 7.5  # by the default build of torch since 2.11: catalog/data/torch_wheels.json


def advise(
    question: Question,
    *,
    cards: tuple[Card, ...] | None = None,
    platforms: tuple[Platform, ...] | None = None,
    today: date | None = None,
    buying: bool = False,
) -> Advice:
    """The answer. `cards`, `platforms`: those that were named; all that are known otherwise. `buying`: the budget may buy one."""
    day = today or date.today()
    judged = judge_cards(question, load_cards() if cards is None else cards)
    by_name = {card.card: card for card in judged}
    where = platforms if platforms is not None else load_platforms()
    stays = stays_on(question, where, by_name, day)
    bought = {card.card for card in judged if buying and card.usable and card.in_budget}
    return Advice(
        question=question,
        cards=judged,
        stays=stays,
        picks=pick_all(question, judged, stays, buying=buying),
        assumptions=(
            *_assumptions(question, judged, buying=buying),
            *_old_cards({stay.card for stay in stays} | bought),
        ),
        left_out=tuple(_left_out(where, by_name, named=platforms is not None)),
        notes=tuple(_notes(where)) if len(where) <= _FEW else (),
        today=day.isoformat(),
    )


def _notes(platforms: tuple[Platform, ...]) -> list[str]:
    return [f"{platform.name}: {note}" for platform in platforms if platform.alive for note in platform.notes]


def _assumptions(question: Question, cards: tuple[CardAdvice, ...], *, buying: bool) -> list[str]:
    said = []
    if question.basis is not None:
        said.append(f"Time: {question.basis.why}{_elsewhere(question, question.basis.card)}.")
        said.append("One card is used, and is busy all the time: what loading data costs is not in it.")
    if by_fp32(question):
        said.append(
            "In fp32 the ladder, which is of fp16 work, does not hold: cards stand by their fp32 rates, which nobody checked "
            "against such work; hence the wide spans."
        )
    if not question.workload_told:
        said.append(
            f"Which kind of work it is was not said: {question.workload} was taken for the ladder (--workload)."
        )
    if question.memory_bytes is not None and question.memory_least_bytes == 0 and question.basis is not None:
        said.append(
            f"Memory: how much it takes was not said. It runs on the {question.basis.card}, so on all that have as much; "
            "smaller ones are called tight (--model-memory)."
        )
    elif question.memory_bytes is not None:
        said.append(
            f"Memory: {format_bytes(question.memory_bytes)} is all that it takes of a card, CUDA's own part included; "
            "where no report of a card's usable memory was found, nine tenths of its size are taken."
        )
    known = [card for card in cards if card.speed is not None]
    measured = sum(card.speed is not None and card.speed.kind == "measured" for card in cards)
    if not by_fp32(question):
        said.append(
            f"Speed: of {len(known)} cards {measured} by measurements that were published, the others (~) computed from their data."
        )
    said.append(
        f"Prices: lists on the day that stands beside each, without tax, storage and traffic; older than {OLD_DAYS // 30} "
        "months is shown as old, and never recommended while there is a newer one."
    )
    if buying and any(isinstance(card.price_usd, Figure) for card in cards):
        said.append(
            "To buy: the price at launch, or what Lambda asked for one; shops and second-hand markets keep to neither."
        )
    return said


def _old_cards(names: set[str]) -> list[str]:
    """What can be rented or bought, and is not served by what `pip install torch` brings."""
    old = [card.name for card in load_cards() if card.name in names and 0 < _capability(card) < _OLDEST_SERVED]
    if not old:
        return []
    why = f"the default build of torch since 2.11 leaves them out (compute capability below {_OLDEST_SERVED:g})"
    return [f"Old cards ({', '.join(old)}): {why}; they need the one for CUDA 12.6."]


def _capability(card: Card) -> float:
    return float(card.capability) if card.capability[:1].isdigit() else 0.0


def _elsewhere(question: Question, known: str) -> str:
    """What leads from the card of which the time is known to the others."""
    card = next((card for card in load_cards() if card.name == known), None)
    speed = None if card is None else speed_at(card, question)
    if isinstance(speed, Unstated):
        return f"; nothing leads from there to other cards: {speed.reason}"
    return "" if by_fp32(question) else f"; on other cards by the ladder for {question.workload} work"


def _left_out(platforms: tuple[Platform, ...], cards: dict[str, CardAdvice], *, named: bool) -> list[str]:
    """Platforms and offers that are gone, and what of named platforms does not hold the job."""
    said = []
    for platform in platforms:
        if platform.alive is False:
            said.append(f"{platform.name} has ended ({platform.ended}).")
            continue
        if platform.alive is None:
            said.append(f"{platform.name}: {' '.join(platform.notes) or 'no news of it.'}")
        gone = [f"{offer.name} is gone ({offer.gone})" for offer in platform.offers if offer.gone]
        judged = [(offer, cards.get(offer.card)) for offer in platform.offers if not offer.gone]
        other = [f"{offer.card} {why}" for offer, card in judged if named and card and (why := why_not(card))]
        if gone or other:
            said.append(f"{platform.name}: {', '.join(dict.fromkeys(gone + other))}.")
    return said

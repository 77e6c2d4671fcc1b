"""From a question to an answer: cards, offers, recommendations, and the assumptions behind them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from ownlab.catalog.cards import Card, Figure, Unstated, load_cards
from ownlab.catalog.gpu_ladder import WORKLOAD_NAMES
from ownlab.catalog.platforms import OLD_DAYS, Platform, load_platforms
from ownlab.instruments.advise.card_filter import assess_cards
from ownlab.instruments.advise.duration import compares_by_fp32, speed_for
from ownlab.instruments.advise.platform_costs import compare_platforms, compared_currency, rejection_of
from ownlab.instruments.advise.recommendations import recommend
from ownlab.instruments.advise.records import Advice, CardAdvice, Question, Rental
from ownlab.text import listing, sentences, text
from ownlab.units import format_bytes

__all__ = ["advise"]

# The notes on platforms are shown where at most so many were named.
_FEW_PLATFORMS = 2
_OLDEST_SUPPORTED = 7.5  # by the default build of torch since 2.11: catalog/data/torch_wheels.json


def advise(
    question: Question,
    *,
    cards: tuple[Card, ...] | None = None,
    platforms: tuple[Platform, ...] | None = None,
    today: date | None = None,
    buying: bool = False,
) -> Advice:
    """Answer a question. `cards`, `platforms`: those that were named, else all. `buying`: the budget may buy a card."""
    day = today or date.today()
    advices = assess_cards(question, load_cards() if cards is None else cards)
    by_name = {advice.card: advice for advice in advices}
    considered = platforms if platforms is not None else load_platforms()
    rentals = compare_platforms(question, considered, by_name, day)
    affordable = {advice.card for advice in advices if buying and advice.usable and advice.in_budget}
    return Advice(
        question=question,
        cards=advices,
        rentals=rentals,
        recommendations=recommend(question, advices, rentals, buying=buying),
        assumptions=(
            *_assumptions(question, advices, buying=buying),
            *_other_currencies(rentals),
            *_unsupported_cards({rental.card for rental in rentals} | affordable),
        ),
        left_out=tuple(_left_out(considered, by_name, named=platforms is not None)),
        notes=tuple(_notes(considered)) if len(considered) <= _FEW_PLATFORMS else (),
        today=day.isoformat(),
    )


def _notes(platforms: tuple[Platform, ...]) -> list[str]:
    return [
        text("{platform}: {note}", platform=platform.name, note=note)
        for platform in platforms
        if platform.alive
        for note in platform.notes
    ]


def _assumptions(question: Question, cards: tuple[CardAdvice, ...], *, buying: bool) -> list[str]:
    assumptions = [*question.notes, *_time_assumptions(question), *_memory_assumptions(question, cards)]
    if not compares_by_fp32(question):
        assumptions.append(
            text(
                "Speed: {measured} of {known} cards have published measurements; the others (~) are computed from their "
                "specifications.",
                measured=sum(card.speed is not None and card.speed.kind == "measured" for card in cards),
                known=sum(card.speed is not None for card in cards),
            )
        )
    assumptions.append(
        text(
            "Prices: list prices on the date shown, without tax, storage and traffic. Prices older than {months} months are "
            "marked as old, and are recommended only where there is no newer one.",
            months=OLD_DAYS // 30,
        )
    )
    if buying and any(isinstance(card.price_usd, Figure) for card in cards):
        assumptions.append(
            text("To buy: the price at launch, or what Lambda asked. Prices in shops and second-hand markets differ.")
        )
    return assumptions


def _other_currencies(rentals: Sequence[Rental]) -> list[str]:
    """Rates of exchange move, and ownlab fetches none: only prices in one currency are compared with each other."""
    compared = compared_currency(rentals)
    if all(rental.currency == compared or rental.free for rental in rentals):
        return []
    return [text("Prices in other currencies are not converted: they are listed last, and not recommended.")]


def _time_assumptions(question: Question) -> list[str]:
    assumptions: list[str] = []
    if question.basis is not None:
        transfer = _transfer_to_other_cards(question, question.basis.card)
        assumptions.append(text("Time: {basis}", basis=sentences(question.basis.why, transfer)))
        assumptions.append(_cards_in_use(question))
    if compares_by_fp32(question):
        assumptions.append(
            text(
                "In fp32 cards are compared by their fp32 rates, because the ladder is made for fp16 work. No measurement "
                "confirms this, so the ranges are wide."
            )
        )
    if question.basis is not None and question.basis.kind == "floor":
        assumptions.append(
            text(
                "The range is wide because nobody has timed this model. A few steps on any card narrow it: `ownlab fit … "
                "--measure` there, or --step-seconds S --on CARD; `ownlab bench` and --bench narrow it to a factor of four."
            )
        )
    if question.workload_inferred:
        assumptions.append(
            text("The report shows {workload} work; --workload changes it.", workload=WORKLOAD_NAMES[question.workload])
        )
    elif not question.workload_given:
        assumptions.append(
            text(
                "No kind of work was given, so {workload} is assumed (--workload).",
                workload=WORKLOAD_NAMES[question.workload],
            )
        )
    return assumptions


def _cards_in_use(question: Question) -> str:
    if question.count == 1:
        return text("The job uses one card and keeps it busy; time to load data is not included.")
    return text(
        "The job uses {count} cards of one machine, each with the whole model and a part of the batch (data parallel). The "
        "speed-up is Lambda's published one for the card; for other cards the range goes from the lowest that was published "
        "to {count} times.",
        count=question.count,
    )


def _memory_assumptions(question: Question, cards: tuple[CardAdvice, ...]) -> list[str]:
    if question.memory_bytes is None:
        return []
    if question.memory_least_bytes == 0 and question.basis is not None:
        return [
            text(
                "Memory: the size of the job is unknown. It runs on the {card}, so it fits every card with as much memory; "
                "smaller cards count as tight (--model-memory).",
                card=question.basis.card,
            )
        ]
    if question.memory_least_bytes == 0:
        return []
    size = format_bytes(question.memory_bytes)
    assumptions: list[str] = [text("Memory: the job takes {size} of a card, including CUDA's own share.", size=size)]
    if any(card.memory_high_bytes is not None for card in cards):
        assumptions.append(
            text(
                "Of some cards (≥) nobody reported how much programs can use. It is inferred from cards of the same memory; "
                'where that decides, the answer is "not sure".'
            )
        )
    return assumptions


def _unsupported_cards(names: set[str]) -> list[str]:
    """Cards that can be rented or bought, but that `pip install torch` does not support any more."""
    old = [card.name for card in load_cards() if card.name in names and 0 < _capability(card) < _OLDEST_SUPPORTED]
    if not old:
        return []
    return [
        text(
            "Old cards ({cards}): the default build of torch since 2.11 does not support them (compute capability below "
            "{capability:g}). They need the build for CUDA 12.6.",
            cards=listing(old, "{items}, {last}"),
            capability=_OLDEST_SUPPORTED,
        )
    ]


def _capability(card: Card) -> float:
    return float(card.capability) if card.capability[:1].isdigit() else 0.0


def _transfer_to_other_cards(question: Question, basis_card: str) -> str | None:
    """How the time on one card gives the time on the others."""
    card = next((card for card in load_cards() if card.name == basis_card), None)
    speed = None if card is None else speed_for(card, question)
    if isinstance(speed, Unstated):
        return text("Times on other cards cannot be derived from it: {reason}.", reason=speed.reason)
    if compares_by_fp32(question):
        return None
    return text(
        "Times on other cards follow from the ladder for {workload} work.", workload=WORKLOAD_NAMES[question.workload]
    )


def _left_out(platforms: tuple[Platform, ...], cards: dict[str, CardAdvice], *, named: bool) -> list[str]:
    """Platforms and offers that no longer exist; of named platforms also the cards that cannot run the job."""
    lines: list[str] = []
    for platform in platforms:
        if platform.alive is False:
            lines.append(text("{platform} shut down ({date}).", platform=platform.name, date=platform.ended))
            continue
        if platform.alive is None and platform.notes:
            lines.append(text("{platform}: {notes}", platform=platform.name, notes=sentences(*platform.notes)))
        elif platform.alive is None:
            lines.append(text("{platform}: no recent information.", platform=platform.name))
        gone = _gone_offers(platform)
        rejected = _rejected_cards(platform, cards) if named else []
        if gone or rejected:
            lines.append(sentences(*gone, *rejected))
    return lines


def _gone_offers(platform: Platform) -> list[str]:
    return [
        text(
            "{platform} no longer offers {offer} ({reason}).",
            platform=platform.name,
            offer=offer.name,
            reason=offer.gone,
        )
        for offer in platform.offers
        if offer.gone
    ]


def _rejected_cards(platform: Platform, cards: dict[str, CardAdvice]) -> list[str]:
    by_reason: dict[str, dict[str, None]] = {}
    for offer in platform.offers:
        card = cards.get(offer.card)
        reason = rejection_of(card) if card is not None and not offer.gone else ""
        if reason:
            by_reason.setdefault(reason, {})[offer.card] = None
    return [
        text(
            "{platform}: the job cannot run on {cards} ({reason}).",
            platform=platform.name,
            cards=listing(names, "{items} or {last}"),
            reason=reason,
        )
        for reason, names in by_reason.items()
    ]

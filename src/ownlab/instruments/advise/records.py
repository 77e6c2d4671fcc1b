"""The question that is asked, and the answer: never a number without what it rests on."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ownlab.catalog.card_speeds import Speed, Workload
from ownlab.catalog.cards import Figure, Unstated

__all__ = ["Advice", "Basis", "CardAdvice", "Pick", "Question", "Span", "Stay"]


class Span(Struct, frozen=True):
    """Between what a figure lies."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The geometric one: errors here are factors."""
        return float((self.low * self.high) ** 0.5)

    def times(self, factor: float) -> Span:
        """Both ends, multiplied."""
        return Span(self.low * factor, self.high * factor)


class Basis(Struct, frozen=True):
    """How long the job takes on one card; from there the ladder leads to the others."""

    kind: Literal["told", "measured", "floor"]
    card: str
    hours: Span
    why: str
    steps: int | None = None
    least_hours: dict[str, float] = {}  # by card: no run is shorter than this


class Question(Struct, frozen=True, kw_only=True):
    """What is asked."""

    workload: Workload
    workload_told: bool = True  # False: nobody said which it is
    memory_bytes: int | None = None  # that the job takes of a card, at most
    memory_least_bytes: int | None = None  # with which it may do, where the path is a good one
    precision: str = ""  # bf16, fp16 …; "": not said
    basis: Basis | None = None  # None: how long it takes was not asked
    budget_usd: float | None = None
    hours_per_day: float | None = None  # that somebody keeps it running


class CardAdvice(Struct, frozen=True):
    """One card, for this job."""

    card: str
    memory_bytes: int | None
    fits: Literal["yes", "tight", "no", "unknown"]
    refused: str  # why it is out of the question though it may be big enough; "": it is not
    speed: Speed | None
    speed_unknown: str  # why there is none
    hours: Span | None
    price_usd: Figure | Unstated  # at launch, or what Lambda asked for one
    in_budget: bool | None  # None: no budget, or no price

    @property
    def usable(self) -> bool:
        """Whether the job runs there."""
        return self.fits == "yes" and not self.refused


class Stay(Struct, frozen=True):
    """The job on one offer of a platform."""

    platform: str
    offer: str
    card: str
    count: int  # cards that are paid; the job uses one
    fits: Literal["yes", "tight"]
    hourly: float | None
    currency: str
    hours: Span | None
    cost: Span | None
    units: Span | None  # where units are paid
    sessions: Span | None
    weeks: Span | None  # where there is a quota for each week
    days: Span | None  # from its beginning to its end, with all breaks
    checkpoints: bool  # it does not fit into one session
    unsure: str  # which limit is not published, so that it may take longer; "": none
    as_of: str
    source: str
    old: bool
    region: str
    note: str

    @property
    def free(self) -> bool:
        """Whether it costs nothing."""
        return self.hourly == 0


class Pick(Struct, frozen=True):
    """What is recommended, and why."""

    kind: Literal["free", "cheapest", "fastest", "buy"]
    card: str
    platform: str  # "": a card to buy
    offer: str
    why: str


class Advice(Struct, frozen=True):
    """`ownlab gpus advise --json`, `ownlab clouds cost --json`."""

    question: Question
    cards: tuple[CardAdvice, ...]  # fastest first
    stays: tuple[Stay, ...]  # cheapest first
    picks: tuple[Pick, ...]
    assumptions: tuple[str, ...]
    left_out: tuple[str, ...]  # offers and platforms that do not count, and why
    notes: tuple[str, ...]  # on platforms, where few were named
    today: str

"""The records of a question and its answer. JSON keys that differ from the attribute names are kept for compatibility."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ownlab.catalog.card_speeds import Speed, Workload
from ownlab.catalog.cards import Figure, Unstated

__all__ = ["Advice", "Basis", "CardAdvice", "Question", "Range", "Recommendation", "Rental"]


class Range(Struct, frozen=True):
    """The lowest and the highest value that a number may have."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The geometric mean: errors here are factors."""
        return float((self.low * self.high) ** 0.5)

    def times(self, factor: float) -> Range:
        """Multiply both ends."""
        return Range(self.low * factor, self.high * factor)


class Basis(Struct, frozen=True):
    """How long the job takes on one card; times on other cards follow from it by the ladder."""

    kind: Literal["told", "measured", "floor", "published"]
    card: str
    hours: Range
    why: str
    steps: int | None = None
    least_hours: dict[str, float] = {}  # by card: no run is shorter than this
    card_hours: dict[str, Range] = {}  # by card: where a throughput of this very work was published


class Question(Struct, frozen=True, kw_only=True, rename={"workload_given": "workload_told"}):
    """The job, and the limits of money and time."""

    workload: Workload
    workload_given: bool = True  # False: it follows from the report, or the default was taken
    memory_bytes: int | None = None  # the most memory of a card that the job takes
    memory_least_bytes: int | None = None  # the least with which it may run
    precision: str = ""  # bf16, fp16 …; "": not given
    basis: Basis | None = None  # None: the duration is unknown
    budget_usd: float | None = None
    hours_per_day: float | None = None
    workload_inferred: bool = False  # it follows from the report
    count: int = 1  # cards of one machine that the job uses
    notes: tuple[str, ...] = ()  # how the options were understood, where they leave a choice


class CardAdvice(Struct, frozen=True):
    """One card, for this job."""

    card: str
    memory_bytes: int | None
    fits: Literal["yes", "tight", "no", "unknown"]
    refused: str  # why the card cannot be used although it may be big enough; "": it can
    speed: Speed | None
    speed_unknown: str  # why there is no speed
    hours: Range | None
    price_usd: Figure | Unstated  # at launch, or what Lambda asked
    in_budget: bool | None  # None: no budget, or no price
    memory_high_bytes: int | None = None  # at most, where the usable memory was inferred from cards like it

    @property
    def usable(self) -> bool:
        """Whether the job runs on this card."""
        return self.fits == "yes" and not self.refused


class Rental(Struct, frozen=True):
    """The job on one offer of a platform."""

    platform: str
    offer: str
    card: str
    count: int  # cards that are paid; the job uses as many as the question says
    fits: Literal["yes", "tight"]
    hourly: float | None
    currency: str
    hours: Range | None
    cost: Range | None
    units: Range | None  # where compute units are paid
    sessions: Range | None
    weeks: Range | None  # where there is a weekly quota
    days: Range | None  # from start to end, with all breaks
    checkpoints: bool  # the job does not fit into one session
    unsure: str  # limits that are not published, so that the job may take longer; "": none
    as_of: str
    source: str
    old: bool
    region: str
    note: str
    plan: str = ""  # a subscription that the offer needs; its price is part of the cost
    plan_cost: Range | None = None

    @property
    def free(self) -> bool:
        """Whether it costs nothing."""
        return self.hourly == 0


class Recommendation(Struct, frozen=True):
    """A recommended offer, or a card to buy."""

    kind: Literal["free", "cheapest", "fastest", "buy"]
    card: str
    platform: str  # "": a card to buy
    offer: str
    why: str


class Advice(Struct, frozen=True, rename={"rentals": "stays", "recommendations": "picks"}):
    """`ownlab gpus advise --json`, `ownlab clouds cost --json`."""

    question: Question
    cards: tuple[CardAdvice, ...]  # fastest first
    rentals: tuple[Rental, ...]  # cheapest first
    recommendations: tuple[Recommendation, ...]
    assumptions: tuple[str, ...]
    left_out: tuple[str, ...]  # offers and platforms that were not considered, and why
    notes: tuple[str, ...]  # on platforms, where few were named
    today: str

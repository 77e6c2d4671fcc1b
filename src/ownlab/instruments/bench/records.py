"""The events of the guest while it measures, and the report that is saved, shown and compared.

Rates are in the unit of their record (FLOP/s, B/s, images/s …), times in seconds. Fields are only added, never removed:
saved reports stay readable.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from ownlab.text import facts, listing, text

__all__ = [
    "BUDGETS",
    "GROUPS",
    "BenchReport",
    "CardSummary",
    "Done",
    "Event",
    "Limit",
    "MachineSummary",
    "Measure",
    "Plan",
    "Planned",
    "Profile",
    "Request",
    "Result",
    "Skip",
    "Skipped",
    "Started",
    "State",
    "Unit",
    "Verdict",
    "device_kind",
]

Profile = Literal["quick", "default", "full"]
Unit = Literal["FLOP/s", "B/s", "s", "images/s", "tokens/s", "reads/s"]
Verdict = Literal["fine", "above-limit", "low", "unjudged"]

# The groups of tests, in the order of display.
GROUPS = (
    "products",
    "memory",
    "copies",
    "launch",
    "layers",
    "training",
    "inference",
    "frameworks",
    "cpu",
    "disk",
    "loader",
)


PROFILE_NAMES: dict[str, str] = {"quick": text("quick"), "default": text("default"), "full": text("full")}
# Seconds. The guest starts no test that would exceed them. Importing torch and reading the machine are not included.
BUDGETS: dict[Profile, float] = {"quick": 18.0, "default": 150.0, "full": 900.0}


class Request(Struct, frozen=True):
    """The tests that the guest should run."""

    profile: Profile = "default"
    groups: tuple[str, ...] | None = None  # None: all
    device: str | None = None  # cuda:0, cpu; None: the first card, else the CPU
    folder: str = ""  # for the file of the disk test
    budget_seconds: float = BUDGETS["default"]
    memory_bytes: int | None = None  # maximum on the card; None: the guest decides


# --- events of the guest ----------------------------------------------------------------------------------------------


class State(Struct, frozen=True):
    """The state of a card at one moment."""

    clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: tuple[str, ...] = ()


class Planned(Struct, frozen=True):
    """A planned test."""

    name: str
    group: str = ""


class Plan(Struct, frozen=True, tag="plan", tag_field="event"):
    """All planned tests, and the device: the first event."""

    tests: tuple[Planned, ...]
    device: str = ""
    torch: str | None = None
    cuda: str | None = None  # version that torch was built with
    numpy: str | None = None
    notes: tuple[str, ...] = ()  # for example that others use the card


class Started(Struct, frozen=True, tag="begin", tag_field="event"):
    """One test begins."""

    name: str


class Result(Struct, frozen=True, tag="result", tag_field="event"):
    """The result of one test: `seconds` of each repetition, which did `work`."""

    name: str
    group: str
    unit: Unit
    work: float
    seconds: tuple[float, ...]
    device: str = ""
    dtype: str = ""
    shape: dict[str, int] = field(default_factory=dict)
    percentiles: dict[str, float] = field(default_factory=dict)
    flops: float | None = None
    before: State | None = None
    after: State | None = None
    notes: tuple[str, ...] = ()


class Skip(Struct, frozen=True, tag="skipped", tag_field="event"):
    """A test that was skipped, or a whole group, by its name."""

    name: str
    reason: str
    group: str = ""
    message: str = ""


class Done(Struct, frozen=True, tag="done", tag_field="event"):
    """All tests are finished: the last event."""


Event = Plan | Started | Result | Skip | Done


# --- the report -------------------------------------------------------------------------------------------------------


class CardSummary(Struct, frozen=True):
    """A card by the name that its driver gives."""

    name: str
    memory_bytes: int | None = None
    catalogue: str | None = None  # its name in `ownlab gpus`


class MachineSummary(Struct, frozen=True):
    """The machine of the measurement; None: unknown."""

    cards: tuple[CardSummary, ...] = ()
    cpu: str | None = None
    cores: float | None = None  # usable by programs
    memory_bytes: int | None = None
    system: str | None = None
    kernel: str | None = None
    driver: str | None = None
    python: str | None = None
    torch: str | None = None
    cuda: str | None = None  # version that torch was built with
    numpy: str | None = None

    @property
    def description(self) -> str:
        """The cards, or the CPU where there is none, and torch: "NVIDIA H200 ×8, torch 2.13.0"."""
        names = [card.name for card in self.cards]
        counted = [f"{name} ×{names.count(name)}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
        device = listing(counted, "{items}, {last}") or self.cpu or text("a machine")
        return facts(device, f"torch {self.torch}" if self.torch else None)


class Limit(Struct, frozen=True):
    """The maximum that is possible, with its source."""

    value: float  # in FLOP/s or B/s
    what: str  # "bf16 peak", "PCIe 5.0 x16"
    source: str
    card: str = ""  # name in `ownlab gpus`, if the value comes from there
    slack: float = 0.0  # share by which a correct result may exceed it

    @property
    def named(self) -> str:
        """Its name in a sentence."""
        return text("{limit} of the {card}", limit=self.what, card=self.card) if self.card else self.what


class Measure(Struct, frozen=True):
    """One test: the median of its repetitions and the confidence interval."""

    name: str
    group: str
    device: str
    dtype: str
    shape: dict[str, int]
    unit: Unit
    median: float
    low: float
    high: float
    confidence: float  # of the interval: 0.95, less with few repetitions
    count: int
    seconds: tuple[float, ...] = ()  # of each repetition; empty if only the result was published
    percentiles: dict[str, float] = field(default_factory=dict)  # of a latency
    share_of_peak: float | None = None  # of `limit`
    limit: Limit | None = None
    verdict: Verdict = "unjudged"
    why: tuple[str, ...] = ()
    before: State | None = None
    after: State | None = None
    note: str = ""


class Skipped(Struct, frozen=True):
    """A test that was skipped, with the reason."""

    name: str
    group: str
    reason: str
    message: str


class BenchReport(Struct, frozen=True):
    """`ownlab bench --json`, and the saved file."""

    version: int = 1
    when: str = ""  # ISO 8601, UTC
    ownlab: str = ""
    profile: str = "default"
    seconds: float = 0.0  # duration of the run
    machine: MachineSummary = MachineSummary()
    complete: bool = True
    trouble: str = ""  # why it is incomplete
    notes: tuple[str, ...] = ()  # for example others on the card, or a torch without CUDA
    results: tuple[Measure, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    source: str = ""  # of a published reference; "": measured with ownlab


def device_kind(device: str) -> str:
    """Return "cuda" for "cuda:1": results of different machines are matched by kind, not by number."""
    head = device.partition(":")[0]
    return head if head in ("cuda", "cpu", "mps", "xpu") else "disk" if device else ""

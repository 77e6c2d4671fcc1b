"""What a guest says while it measures, and what becomes of it: a report that is kept, shown and compared.

Rates are in the unit that stands beside them (FLOP/s, B/s, images/s …), times in seconds. Fields are only ever added:
saved reports stay readable.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

__all__ = [
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

# What is measured, in the order in which it is shown.
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


class Request(Struct, frozen=True):
    """What the guest is asked to measure."""

    profile: Profile = "default"
    groups: tuple[str, ...] | None = None  # None: all
    device: str | None = None  # cuda:0, cpu; None: the first card, else the CPU
    folder: str = ""  # for the file of the disk's test
    budget_seconds: float = 150.0
    memory_bytes: int | None = None  # of the card, at most; None: the guest's own choice


# --- what the guest says ----------------------------------------------------------------------------------------------


class State(Struct, frozen=True):
    """What a card did at one moment."""

    clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: tuple[str, ...] = ()


class Planned(Struct, frozen=True):
    """A test that is to come."""

    name: str
    group: str = ""


class Plan(Struct, frozen=True, tag="plan", tag_field="event"):
    """Everything that is to come, and where: the first event."""

    tests: tuple[Planned, ...]
    device: str = ""
    torch: str | None = None
    cuda: str | None = None  # that torch was built with
    numpy: str | None = None
    note: str = ""  # others are on the card, say


class Started(Struct, frozen=True, tag="begin", tag_field="event"):
    """One test begins."""

    name: str


class Result(Struct, frozen=True, tag="result", tag_field="event"):
    """How long one test took: `seconds` for each repetition, in which `work` was done."""

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
    note: str = ""


class Skip(Struct, frozen=True, tag="skipped", tag_field="event"):
    """A test that was not made; or all of a group, whose name it has then."""

    name: str
    reason: str
    group: str = ""
    message: str = ""


class Done(Struct, frozen=True, tag="done", tag_field="event"):
    """Everything was measured: the last event."""


Event = Plan | Started | Result | Skip | Done


# --- what becomes of it -----------------------------------------------------------------------------------------------


class CardSummary(Struct, frozen=True):
    """A card, as its driver names it."""

    name: str
    memory_bytes: int | None = None
    catalogue: str | None = None  # the name under which `ownlab gpus` knows it


class MachineSummary(Struct, frozen=True):
    """Where it was measured, in few words; None: not known."""

    cards: tuple[CardSummary, ...] = ()
    cpu: str | None = None
    cores: float | None = None  # that programs may use
    memory_bytes: int | None = None
    system: str | None = None
    kernel: str | None = None
    driver: str | None = None
    python: str | None = None
    torch: str | None = None
    cuda: str | None = None  # that torch was built with
    numpy: str | None = None

    @property
    def description(self) -> str:
        """The cards, or the CPU where there is none, and torch: "NVIDIA H200 ×8, torch 2.13.0"."""
        names = [card.name for card in self.cards]
        counted = [f"{name} ×{names.count(name)}" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
        device = ", ".join(counted) or self.cpu or "a machine"
        return f"{device}, torch {self.torch}" if self.torch else device


class Limit(Struct, frozen=True):
    """What no such measurement can exceed, and who says so."""

    value: float  # in FLOP/s or B/s
    what: str  # "bf16 peak", "PCIe 5.0 x16"
    source: str
    card: str = ""  # as `ownlab gpus` names it, where the figure is from there
    slack: float = 0.0  # by which share a true figure may lie above it

    @property
    def named(self) -> str:
        """In a sentence."""
        return f"{self.what} of the {self.card}" if self.card else self.what


class Measure(Struct, frozen=True):
    """One test: the median of its repetitions, and between which figures the true median lies."""

    name: str
    group: str
    device: str
    dtype: str
    shape: dict[str, int]
    unit: Unit
    median: float
    low: float
    high: float
    confidence: float  # that the true median lies between the two: 0.95, less with few repetitions
    count: int
    seconds: tuple[float, ...] = ()  # each repetition; none where only the figures were published
    percentiles: dict[str, float] = field(default_factory=dict)  # of a latency, in seconds
    share_of_peak: float | None = None  # of `limit`
    limit: Limit | None = None
    verdict: Verdict = "unjudged"
    why: tuple[str, ...] = ()
    before: State | None = None
    after: State | None = None
    note: str = ""


class Skipped(Struct, frozen=True):
    """A test that was not made, and why."""

    name: str
    group: str
    reason: str
    message: str


class BenchReport(Struct, frozen=True):
    """`ownlab bench --json`, and the file that it saves."""

    version: int = 1
    when: str = ""  # ISO 8601, UTC
    ownlab: str = ""
    profile: str = "default"
    seconds: float = 0.0  # that it took
    machine: MachineSummary = MachineSummary()
    complete: bool = True
    trouble: str = ""  # why it is not complete
    notes: tuple[str, ...] = ()  # others on the card, a torch that sees none …
    results: tuple[Measure, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    source: str = ""  # of a reference that was published; "": measured with ownlab


def device_kind(device: str) -> str:
    """ "cuda:1" -> "cuda": results of different machines are joined by the kind, not by the number."""
    head = device.partition(":")[0]
    return head if head in ("cuda", "cpu", "mps", "xpu") else "disk" if device else ""

"""One card in one sample as a row of figures, and rows as their means over time: what rules and reports look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ownlab.catalog.architectures import PCIE_LANE_BYTES
from ownlab.instruments.top.records import CardSample, ProcessSample, Sample, Saturation

__all__ = ["COLUMNS", "Row", "bystanders_of", "holders_of", "mean_of", "row_of"]

# By the names of verdicts.toml.
COLUMNS = (
    "busy",
    "sm",
    "occupancy",
    "tensor",
    "dram",
    "fp64",
    "fp32",
    "fp16",
    "integer",
    "tensor_fp64",
    "compute",
    "memory_utilisation",
    "memory_share",
    "power",
    "power_share",
    "limit_share",
    "clock_share",
    "temperature",
    "pcie",
    "pcie_share",
    "hot",
    "braked",
    "slowed",
    "capped",
    "feeder",
    "host_cpu",
    "quota_used",
    "io_wait",
    "waiting",
)
Row = tuple[float | None, ...]  # in the order of COLUMNS

_HOT = frozenset(("sw-thermal", "hw-thermal"))
_BRAKED = frozenset(("hw-power-brake",))
_SLOWED = frozenset(("hw-slowdown",))  # set with each of the above that comes from the hardware, and alone
_CAPPED = frozenset(("sw-power-cap",))
_NOTHING = Saturation()


def row_of(sample: Sample, card: CardSample) -> Row:
    """What a card did in a sample's interval."""
    worked = card.saturation or _NOTHING
    pcie = _largest(card.pcie_sent, card.pcie_received)
    host = sample.host
    return (
        # GPM's is the mean of the interval; NVML's that of the driver's last sixth of a second to second.
        card.utilisation if worked.graphics is None else worked.graphics,
        worked.sm,
        worked.occupancy,
        worked.tensor,
        worked.dram,
        worked.fp64,
        worked.fp32,
        worked.fp16,
        worked.integer,
        worked.tensor_fp64,
        _largest(worked.tensor, worked.fp64, worked.fp32, worked.fp16),
        card.memory_utilisation,
        _share(card.memory_used, card.memory_total),
        card.power,
        _share(card.power, card.power_limit),
        _share(card.power_limit, card.power_limit_default),
        _share(card.clock_sm, card.clock_sm_max),
        card.temperature,
        pcie,
        _share(pcie, _capacity(card)),
        _slowed(card.throttle, _HOT),
        _slowed(card.throttle, _BRAKED),
        _slowed(card.throttle, _SLOWED),
        _slowed(card.throttle, _CAPPED),
        _feeder(sample, card),
        host.cpu,
        host.quota_used,
        host.io_wait,
        # Who waits is one process or a few: of many cores that is a small share.
        None if host.io_wait is None else host.io_wait * (host.cores or 1),
    )


def mean_of(rows: Sequence[Row], weights: Sequence[float]) -> dict[str, float]:
    """Means by name, weighted; of what was not always known, over the part in which it was. What never was is absent."""
    found: dict[str, float] = {}
    for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=False):
        if None in column:
            known = [(value, weight) for value, weight in zip(column, weights, strict=True) if value is not None]
            total = sum(weight for _, weight in known)
            if total > 0:
                found[name] = sum(value * weight for value, weight in known) / total
        else:
            found[name] = sum(map(float.__mul__, map(float, column), weights)) / sum(weights)
    if "sm" in found and found.get("busy"):
        found["fill"] = min(100.0, 100 * found["sm"] / found["busy"])
    if "tensor_fp64" in found and found.get("tensor"):
        found["fp64_part"] = min(100.0, 100 * found["tensor_fp64"] / found["tensor"])
    return found


def holders_of(sample: Sample, card: CardSample) -> list[tuple[int | None, ProcessSample]]:
    """Processes that compute on a card, with the memory that each holds there; the largest first."""
    known = {each.pid: each for each in sample.processes}
    found = [
        (each.memory, known.get(each.pid) or ProcessSample(each.pid))
        for each in card.processes or ()
        if each.kind == "compute"
    ]
    return sorted(found, key=lambda each: -(each[0] or 0))


def bystanders_of(card: CardSample) -> dict[str, float]:
    """What is known of a card's memory beside those that compute: the desktop's, and that of nobody who can be seen."""
    known = card.processes or ()
    found: dict[str, float] = {}
    if known and all(each.kind == "graphics" for each in known):
        found["desktop"] = float(len(known))
    if card.memory_used is not None and card.memory_total and all(each.memory is not None for each in known):
        hidden = max(0, card.memory_used - sum(each.memory or 0 for each in known))
        found["hidden_share"] = 100 * hidden / card.memory_total
    return found


def _feeder(sample: Sample, card: CardSample) -> float | None:
    """Trees of processes may lie within each other, so they are not added up."""
    here = {each.pid for each in card.processes or ()}
    return max((each.cpu for each in sample.processes if each.pid in here and each.cpu is not None), default=None)


def _capacity(card: CardSample) -> float | None:
    if card.pcie_generation is None or card.pcie_width is None:
        return None
    lane = PCIE_LANE_BYTES.get(card.pcie_generation)
    return None if lane is None else lane * card.pcie_width


def _largest(*values: float | None) -> float | None:
    return max((each for each in values if each is not None), default=None)


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def _slowed(reasons: Iterable[str] | None, kind: frozenset[str]) -> float | None:
    return None if reasons is None else 0.0 if kind.isdisjoint(reasons) else 100.0

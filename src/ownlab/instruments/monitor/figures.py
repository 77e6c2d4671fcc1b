"""One card in one sample as a row of figures, and rows as their means over time: what rules and reports look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ownlab.instruments.monitor.records import CardSample, ProcessSample, Sample, Saturation

__all__ = ["COLUMNS", "Row", "holders_of", "mean_of", "row_of"]

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
    "memory_utilisation",
    "memory_share",
    "power",
    "power_share",
    "clock_share",
    "temperature",
    "pcie",
    "pcie_share",
    "hot",
    "braked",
    "capped",
    "feeder",
    "host_cpu",
    "io_wait",
)
Row = tuple[float | None, ...]  # in the order of COLUMNS

# Bytes a second that a lane carries in one direction, by generation, after line coding (PCI-SIG, PCIe 1.0 to 6.0).
LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

_HOT = frozenset(("sw-thermal", "hw-thermal"))
_BRAKED = frozenset(("hw-slowdown", "hw-power-brake"))
_CAPPED = frozenset(("sw-power-cap",))
_NOTHING = Saturation()


def row_of(sample: Sample, card: CardSample) -> Row:
    """What a card did in a sample's interval."""
    worked = card.saturation or _NOTHING
    pcie = _larger(card.pcie_sent, card.pcie_received)
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
        card.memory_utilisation,
        _share(card.memory_used, card.memory_total),
        card.power,
        _share(card.power, card.power_limit),
        _share(card.clock_sm, card.clock_sm_max),
        card.temperature,
        pcie,
        _share(pcie, _capacity(card)),
        _slowed(card.throttle, _HOT),
        _slowed(card.throttle, _BRAKED),
        _slowed(card.throttle, _CAPPED),
        _feeder(sample, card),
        host.cpu,
        host.io_wait,
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


def _feeder(sample: Sample, card: CardSample) -> float | None:
    """Trees of processes may lie within each other, so they are not added up."""
    here = {each.pid for each in card.processes or ()}
    return max((each.cpu for each in sample.processes if each.pid in here and each.cpu is not None), default=None)


def _capacity(card: CardSample) -> float | None:
    if card.pcie_generation is None or card.pcie_width is None:
        return None
    lane = LANE.get(card.pcie_generation)
    return None if lane is None else lane * card.pcie_width


def _larger(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def _slowed(reasons: Iterable[str] | None, kind: frozenset[str]) -> float | None:
    return None if reasons is None else 0.0 if kind.isdisjoint(reasons) else 100.0

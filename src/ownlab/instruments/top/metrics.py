"""The metrics that rules and reports use: one card in one sample as a row, and rows as means over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ownlab.catalog.architectures import PCIE_LANE_BYTES
from ownlab.instruments.top.records import CardSample, ProcessSample, Sample, Saturation

__all__ = ["COLUMNS", "MetricRow", "compute_processes", "mean_metrics", "metric_row", "other_memory_metrics"]

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
MetricRow = tuple[float | None, ...]  # in the order of COLUMNS

_HOT = frozenset(("sw-thermal", "hw-thermal"))
_BRAKED = frozenset(("hw-power-brake",))
_SLOWED = frozenset(("hw-slowdown",))  # set alone, or together with a hardware reason above
_CAPPED = frozenset(("sw-power-cap",))
_NO_SATURATION = Saturation()


def metric_row(sample: Sample, card: CardSample) -> MetricRow:
    """Return the metrics of one card in the interval of a sample."""
    activity = card.saturation or _NO_SATURATION
    pcie = _largest(card.pcie_sent, card.pcie_received)
    host = sample.host
    return (
        # GPM gives the mean of the interval; NVML that of the driver's last 1/6 s to 1 s.
        card.utilisation if activity.graphics is None else activity.graphics,
        activity.sm,
        activity.occupancy,
        activity.tensor,
        activity.dram,
        activity.fp64,
        activity.fp32,
        activity.fp16,
        activity.integer,
        activity.tensor_fp64,
        _largest(activity.tensor, activity.fp64, activity.fp32, activity.fp16),
        card.memory_utilisation,
        _share(card.memory_used, card.memory_total),
        card.power,
        _share(card.power, card.power_limit),
        _share(card.power_limit, card.power_limit_default),
        _share(card.clock_sm, card.clock_sm_max),
        card.temperature,
        pcie,
        _share(pcie, _pcie_capacity(card)),
        _throttled(card.throttle, _HOT),
        _throttled(card.throttle, _BRAKED),
        _throttled(card.throttle, _SLOWED),
        _throttled(card.throttle, _CAPPED),
        _feeder(sample, card),
        host.cpu,
        host.quota_used,
        host.io_wait,
        # One or a few processes wait: on many cores that would be a small share.
        None if host.io_wait is None else host.io_wait * (host.cores or 1),
    )


def mean_metrics(rows: Sequence[MetricRow], weights: Sequence[float]) -> dict[str, float]:
    """Return weighted means by name, each over the rows in which it is known. Metrics that never are known are absent."""
    means: dict[str, float] = {}
    for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=False):
        if None in column:
            known = [(value, weight) for value, weight in zip(column, weights, strict=True) if value is not None]
            total = sum(weight for _, weight in known)
            if total > 0:
                means[name] = sum(value * weight for value, weight in known) / total
        else:
            means[name] = sum(map(float.__mul__, map(float, column), weights)) / sum(weights)
    if "sm" in means and means.get("busy"):
        means["fill"] = min(100.0, 100 * means["sm"] / means["busy"])
    if "tensor_fp64" in means and means.get("tensor"):
        means["fp64_part"] = min(100.0, 100 * means["tensor_fp64"] / means["tensor"])
    return means


def compute_processes(sample: Sample, card: CardSample) -> list[tuple[int | None, ProcessSample]]:
    """Return the compute processes on a card with the memory that each holds there, the largest first."""
    known = {process.pid: process for process in sample.processes}
    holders = [
        (running.memory, known.get(running.pid) or ProcessSample(running.pid))
        for running in card.processes or ()
        if running.kind == "compute"
    ]
    return sorted(holders, key=lambda holder: -(holder[0] or 0))


def other_memory_metrics(card: CardSample) -> dict[str, float]:
    """Return who else uses a card's memory: the desktop, and processes that are not visible from here."""
    visible = card.processes or ()
    metrics: dict[str, float] = {}
    if visible and all(process.kind == "graphics" for process in visible):
        metrics["desktop"] = float(len(visible))
    if card.memory_used is not None and card.memory_total and all(process.memory is not None for process in visible):
        hidden = max(0, card.memory_used - sum(process.memory or 0 for process in visible))
        metrics["hidden_share"] = 100 * hidden / card.memory_total
    return metrics


def _feeder(sample: Sample, card: CardSample) -> float | None:
    """Return the CPU use of the busiest process on the card. Process trees may contain each other, so no sum."""
    pids = {running.pid for running in card.processes or ()}
    shares = (process.cpu for process in sample.processes if process.pid in pids and process.cpu is not None)
    return max(shares, default=None)


def _pcie_capacity(card: CardSample) -> float | None:
    if card.pcie_generation is None or card.pcie_width is None:
        return None
    lane = PCIE_LANE_BYTES.get(card.pcie_generation)
    return None if lane is None else lane * card.pcie_width


def _largest(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else 100 * part / whole


def _throttled(reasons: Iterable[str] | None, kind: frozenset[str]) -> float | None:
    return None if reasons is None else 0.0 if kind.isdisjoint(reasons) else 100.0

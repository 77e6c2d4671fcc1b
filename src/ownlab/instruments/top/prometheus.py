"""Samples in the text format of Prometheus.

Metrics that dcgm-exporter has keep its names, units and labels, so that existing dashboards and alerts work. Others are
called ownlab_… and use base units. Names and units: NVIDIA/dcgm-exporter, etc/default-counters.csv and
etc/dcp-metrics-included.csv, as of 2026-11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.registry import Collector

from ownlab.instruments.top.records import CardSample, HostSample, Owner, ProcessSample, Sample, Verdict
from ownlab.units import MIB

__all__ = ["CONTENT_TYPE", "exposition"]

# The text format that every version of Prometheus reads.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

T = TypeVar("T")
Labels = Mapping[str, str]


class _Gauge(NamedTuple, Generic[T]):
    """One metric: name, help text, and how to read it. None leaves it out, because 0 would be wrong."""

    name: str
    help: str
    read: Callable[[T], float | None]


def exposition(sample: Sample, verdicts: Sequence[Verdict] = (), *, hostname: str = "") -> bytes:
    """Render a sample. It has no timestamps: Prometheus uses the time of the scrape."""
    return generate_latest(_Families(_families(sample, verdicts, hostname)))


class _Families(Collector):
    """Passes metrics to prometheus_client."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Called by generate_latest. Metrics without values are left out."""
        return (family for family in self._families if family.samples)


def _families(sample: Sample, verdicts: Sequence[Verdict], hostname: str) -> Iterator[Metric]:
    processes = {process.pid: process for process in sample.processes}
    cards = [(card, _card_labels(card, processes, hostname)) for card in sample.cards if not card.lost]
    host = {"Hostname": hostname}
    yield from (_family(gauge, cards) for gauge in _CARDS)
    yield _energy(cards)
    yield _throttled(cards)
    yield _verdicts(verdicts, {card.uuid: labels for card, labels in cards})
    yield _family(_LOST, [(card, {"gpu": str(card.index), "UUID": card.uuid, **host}) for card in sample.cards])
    uses = [(use, {**labels, **host}) for use, labels in _card_uses(sample.cards, processes)]
    yield from (_family(gauge, uses) for gauge in _USES)
    runtimes = [(process, {**_runtime_labels(process.owner), **host}) for process in _runtimes(sample.processes)]
    yield from (_family(gauge, runtimes) for gauge in _RUNTIMES)
    yield from (_family(gauge, [(sample.host, host)]) for gauge in _HOST)
    yield from (_family(gauge, [(sample, host)]) for gauge in _SAMPLE)


def _family(gauge: _Gauge[T], records: Iterable[tuple[T, Labels]]) -> Metric:
    family = GaugeMetricFamily(gauge.name, gauge.help)
    for record, labels in records:
        value = gauge.read(record)
        if value is not None:
            family.add_sample(gauge.name, dict(labels), value)
    return family


# --- cards ------------------------------------------------------------------------------------------------------------


def _card_labels(card: CardSample, processes: Mapping[int, ProcessSample], hostname: str) -> dict[str, str]:
    """Return dcgm-exporter's labels, and the notebooks and persons with processes on the card, separated by commas."""
    owners = sorted({owner for owner in _owners(card, processes) if owner is not None}, key=_by_name)
    return {
        "gpu": str(card.index),
        "UUID": card.parent or card.uuid,
        "pci_bus_id": card.bus_id,
        "device": f"nvidia{card.index}",
        "modelName": card.name,
        "Hostname": hostname,
        **({"GPU_I_ID": card.uuid} if card.parent else {}),
        "notebook": ",".join(dict.fromkeys(owner.notebook for owner in owners)),
        "person": ",".join(dict.fromkeys(owner.person for owner in owners)),
    }


def _owners(card: CardSample, processes: Mapping[int, ProcessSample]) -> Iterator[Owner | None]:
    for running in card.processes or ():
        process = processes.get(running.pid)
        yield process.owner if process is not None else None


def _by_name(owner: Owner) -> tuple[str, str, str]:
    return owner.notebook, owner.person, owner.runtime


def _ratio(name: str) -> Callable[[CardSample], float | None]:
    def read(card: CardSample) -> float | None:
        value = getattr(card.saturation, name) if card.saturation is not None else None
        return value / 100 if value is not None else None

    return read


def _rate(name: str) -> Callable[[CardSample], float | None]:
    return lambda card: getattr(card.saturation, name) if card.saturation is not None else None


def _mib(value: int | None) -> float | None:
    return value / MIB if value is not None else None


_CARDS: tuple[_Gauge[CardSample], ...] = (
    _Gauge("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", lambda card: card.clock_sm),
    _Gauge("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", lambda card: card.clock_memory),
    _Gauge("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", lambda card: card.temperature),
    _Gauge("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", lambda card: card.power),
    _Gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT", "Power limit (in W).", lambda card: card.power_limit),
    _Gauge("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", lambda card: card.utilisation),
    _Gauge("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", lambda card: card.memory_utilisation),
    _Gauge("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", lambda card: _mib(card.memory_used)),
    _Gauge("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", lambda card: _mib(card.memory_free)),
    _Gauge("DCGM_FI_DEV_FB_TOTAL", "Framebuffer memory (in MiB).", lambda card: _mib(card.memory_total)),
    _Gauge("DCGM_FI_DEV_FAN_SPEED", "Fan speed (in %).", lambda card: card.fan),
    _Gauge("DCGM_FI_DEV_PSTATE", "Performance state.", lambda card: card.pstate),
    _Gauge("DCGM_FI_DEV_PCIE_LINK_GEN", "PCIe generation now.", lambda card: card.pcie_generation),
    _Gauge("DCGM_FI_DEV_PCIE_LINK_WIDTH", "PCIe lanes now.", lambda card: card.pcie_width),
    _Gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", _ratio("graphics")),
    _Gauge("DCGM_FI_PROF_SM_ACTIVE", "Ratio of SMs that were busy.", _ratio("sm")),
    _Gauge("DCGM_FI_PROF_SM_OCCUPANCY", "Ratio of warps resident on SMs.", _ratio("occupancy")),
    _Gauge("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor pipe is active.", _ratio("tensor")),
    _Gauge("DCGM_FI_PROF_DRAM_ACTIVE", "Ratio of the memory's bandwidth that is used.", _ratio("dram")),
    _Gauge("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "Ratio of cycles the fp64 pipes are active.", _ratio("fp64")),
    _Gauge("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "Ratio of cycles the fp32 pipes are active.", _ratio("fp32")),
    _Gauge("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "Ratio of cycles the fp16 pipes are active.", _ratio("fp16")),
    _Gauge("DCGM_FI_PROF_PIPE_INT_ACTIVE", "Ratio of cycles the integer pipe is active.", _ratio("integer")),
    _Gauge("DCGM_FI_PROF_PCIE_TX_BYTES", "Bytes sent over PCIe a second.", lambda card: card.pcie_sent),
    _Gauge("DCGM_FI_PROF_PCIE_RX_BYTES", "Bytes received over PCIe a second.", lambda card: card.pcie_received),
    _Gauge("DCGM_FI_PROF_NVLINK_TX_BYTES", "Bytes sent over NVLink a second.", _rate("nvlink_sent")),
    _Gauge("DCGM_FI_PROF_NVLINK_RX_BYTES", "Bytes received over NVLink a second.", _rate("nvlink_received")),
)


def _energy(cards: Iterable[tuple[CardSample, Labels]]) -> Metric:
    """A counter of unknown type: prometheus_client would add _total to the name of a counter."""
    name = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
    family = UnknownMetricFamily(name, "Total energy consumption since boot (in mJ); a counter.")
    for card, labels in cards:
        if card.energy is not None:
            family.add_sample(name, dict(labels), card.energy * 1000)
    return family


_LOST = _Gauge[CardSample]("ownlab_card_lost", "1: the card no longer answers.", lambda card: float(bool(card.lost)))


def _verdicts(verdicts: Sequence[Verdict], labels: Mapping[str, Labels]) -> Metric:
    """One series per current verdict; it ends when the card gets another."""
    family = GaugeMetricFamily("ownlab_card_verdict", "1 for the current verdict of `ownlab top` on the card.")
    for verdict in verdicts:
        if verdict.card in labels:
            family.add_sample("ownlab_card_verdict", {**labels[verdict.card], "code": verdict.code}, 1)
    return family


def _throttled(cards: Iterable[tuple[CardSample, Labels]]) -> Metric:
    family = GaugeMetricFamily("ownlab_card_throttled", "1 for each reason why clocks are reduced.")
    for card, labels in cards:
        for reason in card.throttle or ():
            family.add_sample("ownlab_card_throttled", {**labels, "reason": reason}, 1)
    return family


class _Use(NamedTuple):
    """The use of a card by the processes of one runtime, or of one user outside the lab."""

    memory: int | None = 0
    sm: float | None = 0.0


_USES: tuple[_Gauge[_Use], ...] = (
    _Gauge("ownlab_card_memory_used_bytes", "Memory used on a card, by notebook or user.", lambda use: use.memory),
    _Gauge(
        "ownlab_card_kernels_ratio",
        "Ratio of time in which kernels of a notebook or user ran on a card.",
        lambda use: None if use.sm is None else use.sm / 100,
    ),
)


def _card_uses(cards: Iterable[CardSample], processes: Mapping[int, ProcessSample]) -> list[tuple[_Use, Labels]]:
    """Sum by owner, not by process: process ids would create many short series."""
    uses: dict[tuple[str, str, Owner], _Use] = {}
    for card in cards:
        for running in card.processes or ():
            key = str(card.index), card.uuid, _owner(processes.get(running.pid))
            use = uses.get(key, _Use())
            uses[key] = _Use(_add(use.memory, running.memory), _add(use.sm, running.sm))
    return [(use, {"gpu": index, "UUID": uuid, **_runtime_labels(owner)}) for (index, uuid, owner), use in uses.items()]


def _owner(process: ProcessSample | None) -> Owner:
    """For a process that the lab did not start, only the user is known."""
    if process is None:
        return Owner("", "", "")
    return process.owner or Owner("", "", process.user)


Number = TypeVar("Number", int, float)


def _add(first: Number | None, second: Number | None) -> Number | None:
    return None if first is None or second is None else first + second


# --- runtimes and the host --------------------------------------------------------------------------------------------


def _runtimes(processes: Iterable[ProcessSample]) -> list[ProcessSample]:
    """Return the first process of each runtime, which includes all others of the same owner."""
    runtimes: dict[str, ProcessSample] = {}
    for process in processes:
        if process.owner is not None:
            runtimes.setdefault(process.owner.runtime, process)
    return list(runtimes.values())


def _runtime_labels(owner: Owner | None) -> dict[str, str]:
    return {} if owner is None else {"runtime": owner.runtime, "notebook": owner.notebook, "person": owner.person}


def _ratio_of(value: float | None) -> float | None:
    return None if value is None else value / 100


_RUNTIMES: tuple[_Gauge[ProcessSample], ...] = (
    _Gauge(
        "ownlab_runtime_cpu_cores",
        "Cores that the processes of a runtime kept busy.",
        lambda process: _ratio_of(process.cpu),
    ),
    _Gauge("ownlab_runtime_memory_bytes", "Memory of the processes of a runtime.", lambda process: process.memory),
    _Gauge("ownlab_runtime_disk_read_bytes_per_second", "Read from disks.", lambda process: process.disk_read),
    _Gauge("ownlab_runtime_disk_written_bytes_per_second", "Written to disks.", lambda process: process.disk_written),
    _Gauge("ownlab_runtime_processes", "Number of processes of a runtime.", lambda process: process.processes),
)

_HOST: tuple[_Gauge[HostSample], ...] = (
    _Gauge("ownlab_host_cpu_ratio", "Ratio of busy time over all cores.", lambda host: _ratio_of(host.cpu)),
    _Gauge(
        "ownlab_host_busiest_core_ratio",
        "Ratio of busy time of the busiest core.",
        lambda host: _ratio_of(host.busiest_core),
    ),
    _Gauge(
        "ownlab_host_io_wait_ratio", "Ratio of CPU time spent waiting for disks.", lambda host: _ratio_of(host.io_wait)
    ),
    _Gauge("ownlab_host_load1", "Runnable processes, mean over a minute.", lambda host: host.load),
    _Gauge("ownlab_host_memory_bytes", "Memory of the machine.", lambda host: host.memory),
    _Gauge("ownlab_host_memory_used_bytes", "Memory of the machine that is used.", lambda host: host.memory_used),
    _Gauge("ownlab_host_swap_used_bytes", "Swap used.", lambda host: host.swap_used),
    _Gauge("ownlab_host_disk_read_bytes_per_second", "Read from disks.", lambda host: host.disk_read),
    _Gauge("ownlab_host_disk_written_bytes_per_second", "Written to disks.", lambda host: host.disk_written),
    _Gauge("ownlab_host_network_received_bytes_per_second", "Received, without loopback.", lambda host: host.received),
    _Gauge("ownlab_host_network_sent_bytes_per_second", "Sent, without loopback.", lambda host: host.sent),
)

_SAMPLE: tuple[_Gauge[Sample], ...] = (
    _Gauge("ownlab_cards_known", "1: the cards could be read.", lambda sample: float(not sample.trouble)),
    _Gauge("ownlab_interval_seconds", "Interval over which rates and ratios are means.", lambda sample: sample.seconds),
)

"""What can be asked for by name: nvidia-smi's fields in nvidia-smi's own format, and ours beside them.

`ownlab top --query` prints these, `--record` keeps them, and a recording is read back by them.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from ownlab.errors import UsageError
from ownlab.instruments.top.records import CardSample, Sample, Verdict
from ownlab.units import MIB

__all__ = [
    "DEFAULT",
    "FIELDS",
    "THROTTLE",
    "Field",
    "Value",
    "field_named",
    "format_time",
    "header",
    "pick",
    "rows",
    "speak_of_cards",
    "values",
]

Value = float | int | str | None
Place = Literal["card", "saturation", "host", "sample", "made"]
NOT_THERE = "[N/A]"

# Bits of NVML's clocks event reasons (nvml.h), by the names of machine.records, with nvidia-smi's word for each.
THROTTLE: dict[str, tuple[int, str]] = {
    "gpu-idle": (0x1, "gpu_idle"),
    "applications-clocks": (0x2, "applications_clocks_setting"),
    "sw-power-cap": (0x4, "sw_power_cap"),
    "hw-slowdown": (0x8, "hw_slowdown"),
    "sync-boost": (0x10, "sync_boost"),
    "sw-thermal": (0x20, "sw_thermal_slowdown"),
    "hw-thermal": (0x40, "hw_thermal_slowdown"),
    "hw-power-brake": (0x80, "hw_power_brake_slowdown"),
    "display-clocks": (0x100, "display_clocks_setting"),
    "board-limit": (0x200, "board_limit"),
    "reliability": (0x400, "reliability"),
}


class Field(NamedTuple):
    """One column."""

    name: str
    meaning: str
    place: Place
    attribute: str = ""  # of the record that the place says; of what is made, the function's name in _MADE
    unit: str = ""
    factor: float = 1  # how many of the record's units are one of ours
    digits: int | None = 0  # after the point; None: text

    def value(self, sample: Sample, card: CardSample | None, verdict: Verdict | None = None) -> Value:
        """In this field's unit; None: not known, or not of this card."""
        if self.place == "made":
            return _MADE[self.attribute](self, sample, card, verdict)
        found = self._raw(sample, card)
        if found is None or self.digits is None:
            return found
        number = round(float(found) / self.factor, self.digits)
        return number if self.digits else int(number)

    def _raw(self, sample: Sample, card: CardSample | None) -> Value:
        if self.place == "sample":
            record: object = sample
        elif self.place == "host":
            record = sample.host
        else:
            record = card if self.place == "card" or card is None else card.saturation
        found: Value = getattr(record, self.attribute, None)
        return found

    def text(self, value: Value, *, units: bool = True) -> str:
        """As nvidia-smi writes it."""
        if value is None or value == "":
            return NOT_THERE
        shown = str(value) if isinstance(value, str) else f"{value:.{self.digits or 0}f}"
        return f"{shown} {self.unit}" if units and self.unit else shown


def _card(name: str, attribute: str, meaning: str, unit: str = "", factor: float = 1, digits: int | None = 0) -> Field:
    return Field(name, meaning, "card", attribute, unit, factor, digits)


def _worked(name: str, attribute: str, meaning: str) -> Field:
    return Field(name, meaning, "saturation", attribute, "%", 1, 2)


def _host(name: str, attribute: str, meaning: str, unit: str = "", factor: float = 1, digits: int = 0) -> Field:
    return Field(name, meaning, "host", attribute, unit, factor, digits)


def _made(name: str, meaning: str, how: str, unit: str = "", digits: int | None = None) -> Field:
    return Field(name, meaning, "made", how, unit, 1, digits)


_FIELDS = (
    # nvidia-smi's
    _made("timestamp", "when it was taken, in local time", "timestamp"),
    _card("name", "name", "the card's name", digits=None),
    _card("index", "index", "its number"),
    _card("uuid", "uuid", "its UUID", digits=None),
    _card("pci.bus_id", "bus_id", "where it is on the bus", digits=None),
    _card("driver_version", "driver", "the driver's version", digits=None),
    _made("count", "how many cards there are", "count", digits=0),
    _card("utilization.gpu", "utilisation", "time in which any kernel ran", "%"),
    _card("utilization.memory", "memory_utilisation", "time in which memory was read or written", "%"),
    _card("memory.total", "memory_total", "memory", "MiB", MIB),
    _card("memory.used", "memory_used", "memory that is taken", "MiB", MIB),
    _card("memory.free", "memory_free", "memory that is left", "MiB", MIB),
    _card("power.draw", "power", "power", "W", digits=2),
    _card("enforced.power.limit", "power_limit", "power that it may draw", "W", digits=2),
    _card("power.default_limit", "power_limit_default", "power that it may draw where nobody changed it", "W", digits=2),
    _card("temperature.gpu", "temperature", "temperature, °C"),
    _card("fan.speed", "fan", "fan, of its maximum", "%"),
    _made("pstate", "performance state, P0 the fastest", "pstate"),
    _card("clocks.current.sm", "clock_sm", "clock of the SMs", "MHz"),
    _card("clocks.current.memory", "clock_memory", "clock of the memory", "MHz"),
    _card("clocks.max.sm", "clock_sm_max", "largest clock of the SMs", "MHz"),
    _card("clocks.max.memory", "clock_memory_max", "largest clock of the memory", "MHz"),
    _card("pcie.link.gen.current", "pcie_generation", "generation of the PCIe link"),
    _card("pcie.link.width.current", "pcie_width", "lanes of the PCIe link"),
    _made("clocks_event_reasons.active", "why clocks are lower than they could be, as bits", "reasons"),
    *(_made(f"clocks_event_reasons.{word}", f"whether clocks are lower for it: {name}", name)
      for name, (_, word) in THROTTLE.items()),
    # ours
    _worked("graphics.active", "graphics", "time in which anything ran, as GPM measures it"),
    _worked("sm.active", "sm", "multiprocessors that worked"),
    _worked("sm.occupancy", "occupancy", "warps, of what the multiprocessors could hold"),
    _worked("tensor.active", "tensor", "time in which tensor cores worked"),
    _worked("tensor.fp64.active", "tensor_fp64", "time in which tensor cores worked in FP64"),
    _worked("dram.active", "dram", "memory bandwidth"),
    _worked("integer.active", "integer", "time in which integer units worked"),
    _worked("fp64.active", "fp64", "time in which FP64 units worked"),
    _worked("fp32.active", "fp32", "time in which FP32 units worked"),
    _worked("fp16.active", "fp16", "time in which FP16 units worked"),
    Field("nvlink.sent", "sent over NVLink", "saturation", "nvlink_sent", "MiB/s", MIB, 1),
    Field("nvlink.received", "received over NVLink", "saturation", "nvlink_received", "MiB/s", MIB, 1),
    _card("pcie.sent", "pcie_sent", "sent by the card over PCIe", "MiB/s", MIB, 1),
    _card("pcie.received", "pcie_received", "received by the card over PCIe", "MiB/s", MIB, 1),
    _card("energy", "energy", "energy since the driver was loaded", "J", digits=1),
    _made("processes", "processes on the card", "processes", digits=0),
    _made("notebooks", "notebooks on the card", "notebooks"),
    _made("verdict", "what its time goes into, by code", "verdict"),
    _made("verdict.sentence", "what its time goes into, in words", "sentence"),
    Field("time", "when it was taken, in seconds since 1970", "sample", "at", "", 1, 3),
    Field("interval", "time since the sample before", "sample", "seconds", "s", 1, 3),
    _host("host.cpu", "cpu", "CPU, of all cores", "%", digits=1),
    _host("host.cores", "cores", "cores"),
    _host("host.busiest_core", "busiest_core", "CPU of the busiest core", "%", digits=1),
    _host("host.io_wait", "io_wait", "CPU time in which it waited for disks", "%", digits=1),
    _host("host.quota", "quota", "cores that this container or group may use", digits=2),
    _host("host.quota_used", "quota_used", "CPU of that", "%", digits=1),
    _host("host.load", "load", "processes that want to run", digits=2),
    _host("host.memory.total", "memory", "memory of the host", "MiB", MIB),
    _host("host.memory.used", "memory_used", "memory of the host that is taken", "MiB", MIB),
    _host("host.swap.used", "swap_used", "swap that is taken", "MiB", MIB),
    _host("host.disk.read", "disk_read", "read from disks", "MiB/s", MIB, 1),
    _host("host.disk.written", "disk_written", "written to disks", "MiB/s", MIB, 1),
    _host("host.net.received", "received", "received over the network", "MiB/s", MIB, 1),
    _host("host.net.sent", "sent", "sent over the network", "MiB/s", MIB, 1),
)  # fmt: skip

FIELDS: dict[str, Field] = {field.name: field for field in _FIELDS}

# Names that nvidia-smi takes for the same; its header has the name on the right.
ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.current.mem": "clocks.current.memory",
    "clocks.max.mem": "clocks.max.memory",
    "clocks.gr": "clocks.current.graphics",
}
# What is the same to us, and has its own name in nvidia-smi's header.
_ALIKE = {
    "power.draw.average": "power.draw",
    "power.limit": "enforced.power.limit",
    "pcie.link.gen.gpucurrent": "pcie.link.gen.current",
    "clocks.current.graphics": "clocks.current.sm",
}
# Renamed in driver 535; both are taken, and the header has the new one.
_OLD, _NEW = "clocks_throttle_reasons.", "clocks_event_reasons."

# A recording in which nothing was chosen.
DEFAULT = (
    "timestamp,index,uuid,name,utilization.gpu,sm.active,sm.occupancy,tensor.active,tensor.fp64.active,dram.active,"
    "fp64.active,fp32.active,fp16.active,memory.total,memory.used,power.draw,enforced.power.limit,power.default_limit,energy,"
    "temperature.gpu,clocks.current.sm,clocks.max.sm,clocks_event_reasons.active,pcie.sent,pcie.received,"
    "pcie.link.gen.current,pcie.link.width.current,host.cpu,host.cores,host.io_wait,host.quota_used,host.memory.used,verdict"
)

# What nvidia-smi knows beside these, and a sampler has no use for: it does not change while one looks.
_ONLY_NVIDIA_SMI = (
    "accounting.", "addressing_mode", "c2c.", "compute_cap", "compute_mode", "confidential_compute.", "dramEncryption.",
    "driver_model.", "ecc.", "encoder.", "fabric.", "gom.", "gpu_recovery_action", "gpu_serial", "gsp.", "inforom.",
    "mig.", "pci.", "pcie.link.gen.", "pcie.link.width.", "persistence_mode", "platform.", "power.", "protected_memory.",
    "remapped_rows.", "reset_status.", "retired_pages.", "serial", "temperature.", "vbios_version", "vgpu_",
    "display_", "clocks.", "memory.reserved", "utilization.", "module_id", "kmd_version", "cuda_version",
)  # fmt: skip


def pick(names: str | Iterable[str]) -> tuple[Field, ...]:
    """Fields by name, in that order; a string has them with commas. Raises UsageError, which names the nearest."""
    asked = [each.strip() for each in (names.split(",") if isinstance(names, str) else names)]
    chosen = tuple(_find(name) for name in asked if name)
    if not chosen:
        raise UsageError("no fields were named", hint="For instance: timestamp,index,utilization.gpu,sm.active,verdict")
    return chosen


def field_named(asked: str) -> Field | None:
    """By any of its names."""
    name = asked.lower().replace(_OLD, _NEW)
    name = ALIASES.get(name, name)
    if name in FIELDS:
        return FIELDS[name]
    field = FIELDS.get(_ALIKE.get(name, ""))
    return None if field is None else field._replace(name=name)


def _find(asked: str) -> Field:
    field = field_named(asked)
    if field is not None:
        return field
    name = asked.lower().replace(_OLD, _NEW)
    close = difflib.get_close_matches(name, [*FIELDS, *ALIASES], n=1, cutoff=0.8)
    if not close and name.startswith(_ONLY_NVIDIA_SMI):
        raise UsageError(
            f"{asked} is a field of nvidia-smi that ownlab does not sample",
            hint=f"Ask it once: nvidia-smi --query-gpu={asked} --format=csv",
        )
    close = close or [each for each in FIELDS if each.startswith(f"{name}.")]
    close = close or difflib.get_close_matches(name, [*FIELDS, *ALIASES], n=1, cutoff=0.7)
    nearest = f" The nearest is {close[0]}." if close else ""
    raise UsageError(f"no field is called {asked}.{nearest}", hint="All fields: ownlab top --query help")


def header(fields: Iterable[Field]) -> str:
    """The first line of a table, with units, as nvidia-smi writes it."""
    return ", ".join(f"{field.name} [{field.unit}]" if field.unit else field.name for field in fields)


def rows(
    fields: tuple[Field, ...], sample: Sample, verdicts: Iterable[Verdict] = (), *, units: bool = True
) -> list[str]:
    """A line for each card; one line where there is no card, or nothing is asked of cards."""
    return [
        ", ".join(_quoted(field.text(value, units=units)) for field, value in zip(fields, line, strict=True))
        for line in values(fields, sample, verdicts)
    ]


def values(fields: tuple[Field, ...], sample: Sample, verdicts: Iterable[Verdict] = ()) -> list[list[Value]]:
    """The same as values, in each field's unit."""
    by_card = {verdict.card: verdict for verdict in verdicts}
    cards: tuple[CardSample | None, ...] = sample.cards if sample.cards and speak_of_cards(fields) else (None,)
    return [[field.value(sample, card, by_card.get(card.uuid) if card else None) for field in fields] for card in cards]


def speak_of_cards(fields: Iterable[Field]) -> bool:
    """Whether any of them is a card's own."""
    return any(field.place not in ("host", "sample") and field.attribute not in _OF_ALL for field in fields)


def format_time(at: float) -> str:
    """Local time as nvidia-smi writes it: 2026/11/15 10:30:45.123."""
    whole, thousandths = divmod(round(at * 1000), 1000)
    return time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(whole)) + f".{thousandths:03}"


def _quoted(cell: str) -> str:
    if any(each in cell for each in ',"\n\r'):
        return '"' + cell.replace('"', '""').replace("\n", " ").replace("\r", " ") + '"'
    return cell


# --- what is made of several figures ------------------------------------------------------------------------------------

_Maker = Callable[[Field, Sample, CardSample | None, Verdict | None], Value]


def _reasons(field: Field, sample: Sample, card: CardSample | None, verdict: Verdict | None) -> Value:
    if card is None or card.throttle is None:
        return None
    return f"0x{sum(THROTTLE[reason][0] for reason in card.throttle if reason in THROTTLE):016X}"


def _reason(field: Field, sample: Sample, card: CardSample | None, verdict: Verdict | None) -> Value:
    if card is None or card.throttle is None:
        return None
    return "Active" if field.attribute in card.throttle else "Not Active"


def _notebooks(field: Field, sample: Sample, card: CardSample | None, verdict: Verdict | None) -> Value:
    here = {each.pid for each in (card.processes if card else None) or ()}
    found = {each.owner.notebook for each in sample.processes if each.owner is not None and each.pid in here}
    return "; ".join(sorted(found))


_MADE: Mapping[str, _Maker] = {
    "pstate": lambda field, sample, card, verdict: None if card is None or card.pstate is None else f"P{card.pstate}",
    "timestamp": lambda field, sample, card, verdict: format_time(sample.at),
    "count": lambda field, sample, card, verdict: len(sample.cards),
    "reasons": _reasons,
    "processes": lambda field, sample, card, verdict: (
        None if card is None or card.processes is None else len(card.processes)
    ),
    "notebooks": _notebooks,
    "verdict": lambda field, sample, card, verdict: verdict.code if verdict else None,
    "sentence": lambda field, sample, card, verdict: verdict.sentence if verdict else None,
    **dict.fromkeys(THROTTLE, _reason),
}
_OF_ALL = ("timestamp", "count")

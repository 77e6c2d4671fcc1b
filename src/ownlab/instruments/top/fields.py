"""Fields by name: those of nvidia-smi, in nvidia-smi's own format, and our additional ones.

`ownlab top --query` prints them, `--record` writes them, and recordings are parsed with them.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from ownlab.errors import UsageError
from ownlab.instruments.top.records import CardSample, Sample, Verdict
from ownlab.text import sentences, text
from ownlab.units import MIB

__all__ = [
    "DEFAULT_FIELDS",
    "FIELDS",
    "THROTTLE",
    "Field",
    "Value",
    "field_values",
    "find_field",
    "format_header",
    "format_rows",
    "format_time",
    "has_card_fields",
    "parse_fields",
]

Value = float | int | str | None
Origin = Literal["card", "saturation", "host", "sample", "computed"]
NOT_AVAILABLE = "[N/A]"

# Bits of NVML's clocks event reasons (nvml.h) and nvidia-smi's names, by the names of machine.records.
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
    origin: Origin
    attribute: str = ""  # of that record; for computed fields the key in _COMPUTED
    unit: str = ""
    factor: float = 1  # number of the record's units in one of ours
    digits: int | None = 0  # decimals; None: the value is a string

    def value(self, sample: Sample, card: CardSample | None, verdict: Verdict | None = None) -> Value:
        """Return the value in this field's unit; None if it is unknown or does not apply to this card."""
        if self.origin == "computed":
            return _COMPUTED[self.attribute](self, sample, card, verdict)
        value = self._raw(sample, card)
        if value is None or self.digits is None:
            return value
        number = round(float(value) / self.factor, self.digits)
        return number if self.digits else int(number)

    def _raw(self, sample: Sample, card: CardSample | None) -> Value:
        if self.origin == "sample":
            record: object = sample
        elif self.origin == "host":
            record = sample.host
        else:
            record = card if self.origin == "card" or card is None else card.saturation
        value: Value = getattr(record, self.attribute, None)
        return value

    def format(self, value: Value, *, units: bool = True) -> str:
        """Format a value as nvidia-smi does."""
        if value is None or value == "":
            return NOT_AVAILABLE
        shown = str(value) if isinstance(value, str) else f"{value:.{self.digits or 0}f}"
        return f"{shown} {self.unit}" if units and self.unit else shown


def _card(name: str, attribute: str, meaning: str, unit: str = "", factor: float = 1, digits: int | None = 0) -> Field:
    return Field(name, meaning, "card", attribute, unit, factor, digits)


def _activity(name: str, attribute: str, meaning: str) -> Field:
    return Field(name, meaning, "saturation", attribute, "%", 1, 2)


def _host(name: str, attribute: str, meaning: str, unit: str = "", factor: float = 1, digits: int = 0) -> Field:
    return Field(name, meaning, "host", attribute, unit, factor, digits)


def _computed(name: str, meaning: str, key: str, unit: str = "", digits: int | None = None) -> Field:
    return Field(name, meaning, "computed", key, unit, 1, digits)


_FIELDS = (
    # fields of nvidia-smi
    _computed("timestamp", text("time of the sample, local time"), "timestamp"),
    _card("name", "name", text("name of the card"), digits=None),
    _card("index", "index", text("number of the card")),
    _card("uuid", "uuid", text("UUID of the card"), digits=None),
    _card("serial", "serial", text("serial number; GeForce cards have none"), digits=None),
    _card("pci.bus_id", "bus_id", text("PCI bus id"), digits=None),
    _card("driver_version", "driver", text("driver version"), digits=None),
    _computed("count", text("number of cards"), "count", digits=0),
    _card("utilization.gpu", "utilisation", text("time in which any kernel ran"), "%"),
    _card("utilization.memory", "memory_utilisation", text("time in which memory was read or written"), "%"),
    _card("memory.total", "memory_total", text("memory"), "MiB", MIB),
    _card("memory.used", "memory_used", text("memory used"), "MiB", MIB),
    _card("memory.free", "memory_free", text("memory free"), "MiB", MIB),
    _card("power.draw", "power", text("power draw"), "W", digits=2),
    _card("enforced.power.limit", "power_limit", text("power limit"), "W", digits=2),
    _card("power.default_limit", "power_limit_default", text("default power limit"), "W", digits=2),
    _card("temperature.gpu", "temperature", text("temperature, °C")),
    _card("fan.speed", "fan", text("fan speed, percentage of the maximum"), "%"),
    _computed("pstate", text("performance state; P0 is the fastest"), "pstate"),
    _card("clocks.current.sm", "clock_sm", text("SM clock"), "MHz"),
    _card("clocks.current.memory", "clock_memory", text("memory clock"), "MHz"),
    _card("clocks.max.sm", "clock_sm_max", text("maximum SM clock"), "MHz"),
    _card("clocks.max.memory", "clock_memory_max", text("maximum memory clock"), "MHz"),
    _card("pcie.link.gen.current", "pcie_generation", text("PCIe generation of the link")),
    _card("pcie.link.width.current", "pcie_width", text("PCIe lanes of the link")),
    _computed("clocks_event_reasons.active", text("why clocks are reduced, as a bit mask"), "reasons"),
    *(_computed(f"clocks_event_reasons.{word}", text("whether clocks are reduced because of {name}", name=name), name)
      for name, (_, word) in THROTTLE.items()),
    # our own fields
    _activity("graphics.active", "graphics", text("time in which anything ran, measured by GPM")),
    _activity("sm.active", "sm", text("multiprocessors (SMs) that were active")),
    _activity("sm.occupancy", "occupancy", text("resident warps, percentage of what the SMs can hold")),
    _activity("tensor.active", "tensor", text("time in which tensor cores were active")),
    _activity("tensor.fp64.active", "tensor_fp64", text("time in which tensor cores were active in FP64")),
    _activity("dram.active", "dram", text("memory bandwidth used")),
    _activity("integer.active", "integer", text("time in which integer units were active")),
    _activity("fp64.active", "fp64", text("time in which FP64 units were active")),
    _activity("fp32.active", "fp32", text("time in which FP32 units were active")),
    _activity("fp16.active", "fp16", text("time in which FP16 units were active")),
    Field("nvlink.sent", text("sent over NVLink"), "saturation", "nvlink_sent", "MiB/s", MIB, 1),
    Field("nvlink.received", text("received over NVLink"), "saturation", "nvlink_received", "MiB/s", MIB, 1),
    _card("pcie.sent", "pcie_sent", text("sent by the card over PCIe"), "MiB/s", MIB, 1),
    _card("pcie.received", "pcie_received", text("received by the card over PCIe"), "MiB/s", MIB, 1),
    _card("energy", "energy", text("energy since the driver was loaded"), "J", digits=1),
    _computed("processes", text("processes on the card"), "processes", digits=0),
    _computed("notebooks", text("notebooks on the card"), "notebooks"),
    _computed("verdict", text("verdict on the card, as a code"), "verdict"),
    _computed("verdict.sentence", text("verdict on the card, as a sentence"), "sentence"),
    Field("time", text("time of the sample, seconds since 1970"), "sample", "at", "", 1, 3),
    Field("interval", text("time since the previous sample"), "sample", "seconds", "s", 1, 3),
    _host("host.cpu", "cpu", text("CPU use of all cores"), "%", digits=1),
    _host("host.cores", "cores", text("cores")),
    _host("host.busiest_core", "busiest_core", text("CPU use of the busiest core"), "%", digits=1),
    _host("host.io_wait", "io_wait", text("CPU time spent waiting for disks"), "%", digits=1),
    _host("host.quota", "quota", text("CPU quota of this container or group, in cores"), digits=2),
    _host("host.quota_used", "quota_used", text("CPU quota used"), "%", digits=1),
    _host("host.load", "load", text("runnable processes (load average)"), digits=2),
    _host("host.memory.total", "memory", text("memory of the host"), "MiB", MIB),
    _host("host.memory.used", "memory_used", text("memory of the host used"), "MiB", MIB),
    _host("host.swap.used", "swap_used", text("swap used"), "MiB", MIB),
    _host("host.disk.read", "disk_read", text("read from disks"), "MiB/s", MIB, 1),
    _host("host.disk.written", "disk_written", text("written to disks"), "MiB/s", MIB, 1),
    _host("host.net.received", "received", text("received over the network"), "MiB/s", MIB, 1),
    _host("host.net.sent", "sent", text("sent over the network"), "MiB/s", MIB, 1),
)  # fmt: skip

FIELDS: dict[str, Field] = {field.name: field for field in _FIELDS}

# Alternative names in nvidia-smi; its header uses the name on the right.
ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.current.mem": "clocks.current.memory",
    "clocks.max.mem": "clocks.max.memory",
    "clocks.gr": "clocks.current.graphics",
}
# Fields with the same value here, which keep their own name in nvidia-smi's header.
_SAME_VALUE = {
    "power.draw.average": "power.draw",
    "power.limit": "enforced.power.limit",
    "pcie.link.gen.gpucurrent": "pcie.link.gen.current",
    "clocks.current.graphics": "clocks.current.sm",
}
# Renamed in driver 535. Both names work; the header uses the new one.
_OLD_PREFIX, _NEW_PREFIX = "clocks_throttle_reasons.", "clocks_event_reasons."

# The columns of a CSV recording without --fields.
DEFAULT_FIELDS = (
    "timestamp,index,uuid,name,utilization.gpu,sm.active,sm.occupancy,tensor.active,tensor.fp64.active,dram.active,"
    "fp64.active,fp32.active,fp16.active,memory.total,memory.used,power.draw,enforced.power.limit,power.default_limit,energy,"
    "temperature.gpu,clocks.current.sm,clocks.max.sm,clocks_event_reasons.active,pcie.sent,pcie.received,"
    "pcie.link.gen.current,pcie.link.width.current,host.cpu,host.cores,host.io_wait,host.quota_used,host.memory.used,verdict"
)

# Other fields of nvidia-smi. They do not change over time, so there is no point in sampling them.
_ONLY_NVIDIA_SMI = (
    "accounting.", "addressing_mode", "c2c.", "compute_cap", "compute_mode", "confidential_compute.", "dramEncryption.",
    "driver_model.", "ecc.", "encoder.", "fabric.", "gom.", "gpu_recovery_action", "gsp.", "inforom.",
    "mig.", "pci.", "pcie.link.gen.", "pcie.link.width.", "persistence_mode", "platform.", "power.", "protected_memory.",
    "remapped_rows.", "reset_status.", "retired_pages.", "temperature.", "vbios_version", "vgpu_",
    "display_", "clocks.", "memory.reserved", "utilization.", "module_id", "kmd_version", "cuda_version",
)  # fmt: skip


def parse_fields(names: str | Iterable[str]) -> tuple[Field, ...]:
    """Return fields by name, in that order; a string has commas between them. Raises UsageError with the nearest name."""
    requested = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
    fields = tuple(_require_field(name) for name in requested if name)
    if not fields:
        raise UsageError(
            text("No fields given."), hint=text("Example: timestamp,index,utilization.gpu,sm.active,verdict")
        )
    return fields


def find_field(requested: str) -> Field | None:
    """Find a field by any of its names."""
    name = requested.lower().replace(_OLD_PREFIX, _NEW_PREFIX)
    name = ALIASES.get(name, name)
    if name in FIELDS:
        return FIELDS[name]
    field = FIELDS.get(_SAME_VALUE.get(name, ""))
    return None if field is None else field._replace(name=name)


def _require_field(requested: str) -> Field:
    field = find_field(requested)
    if field is not None:
        return field
    name = requested.lower().replace(_OLD_PREFIX, _NEW_PREFIX)
    close = difflib.get_close_matches(name, [*FIELDS, *ALIASES], n=1, cutoff=0.8)
    if not close and name.startswith(_ONLY_NVIDIA_SMI):
        raise UsageError(
            text("{field} is a field of nvidia-smi that ownlab does not sample.", field=requested),
            hint=text("Read it once: nvidia-smi --query-gpu={field} --format=csv", field=requested),
        )
    close = close or [known for known in FIELDS if known.startswith(f"{name}.")]
    close = close or difflib.get_close_matches(name, [*FIELDS, *ALIASES], n=1, cutoff=0.7)
    hint = text("All fields: ownlab top --query help")
    if close:
        hint = sentences(text("Did you mean {field}?", field=close[0]), hint)
    raise UsageError(text("Unknown field {field}.", field=requested), hint=hint)


def format_header(fields: Iterable[Field]) -> str:
    """Return the header line with units, as nvidia-smi writes it."""
    return ", ".join(f"{field.name} [{field.unit}]" if field.unit else field.name for field in fields)


def format_rows(
    fields: tuple[Field, ...], sample: Sample, verdicts: Iterable[Verdict] = (), *, units: bool = True
) -> list[str]:
    """Return one line per card; a single line if there is no card, or no field of a card."""
    return [
        ", ".join(_quote(field.format(value, units=units)) for field, value in zip(fields, line, strict=True))
        for line in field_values(fields, sample, verdicts)
    ]


def field_values(fields: tuple[Field, ...], sample: Sample, verdicts: Iterable[Verdict] = ()) -> list[list[Value]]:
    """Return the same rows as values, in each field's unit."""
    by_card = {verdict.card: verdict for verdict in verdicts}
    cards: tuple[CardSample | None, ...] = sample.cards if sample.cards and has_card_fields(fields) else (None,)
    return [[field.value(sample, card, by_card.get(card.uuid) if card else None) for field in fields] for card in cards]


def has_card_fields(fields: Iterable[Field]) -> bool:
    """Whether any of the fields belongs to a card."""
    return any(field.origin not in ("host", "sample") and field.attribute not in _NOT_OF_A_CARD for field in fields)


def format_time(at: float) -> str:
    """Format a time as nvidia-smi does, in local time: 2026/11/15 10:30:45.123."""
    whole, thousandths = divmod(round(at * 1000), 1000)
    return time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(whole)) + f".{thousandths:03}"


def _quote(cell: str) -> str:
    if any(character in cell for character in ',"\n\r'):
        return '"' + cell.replace('"', '""').replace("\n", " ").replace("\r", " ") + '"'
    return cell


# --- computed fields --------------------------------------------------------------------------------------------------

_Compute = Callable[[Field, Sample, CardSample | None, Verdict | None], Value]


def _throttle_mask(field: Field, sample: Sample, card: CardSample | None, verdict: Verdict | None) -> Value:
    if card is None or card.throttle is None:
        return None
    return f"0x{sum(THROTTLE[reason][0] for reason in card.throttle if reason in THROTTLE):016X}"


def _throttle_active(field: Field, sample: Sample, card: CardSample | None, verdict: Verdict | None) -> Value:
    if card is None or card.throttle is None:
        return None
    return "Active" if field.attribute in card.throttle else "Not Active"


def _notebooks(field: Field, sample: Sample, card: CardSample | None, verdict: Verdict | None) -> Value:
    pids = {running.pid for running in (card.processes if card else None) or ()}
    owners = (process.owner for process in sample.processes if process.pid in pids)
    return "; ".join(sorted({owner.notebook for owner in owners if owner is not None}))


_COMPUTED: Mapping[str, _Compute] = {
    "pstate": lambda field, sample, card, verdict: None if card is None or card.pstate is None else f"P{card.pstate}",
    "timestamp": lambda field, sample, card, verdict: format_time(sample.at),
    "count": lambda field, sample, card, verdict: len(sample.cards),
    "reasons": _throttle_mask,
    "processes": lambda field, sample, card, verdict: (
        None if card is None or card.processes is None else len(card.processes)
    ),
    "notebooks": _notebooks,
    "verdict": lambda field, sample, card, verdict: verdict.code if verdict else None,
    "sentence": lambda field, sample, card, verdict: verdict.sentence if verdict else None,
    **dict.fromkeys(THROTTLE, _throttle_active),
}
_NOT_OF_A_CARD = ("timestamp", "count")

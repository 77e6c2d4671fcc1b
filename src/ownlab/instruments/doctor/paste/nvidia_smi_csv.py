"""Reads CSV from `nvidia-smi --query-gpu` and `--query-compute-apps`, with a header, after its command, or bare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

import msgspec

from ownlab.instruments.doctor.paste.nvidia_smi_log import add_gpu, new_log, put, read_log
from ownlab.instruments.doctor.paste.sections import ReportKind, end_of_run
from ownlab.machine.facts import Known
from ownlab.machine.records import Machine

__all__ = ["KINDS"]

_SOURCE = "pasted nvidia-smi CSV"
_MAX_ROWS = 4096  # a log of samples may have millions; only the first row of each card is read

# Field of --query-gpu -> its path in the XML.
_FIELDS = {
    "driver_version": "driver_version",
    "kmd_version": "kmd_version",
    "name": "product_name",
    "gpu_name": "product_name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "memory.total": "fb_memory_usage/total",
    "memory.used": "fb_memory_usage/used",
    "utilization.gpu": "utilization/gpu_util",
    "power.draw": "gpu_power_readings/power_draw",
    "power.limit": "gpu_power_readings/current_power_limit",
    "enforced.power.limit": "gpu_power_readings/current_power_limit",
    "temperature.gpu": "temperature/gpu_temp",
    "clocks.sm": "clocks/sm_clock",
    "clocks.current.sm": "clocks/sm_clock",
    "clocks.mem": "clocks/mem_clock",
    "clocks.current.memory": "clocks/mem_clock",
    "clocks.max.sm": "max_clocks/sm_clock",
    "clocks.max.mem": "max_clocks/mem_clock",
    "clocks.max.memory": "max_clocks/mem_clock",
    "pcie.link.gen.current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "pcie.link.gen.max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "pcie.link.width.current": "pci/pci_gpu_link_info/link_widths/current_link_width",
    "pcie.link.width.max": "pci/pci_gpu_link_info/link_widths/max_link_width",
    "ecc.mode.current": "ecc_mode/current_ecc",
    "ecc.errors.corrected.volatile.total": "ecc_errors/volatile/single_bit/total",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors/volatile/double_bit/total",
    "remapped_rows.pending": "remapped_rows/remapped_row_pending",
    "remapped_rows.failure": "remapped_rows/remapped_row_failure",
    "mig.mode.current": "mig_mode/current_mig",
    "persistence_mode": "persistence_mode",
    "compute_mode": "compute_mode",
    "driver_model.current": "driver_model/current_dm",
    "fabric.state": "fabric/state",
    "gpu_recovery_action": "gpu_recovery_action",
}
_REASON = re.compile(r"clocks_(event|throttle)_reasons\.(?!active|supported)(\w+)$")
_FIELD = re.compile(r"[a-z][\w]*(?:\.\w+)*$", re.IGNORECASE)
_NEEDED = frozenset(
    (*_FIELDS, "index", "pid", "process_name", "used_gpu_memory", "compute_cap", "pci.bus_id", "gpu_bus_id")
)
_UNIT = re.compile(r"\s*\[([^\]]*)\]$")
_QUERY = re.compile(r"nvidia-smi\b.*--query-(?:gpu|compute-apps)[= ]([\w.,]+)")
_NAME = r"(?:NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID|RTX)\b"
_VALUE = re.compile(
    r"(?:[\d.]{1,20}(?: (?:MiB|W|MHz|%|C))?|0x[0-9A-Fa-f]+|GPU-[\w-]+|[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d|P\d{1,2}|"
    r"\[?(?:N/A|Not Supported|Unknown Error)\]?|Enabled|Disabled|Default|Exclusive_Process|Prohibited|\d{4}/\d\d/\d\d [\d:.]+)$"
)
_MIB = re.compile(r"(\d{1,9}) MiB$")
_VERSION = re.compile(r"\d{3}\.\d{2,3}(?:\.\d{2})?$")
_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")]


def _columns(line: str) -> list[tuple[str, str]]:
    """Parse the fields of a header line and their units; empty if the line is not a header."""
    columns = []
    for cell in _cells(line):
        unit = _UNIT.search(cell)
        name = cell[: unit.start()] if unit else cell
        if not _FIELD.match(name):
            return []
        columns.append((name, unit[1] if unit else ""))
    known = [name for name, _ in columns if name in _NEEDED]
    # A single "name" or "index" is an ordinary word.
    return columns if len(known) > 1 or (known and ("." in known[0] or "_" in known[0])) else []


def _columns_of(lines: Sequence[str], start: int) -> tuple[list[tuple[str, str]], int]:
    """Return the columns of the table at a line, from its header or from the command above, and its first row."""
    query = _QUERY.search(lines[start])
    columns = _columns(lines[start]) if query is None else [(name, "") for name in query[1].split(",")]
    first = start + 1
    if query and first < len(lines) and _columns(lines[first]):
        columns, first = _columns(lines[first]), first + 1
    return columns, first


def _extent(lines: Sequence[str], start: int) -> int:
    columns, first = _columns_of(lines, start)
    end = first
    while end < len(lines) and lines[end] and len(_cells(lines[end])) == len(columns):
        end += 1
    return end if columns and end > first else start


def _read(lines: Sequence[str]) -> Machine | None:
    columns, first = _columns_of(lines, 0)
    rows = [
        dict(zip((name for name, _ in columns), _cells(line), strict=False))
        for line in lines[first : first + _MAX_ROWS]
    ]
    units = {name: unit for name, unit in columns if unit}
    if any(name == "pid" for name, _ in columns):
        return _read_processes(rows)
    return _read_cards(rows, units)


def _read_cards(rows: list[dict[str, str]], units: dict[str, str]) -> Machine | None:
    log = new_log()
    cards: dict[int, Element] = {}
    capabilities: dict[int, str] = {}
    names: dict[str, int] = {}
    for row in rows:
        given = row.get("index", "")
        # Without an index, a repeated UUID or bus ID is the next sample of a loop.
        key = given or row.get("uuid") or row.get("gpu_uuid") or row.get("pci.bus_id") or f"row {len(names)}"
        index = (
            int(given) if given.isascii() and given.isdigit() and len(given) < 4 else names.setdefault(key, len(names))
        )
        if index in cards:
            continue
        gpu = cards[index] = add_gpu(log, row.get("pci.bus_id") or row.get("gpu_bus_id"))
        for field, value in row.items():
            if field.endswith("_version"):
                put(log, field, value)
            elif reason := _REASON.match(field):
                kind = f"clocks_{reason[1]}_reason"
                put(gpu, f"{kind}s/{kind}_{reason[2]}", value)
            elif field in _FIELDS:
                put(gpu, _FIELDS[field], _with_unit(field, value, units))
        if re.match(r"\d{1,2}\.\d$", row.get("compute_cap", "")):
            capabilities[index] = row["compute_cap"]
    machine = read_log(log, _SOURCE, tuple(cards))
    return _with_capabilities(machine, capabilities)


def _with_unit(field: str, value: str, units: dict[str, str]) -> str:
    if field.startswith("memory.") and value.isascii() and value.isdigit():
        return f"{value} {units.get(field, 'MiB')}"  # without units, nvidia-smi reports memory in MiB
    return value


def _with_capabilities(machine: Machine, capabilities: dict[int, str]) -> Machine:
    if not isinstance(machine.cards, Known):
        return machine
    cards = tuple(
        msgspec.structs.replace(card, compute_capability=Known(capabilities[card.index], _SOURCE))
        if card.index in capabilities
        else card
        for card in machine.cards.value
    )
    return msgspec.structs.replace(machine, cards=Known(cards, machine.cards.source))


def _read_processes(rows: list[dict[str, str]]) -> Machine | None:
    """Read --query-compute-apps: processes by card. Cards without processes are missing, so the numbers are arbitrary."""
    log = new_log()
    cards: dict[str, Element] = {}
    for row in sorted(rows, key=lambda row: row.get("gpu_bus_id", "")):
        place = row.get("gpu_bus_id") or row.get("gpu_uuid")
        if place is None:
            return None
        if place not in cards:
            cards[place] = add_gpu(log, row.get("gpu_bus_id"))
            put(cards[place], "product_name", row.get("gpu_name"))
            put(cards[place], "uuid", row.get("gpu_uuid"))
            SubElement(cards[place], "processes")
        listed = cards[place].find("processes")
        assert listed is not None
        info = SubElement(listed, "process_info")
        put(info, "pid", row.get("pid"))
        put(info, "type", "C")
        put(info, "process_name", row.get("process_name"))
        put(info, "used_memory", _with_unit("memory.used", row.get("used_gpu_memory") or "N/A", {}))
    return read_log(log, _SOURCE) if cards else None


# --- dmon ---------------------------------------------------------------------------------------------------------

_DMON = {
    "pwr": "gpu_power_readings/power_draw",
    "gtemp": "temperature/gpu_temp",
    "sm": "utilization/gpu_util",
    "mclk": "clocks/mem_clock",
    "pclk": "clocks/sm_clock",
}


def _dmon_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(re.compile(r"\s*#|\s*\d{1,3}(?:\s+[\d.-]+)+\s*$"), lines, start)


def _read_dmon(lines: Sequence[str]) -> Machine | None:
    names = lines[0].strip("# ").split()
    log = new_log()
    cards: dict[int, Element] = {}
    for line in lines[1 : 1 + _MAX_ROWS]:
        cells = line.split()
        if line.lstrip().startswith("#") or len(cells) != len(names) or int(cells[0]) in cards:
            continue
        gpu = cards[int(cells[0])] = add_gpu(log, None)
        for name, cell in zip(names, cells, strict=True):
            if name in _DMON and cell != "-":
                put(gpu, _DMON[name], cell)
    return read_log(log, "pasted nvidia-smi dmon", tuple(cards)) if cards else None


# --- without a header ---------------------------------------------------------------------------------------------


def _is_row(line: str) -> bool:
    """Return whether nvidia-smi could have written every cell and one is a name: sentences have commas, too."""
    cells = _cells(line[:2000])
    names = [cell for cell in cells if re.match(_NAME, cell) and len(cell) < 60]
    return len(cells) > 1 and len(names) == 1 and all(cell in names or _VALUE.match(cell) for cell in cells)


def _bare_extent(lines: Sequence[str], start: int) -> int:
    end = start
    while end < len(lines) and _is_row(lines[end]):
        end += 1
    return end


def _read_bare(lines: Sequence[str]) -> Machine | None:
    """Read only unambiguous cells: a name, a UUID, a bus ID, a driver; the largest size is the total memory."""
    log = new_log()
    indexes: list[int] = []
    for line in lines[:_MAX_ROWS]:
        cells = _cells(line)
        sizes = [int(size[1]) for cell in cells if (size := _MIB.match(cell))]
        gpu = add_gpu(log, next((cell for cell in cells if _BUS_ID.match(cell)), None))
        put(gpu, "product_name", next((cell for cell in cells if re.match(_NAME, cell)), None))
        put(gpu, "uuid", next((cell for cell in cells if cell.startswith("GPU-")), None))
        put(gpu, "fb_memory_usage/total", f"{max(sizes)} MiB" if sizes else None)
        put(log, "driver_version", next((cell for cell in cells if _VERSION.match(cell)), None))
        indexes.append(int(cells[0]) if re.match(r"\d{1,2}$", cells[0]) else len(indexes))
    ordered = len(set(indexes)) == len(indexes)
    return read_log(log, f"{_SOURCE}, without its header", indexes if ordered else ())


# No two parts of these may match the same characters: a line of commas or underscores would take forever.
_OPENING = (
    r"(?:\S{1,200} ){0,6}\S{0,200}nvidia-smi(?: \S{1,200}){0,6} --query-(?:gpu|compute-apps)"
    r"|(?:[a-z][\w.]*(?: \[[^\]]*\])?, ?)+[a-z][\w.]*(?: \[[^\]]*\])?\s*$"
    r"|[a-z][a-z0-9]*(?:[._][A-Za-z0-9]+)+(?: \[[^\]]*\])?\s*$"
)
KINDS = (
    ReportKind("nvidia-smi CSV", _OPENING, _extent, _read, width=20_000),
    ReportKind("nvidia-smi CSV", rf"(?:[^,]{{0,100}},){{0,20}}\s*{_NAME}", _bare_extent, _read_bare),
    ReportKind("nvidia-smi dmon", r"\s*# gpu\s+\w", _dmon_extent, _read_dmon),
)

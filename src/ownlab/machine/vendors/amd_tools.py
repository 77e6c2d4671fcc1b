"""Parses the output of AMD's tools: amd-smi (table, text, JSON), rocm-smi (table, -a, JSON) and rocminfo."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

import msgspec

from ownlab.machine.facts import NOT_READ, Fact, Known, Unknown
from ownlab.machine.records import Amd, Card, Clocks, Pcie
from ownlab.text import text
from ownlab.units import GIB, KIB, MIB

__all__ = ["parse_amd_smi", "parse_amd_versions", "parse_rocm_smi", "parse_rocminfo"]

T = TypeVar("T", int, float, str)

_NO_VALUE = {"", "n/a", "na", "none", "unknown", "not supported", "unsupported"}
_LONGEST_LINE = 400
_MOST_BLOCKS = 1000
# AMD's tools write MB and GB for powers of 1024: an MI210 with 64 GiB has 65520 MB.
_SIZES = {"B": 1, "KB": KIB, "MB": MIB, "GB": GIB}


def parse_amd_versions(content: str, *, source: str) -> Amd:
    """Parse the driver's and ROCm's versions in the headings of AMD's tools."""
    heads = r"amdgpu version:|ROCk module version|Driver version\"?:|NAME\"?: \"?amdgpu\"?,?\s+\"?VERSION\"?:"
    driver = re.search(rf"(?:{heads})\s*\"?(\d[\w.+-]*)", content, re.IGNORECASE)
    rocm = re.search(r"ROCm version:\s*(\d[\w.]*)", content)
    return Amd(
        driver=Known(driver.group(1), source=source) if driver else NOT_READ,
        rocm=Known(rocm.group(1), source=source) if rocm else NOT_READ,
    )


# --- amd-smi ----------------------------------------------------------------------------------------------------------


def parse_amd_smi(content: str) -> tuple[Card, ...]:
    """Parse the cards in `amd-smi`, `amd-smi list`, `static` or `metric`, text or JSON, complete or truncated.

    Several outputs in one text are merged.
    """
    cards = _Cards()
    for block in islice(_amd_smi_blocks(content), _MOST_BLOCKS):
        cards.add(_amd_smi_card(block))
    for card in _amd_smi_table(_short_lines(content)):
        cards.add(card)
    return cards.all()


def _amd_smi_blocks(content: str) -> Iterator[Mapping[str, Any]]:
    """Yield the sections of each GPU. Truncated JSON, or JSON between other text, is read as indented text."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        starts = [match.start() for match in re.finditer(r'^[ \t]*"?gpu"?:[ \t]*\d+,?[ \t]*\r?$', content, re.M | re.I)]
        for start, end in zip(starts, [*starts[1:], len(content)], strict=False):
            yield _indented(content[start:end])
        return
    items = document.get("gpu_data", [document]) if isinstance(document, dict) else document
    yield from (item for item in items if isinstance(item, dict)) if isinstance(items, list) else ()


def _indented(content: str) -> Mapping[str, Any]:
    """Parse lines of `KEY: value`, nested by indentation; quotes, braces and commas of JSON are dropped."""
    top: dict[str, Any] = {}
    stack: list[tuple[int, dict[str, Any]]] = [(-1, top)]
    for line in content.splitlines():
        match = re.match(r'(\s*)"?([\w ]+?)"?\s*:\s*(.*)$', line)
        if match is None:
            continue
        depth, key, value = len(match.group(1).expandtabs()), match.group(2).lower(), match.group(3).strip(' ",{[')
        while stack[-1][0] >= depth:
            stack.pop()
        if value:
            stack[-1][1].setdefault(key, value)
        else:
            inner: dict[str, Any] = {}
            stack[-1][1].setdefault(key, inner)
            stack.append((depth, inner))
        # In text, the sections are indented deeper than "GPU: 0"; in JSON, they are not.
        if key == "gpu":
            stack = [(-1, top)]
    return top


def _amd_smi_card(block: Mapping[str, Any]) -> Card | None:
    index = _number(block.get("gpu"))
    if index is None:
        return None
    source = "amd-smi"

    def of(section: str, *keys: str) -> object:
        inner = block.get(section)
        values = [inner[key] for key in keys if key in inner] if isinstance(inner, Mapping) else []
        return values[0] if values else None

    return Card(
        vendor="amd",
        index=int(index),
        name=_text(of("asic", "market_name"), source),
        uuid=_text(block.get("uuid"), source),
        bus_id=_text(block.get("bdf") or of("bus", "bdf"), source),
        architecture=_text(of("asic", "target_graphics_version"), source),
        memory_total=_size(of("mem_usage", "total_vram") or of("vram", "size", "vram_size_mb"), source),
        memory_used=_size(of("mem_usage", "used_vram"), source),
        utilisation=_whole(of("usage", "gfx_activity"), source, "%"),
        power_draw=_watts(of("power", "socket_power", "current_socket_power"), source),
        power_limit=_watts(of("limit", "socket_power", "max_power"), source),
        temperature=_whole(_edge_or_hot_spot(block.get("temperature")), source, "°C"),
        pcie=Pcie(
            generation_max=_whole(str(of("bus", "pcie_interface_version")).removeprefix("Gen "), source, None),
            width_max=_whole(of("bus", "max_pcie_width"), source, None),
            width=_whole(of("pcie", "width"), source, None),
        ),
    )


def _edge_or_hot_spot(section: object) -> object:
    """Return the edge temperature if the card has that sensor; data-center cards have only the hot spot."""
    if not isinstance(section, Mapping):
        return None
    readings = (section.get("edge"), section.get("hotspot"))
    return next((reading for reading in readings if _number(reading) is not None), None)


def _amd_smi_table(content: str) -> Iterator[Card]:
    """Parse the table that amd-smi 26 (ROCm 7) prints without arguments: two rows per card."""
    rows = re.finditer(
        r"^[^\w\n]*(?P<bus>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)\s+(?P<name>\S.*?)\s*\|(?P<head>.*)\|\s*\n"
        r"[^\w\n]*(?P<index>\d+)\s[^|]*\|(?P<use>\s*\S+)(?P<tail>.*)\|",
        content,
        re.MULTILINE | re.IGNORECASE,
    )
    for row in rows:
        source = "amd-smi"
        power = re.search(r"(\S+)/(\S+) W", row["head"])
        memory = re.search(r"(\d+)/(\d+) MB", row["tail"])
        temperature = re.search(r"(\d+) \S{1,3}C\b", row["head"])
        yield Card(
            vendor="amd",
            index=int(row["index"]),
            name=_text(row["name"].lstrip("."), source),  # a long name loses its beginning: "...Instinct MI300X OAM"
            bus_id=_text(row["bus"], source),
            memory_used=_size(f"{memory.group(1)} MB" if memory else None, source),
            memory_total=_size(f"{memory.group(2)} MB" if memory else None, source),
            utilisation=_whole(row["use"], source, "%"),
            power_draw=_watts(power.group(1) if power else None, source),
            power_limit=_watts(power.group(2) if power else None, source),
            temperature=_whole(temperature.group(1) if temperature else None, source, "°C"),
        )


# --- rocm-smi ---------------------------------------------------------------------------------------------------------


def parse_rocm_smi(content: str) -> tuple[Card, ...]:
    """Parse the cards in `rocm-smi`, `rocm-smi -a` or `rocm-smi --json`. Several outputs in one text are merged."""
    cards = _Cards()
    values: dict[int, dict[str, str]] = {}
    for index, key, value in (*_rocm_smi_json(content), *_rocm_smi_lines(_short_lines(content))):
        values.setdefault(index, {}).setdefault(key.lower(), value)
    for index, fields in values.items():
        cards.add(_rocm_smi_card(index, fields))
    for card in _rocm_smi_table(_short_lines(content)):
        cards.add(card)
    return cards.all()


def _rocm_smi_json(content: str) -> Iterator[tuple[int, str, str]]:
    """Yield the pairs of the JSON form. It is flat, so no JSON parser is needed, and truncated JSON is read, too."""
    index = None
    for match in re.finditer(r'"card(\d+)":\s*\{|"([^"\n]+)":\s*"([^"\n]*)"|\}', content):
        if match.group(1):
            index = int(match.group(1))
        elif match.group(2) is None:
            index = None
        elif index is not None:
            yield index, match.group(2).rstrip(":"), match.group(3)


def _rocm_smi_lines(content: str) -> Iterator[tuple[int, str, str]]:
    """Yield the pairs of `GPU[0] : Key: value`."""
    for match in re.finditer(r"^GPU\[(\d+)\][ \t]*:[ \t]*([^:\n]+):[ \t]*(?:\S+: )?(\S.*)$", content, re.MULTILINE):
        yield int(match.group(1)), match.group(2).strip(), match.group(3).strip()


def _rocm_smi_card(index: int, values: Mapping[str, str]) -> Card:
    source = "rocm-smi"

    def of(*keys: str) -> str | None:
        known = (values[key.lower()] for key in keys if key.lower() in values)
        # If rocm-smi does not know a name, it writes the vendor's or the device's number.
        return next((value for value in known if not value.startswith("0x") or "id" in keys[0].lower()), None)

    unique = of("Unique ID")
    sensors = ("Temperature (Sensor edge) (C)", "Temperature (Sensor junction) (C)")
    draw = of("Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)")
    return Card(
        vendor="amd",
        index=index,
        name=_text(of("Device Name", "Card Series", "Card series", "Card model"), source),
        uuid=_text(f"GPU-{unique[2:]:0>16}" if unique and unique.startswith("0x") else None, source),
        bus_id=_text((of("PCI Bus") or "").lower() or None, source),
        architecture=_text(of("GFX Version"), source),
        memory_total=_size(of("VRAM Total Memory (B)"), source),
        memory_used=_size(of("VRAM Total Used Memory (B)"), source),
        utilisation=_whole(of("GPU use (%)"), source, "%"),
        power_draw=_watts(draw, source),
        power_limit=_watts(of("Max Graphics Package Power (W)"), source),
        temperature=_whole(of(*sensors), source, "°C"),
        clocks=Clocks(
            sm=_whole(_mhz(of("sclk clock speed", "sclk clock level")), source, "MHz"),
            memory=_whole(_mhz(of("mclk clock speed", "mclk clock level")), source, "MHz"),
        ),
    )


def _mhz(content: str | None) -> str | None:
    match = re.search(r"(\d+)\s*mhz", content or "", re.IGNORECASE)
    return match.group(1) if match else None


def _rocm_smi_table(content: str) -> Iterator[Card]:
    """Parse the concise table. The columns before the fan differ by release; the others are the same."""
    rows = re.finditer(
        r"^(?P<index>\d+)[ \t]+(?P<head>\S.*?)[ \t]+(?P<fan>[\d.]+%|N/A)[ \t]+(?P<perf>[a-z_]+)[ \t]+"
        r"(?P<cap>\S+?)W?[ \t]+(?P<vram>\S+)[ \t]+(?P<use>\S+?)%?[ \t]*$(?:\n[ \t]+(?P<name>[A-Za-z].*\S)[ \t]*$)?",
        content,
        re.MULTILINE,
    )
    for row in rows:
        source = "rocm-smi"
        temperature = re.search(r"([\d.]+)\S{0,3}[cC]\b", row["head"])
        draw = re.search(r"([\d.]+)W\b", row["head"])
        clocks = re.findall(r"(\d+)Mhz", row["head"])
        yield Card(
            vendor="amd",
            index=int(row["index"]),
            name=_text(row["name"], source),
            utilisation=_whole(row["use"], source, "%"),
            power_draw=_watts(draw.group(1) if draw else None, source),
            power_limit=_watts(row["cap"], source),
            temperature=_whole(temperature.group(1) if temperature else None, source, "°C"),
            clocks=Clocks(
                sm=_whole(clocks[0] if clocks else None, source, "MHz"),
                memory=_whole(clocks[1] if len(clocks) > 1 else None, source, "MHz"),
            ),
        )


# --- rocminfo ---------------------------------------------------------------------------------------------------------


def parse_rocminfo(content: str) -> tuple[Card, ...]:
    """Parse the cards in `rocminfo`: its agents that are GPUs."""
    content = _short_lines(content)
    cards: list[Card] = []
    for agent in re.split(r"^\*+\s*\nAgent \d+\s*\n\*+\s*$", content, flags=re.MULTILINE)[1:]:
        values: dict[str, str] = {}
        for key, value in re.findall(r"^[ \t]*([^:\n]+?):+[ \t]*(\S.*)$", agent, re.MULTILINE):
            values.setdefault(key, value.strip())  # the agent's own lines come before those of its ISA
        if values.get("Device Type") != "GPU":
            continue
        pool = re.search(r"Segment:\s*GLOBAL.*\n\s*Size:\s*(\d+)(?:\(0x\w+\))?\s*KB", agent)
        source = "rocminfo"
        cards.append(
            Card(
                vendor="amd",
                index=len(cards),
                name=_text(values.get("Marketing Name"), source),
                uuid=_text(values.get("Uuid") if values.get("Uuid") != "GPU-XX" else None, source),
                bus_id=_text(_bus_id(values.get("BDFID")), source),
                architecture=_text(values.get("Name"), source),
                memory_total=_size(f"{pool.group(1)} KB" if pool else None, source),
                clocks=Clocks(sm_max=_whole(values.get("Max Clock Freq. (MHz)"), source, "MHz")),
            )
        )
    return tuple(cards)


def _bus_id(bdf: str | None) -> str | None:
    if bdf is None or not bdf.isdigit():
        return None
    number = int(bdf)
    return f"0000:{number >> 8:02x}:{(number >> 3) & 0x1F:02x}.{number & 7}"


# --- values -----------------------------------------------------------------------------------------------------------


class _Cards:
    """Cards by index, each field from the first output that has it."""

    def __init__(self) -> None:
        self._cards: dict[int, Card] = {}

    def add(self, card: Card | None) -> None:
        if card is not None and _has_known_fact(card):
            known = self._cards.get(card.index)
            self._cards[card.index] = _merged(known, card) if known else card

    def all(self) -> tuple[Card, ...]:
        return tuple(self._cards[index] for index in sorted(self._cards))


def _has_known_fact(record: msgspec.Struct) -> bool:
    values = (getattr(record, field) for field in record.__struct_fields__)
    return any(
        isinstance(value, Known) or (isinstance(value, Clocks | Pcie) and _has_known_fact(value)) for value in values
    )


def _merged(first: Any, second: Any) -> Any:
    """Merge two records of one thing: the second fills in what the first does not know."""
    if isinstance(first, Known | Unknown) or not isinstance(first, msgspec.Struct):
        return second if isinstance(first, Unknown) and isinstance(second, Known) else first
    fields = {field: _merged(getattr(first, field), getattr(second, field)) for field in first.__struct_fields__}
    return msgspec.structs.replace(first, **fields)


def _short_lines(content: str) -> str:
    """Drop lines that are too long for a table: on a megabyte of blanks, the patterns for a row would take forever."""
    return "\n".join(line for line in content.splitlines() if len(line) <= _LONGEST_LINE)


def _plain(value: object) -> str:
    """Convert "16 GT/s" or {"value": 16, "unit": "GT/s"} to "16 GT/s"."""
    if isinstance(value, Mapping):
        return f"{value.get('value', '')} {value.get('unit', '')}".strip()
    return "" if value is None else str(value).strip()


def _number(value: object) -> float | None:
    match = re.match(r"-?\d+(?:\.\d+)?", _plain(value))
    return float(match.group()) if match else None


def _fact(value: object, source: str, unit: str | None, convert: Callable[[str], T | None]) -> Fact[T]:
    plain = _plain(value)
    converted = convert(plain)
    if converted is not None:
        return Known(converted, source=source, unit=unit)
    reported = plain and plain.lower() not in _NO_VALUE
    return Unknown(
        text("{source} reports {value!r}", source=source, value=plain[:40])
        if reported
        else text("{source} does not report it", source=source)
    )


def _text(value: object, source: str) -> Fact[str]:
    return _fact(value, source, None, lambda plain: plain if plain.lower() not in _NO_VALUE else None)


def _watts(value: object, source: str) -> Fact[float]:
    # For integrated graphics without a power sensor, the tools report 0 W as draw and as limit.
    return _fact(value, source, "W", lambda plain: _number(plain) or None)


def _whole(value: object, source: str, unit: str | None) -> Fact[int]:
    def convert(plain: str) -> int | None:
        number = _number(plain)
        return None if number is None else round(number)

    return _fact(value, source, unit, convert)


def _size(value: object, source: str) -> Fact[int]:
    def convert(plain: str) -> int | None:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?B)?", plain)
        return round(float(match.group(1)) * _SIZES[match.group(2) or "B"]) if match else None

    return _fact(value, source, "B", convert)

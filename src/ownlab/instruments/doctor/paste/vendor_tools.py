"""Reads the output of vendors' tools: nvidia-smi's XML, npu-smi, amd-smi, rocm-smi, rocminfo, xpu-smi."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ownlab.errors import NotRecognised
from ownlab.instruments.doctor.paste.sections import ReportKind, end_of_run
from ownlab.machine.facts import NOT_READ, Known
from ownlab.machine.nvidia import nvidia_smi
from ownlab.machine.records import Amd, Card, Machine
from ownlab.machine.vendors.amd_tools import parse_amd_smi, parse_amd_versions, parse_rocm_smi, parse_rocminfo
from ownlab.machine.vendors.ascend import parse_npu_smi
from ownlab.text import text

__all__ = ["OTHERS", "XML_KIND", "read_amd_json"]

_FROM_AMD_SMI = text("pasted {program}", program="amd-smi")
_FROM_ROCM_SMI = text("pasted {program}", program="rocm-smi")
_MOST = 5_000_000  # characters in one report: 16 cards with all their processes have half a million
_TABLE = re.compile(r"\s*[|+]")


# --- nvidia-smi -q -x -------------------------------------------------------------------------------------------------


def _xml_extent(lines: Sequence[str], start: int) -> int:
    """Return the end of the closing tag or, if it was cut off, of the last lines of XML."""
    plain = 0
    for index in range(start, len(lines)):
        line = lines[index]
        if "</nvidia_smi_log>" in line:
            return index + 1
        if index > start and line.lstrip().startswith("<?xml"):
            return index
        plain = 0 if "<" in line else plain + 1
        if plain > 2:
            return index - 2
    return len(lines)


def _read_xml(lines: Sequence[str]) -> Machine | None:
    source = text("pasted {program}", program="nvidia-smi -q -x")
    try:
        nvidia, cards = nvidia_smi.parse("\n".join(lines)[:_MOST], source=source)
    except NotRecognised:  # the XML of another program, or only its head
        return None
    return Machine(origin="pasted", nvidia=nvidia, cards=Known(cards, source) if cards else NOT_READ)


XML_KIND = ReportKind(
    "nvidia-smi -q -x", r"\s*<(?:\?xml|nvidia_smi_log|!DOCTYPE nvidia_smi_log)", _xml_extent, _read_xml, width=10**8
)


# --- tables -----------------------------------------------------------------------------------------------------------


def _table_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(_TABLE, lines, start, blanks=1)


def _read_npu(lines: Sequence[str]) -> Machine | None:
    source = text("pasted {program}", program="npu-smi info")
    ascend, cards = parse_npu_smi("\n".join(lines)[:_MOST], source=source)
    return Machine(origin="pasted", ascend=ascend, cards=Known(cards, source)) if cards else None


def _read_xpu(lines: Sequence[str]) -> Machine | None:
    """Read `xpu-smi discovery`: the number of a device in the first column, its facts in the second."""
    source = text("pasted {program}", program="xpu-smi discovery")
    devices: list[dict[str, str]] = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 2:
            continue
        if cells[0].isdigit():
            devices.append({})
        key, _, value = cells[1].partition(":")
        if devices and value:
            devices[-1].setdefault(key.strip(), value.strip())
    cards = tuple(
        Card(
            vendor="intel",
            index=index,
            name=Known(device["Device Name"], source) if "Device Name" in device else NOT_READ,
            bus_id=Known(device["PCI BDF Address"], source) if "PCI BDF Address" in device else NOT_READ,
        )
        for index, device in enumerate(devices)
    )
    return Machine(origin="pasted", cards=Known(cards, source)) if cards else None


# --- AMD --------------------------------------------------------------------------------------------------------------


def _amd_reader(parse: Callable[[str], tuple[Card, ...]], source: str) -> Callable[[Sequence[str]], Machine | None]:
    def read(lines: Sequence[str]) -> Machine | None:
        text = "\n".join(lines)[:_MOST]
        cards, amd = parse(text), parse_amd_versions(text, source=source)
        if not cards and amd == Amd():
            return None
        return Machine(origin="pasted", amd=amd, cards=Known(cards, source) if cards else NOT_READ)

    return read


def read_amd_json(document: str) -> Machine | None:
    """Read `rocm-smi --json` or `amd-smi … --json`."""
    begin = document[:2000]
    rocm = _amd_reader(parse_rocm_smi, _FROM_ROCM_SMI)([document]) if re.search(r'"card\d+"\s*:', begin) else None
    return rocm or (_amd_reader(parse_amd_smi, _FROM_AMD_SMI)([document]) if '"gpu"' in begin else None)


_ROCM_SMI = re.compile(r"=|-|\s|GPU\[|GPU |\d+ |Device |Driver version|ERROR|WARNING|Expected|WARN|PID |PIDs|No KFD")
_AMD_SMI = re.compile(r"GPU: \d+\s*$|\s+\S")
_ROCMINFO = re.compile(r"=|\*|\s+\S|Agent \d|HSA |ROCk |Runtime |System |Sig\. |Machine Model|Mwaitx|DMAbuf|XNACK|VMM ")


def _rocm_smi_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(_ROCM_SMI, lines, start, blanks=5)


def _amd_smi_extent(lines: Sequence[str], start: int) -> int:
    end = end_of_run(_AMD_SMI, lines, start, blanks=1)
    return end if end > start + 1 else start


def _rocminfo_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(_ROCMINFO, lines, start, blanks=2)


OTHERS = (
    ReportKind("npu-smi info", r"\s*\|\s*(?:npu-smi\s+[\d.]|NPU\s+Name\s)", _table_extent, _read_npu),
    ReportKind("xpu-smi discovery", r"\s*\|\s*Device ID\s*\|\s*Device Information", _table_extent, _read_xpu),
    ReportKind(
        "amd-smi",
        r"\s*\|\s*AMD-SMI \d",
        _table_extent,
        _amd_reader(parse_amd_smi, _FROM_AMD_SMI),
    ),
    ReportKind(
        "amd-smi",
        r"GPU: \d+\s*$",
        _amd_smi_extent,
        _amd_reader(parse_amd_smi, _FROM_AMD_SMI),
        several="each",
    ),
    ReportKind(
        "rocm-smi",
        r"\s*=+ ?(?:ROCm System Management Interface|Concise Info)|GPU\[\d+\]\s*:",
        _rocm_smi_extent,
        _amd_reader(parse_rocm_smi, _FROM_ROCM_SMI),
        several="pieces",
        again=r"\s*=+ ?ROCm System Management Interface",
    ),
    ReportKind(
        "rocminfo",
        r"ROCk module|HSA System Attributes|HSA Agents\s*$|Agent \d+\s*$",
        _rocminfo_extent,
        _amd_reader(parse_rocminfo, text("pasted {program}", program="rocminfo")),
    ),
)

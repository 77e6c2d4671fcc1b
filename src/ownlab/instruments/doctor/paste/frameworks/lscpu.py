"""Reads the processor's part of collect_env: `lscpu` on Linux, WMI on Windows, a name on macOS."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ownlab.instruments.doctor.paste.merge import knows_something
from ownlab.instruments.doctor.paste.sections import Kind, run_of
from ownlab.machine.facts import NOT_READ, Known
from ownlab.machine.records import Cpu, Host, Machine

__all__ = ["KIND", "LSCPU_LINE", "hypervisor_of", "read_cpu"]

# lscpu speaks the user's language; Chinese is the one that is met in reports beside English.
_KEYS = {
    "architecture": "architecture",
    "架构": "architecture",
    "model name": "model",
    "型号名称": "model",
    "name": "model",  # Windows: Name=…
    "cpu(s)": "logical",
    "cpu": "logical",
    "core(s) per socket": "per_socket",
    "每个座的核数": "per_socket",
    "socket(s)": "sockets",
    "座": "sockets",
    "hypervisor vendor": "hypervisor",
    "超管理器厂商": "hypervisor",
}
_LONGEST = 300
_PAIR = re.compile(r"([^:=：]{1,60}?)\s*[:=：]\s*(.*)$")
LSCPU_LINE = (
    r"\s*(?:Architecture|CPU op-mode|CPU 运行模式|Address sizes|Byte Order|字节序|CPU\(s\)|On-line CPU|在线 CPU|Vendor ID|"
    r"厂商 ID|Model name|型号名称|CPU family|CPU 系列|Model|型号|Thread\(s\) per|每个核|Core\(s\) per|每个座|Socket\(s\)|座|Cluster|"
    r"Stepping|步进|Frequency boost|CPU MHz|CPU max|CPU min|CPU 最[大小]|BogoMIPS|Flags|标记|Virtualization|虚拟化|"
    r"Hypervisor|超管理器|L[123][di]? (?:cache|缓存)|L[123][di]? |NUMA|Vulnerability|Microcode|架构|Caches|CPU:)"
    r"[^:=：\n]{0,60}[:：]"
)
_LINE = re.compile(LSCPU_LINE)
_MACHINES = {"9": "x86_64", "12": "arm64", "0": "x86"}  # WMI's Win32_Processor.Architecture
_HYPERVISORS = {"kvm": "kvm", "vmware": "vmware", "microsoft": "hyperv", "xen": "xen", "oracle": "virtualbox"}


def _pairs(lines: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        match = _PAIR.match(line.strip()[:_LONGEST])
        if match is not None and match[2]:
            key = _KEYS.get(match[1].strip().lower())
            if key is not None:
                found.setdefault(key, match[2].strip())
    return found


def read_cpu(lines: Sequence[str], source: str) -> Cpu:
    """The processor, from the lines of its part."""
    found = _pairs(lines)

    def number(key: str) -> int | None:
        text = found.get(key, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None

    model = found.get("model") or next((line.strip() for line in lines if line.strip().startswith("Apple M")), None)
    logical, cores, sockets = number("logical"), number("per_socket"), number("sockets")
    machine = found.get("architecture")
    return Cpu(
        model=Known(model, source) if model else NOT_READ,
        architecture=Known(_MACHINES.get(machine, machine), source) if machine else NOT_READ,
        logical_cores=Known(logical, source) if logical else NOT_READ,
        physical_cores=Known(cores * sockets, source) if cores and sockets else NOT_READ,
    )


def hypervisor_of(lines: Sequence[str]) -> str | None:
    """kvm, vmware, hyperv, …; None where lscpu names none."""
    vendor = _pairs(lines).get("hypervisor", "").lower()
    return next((kind for name, kind in _HYPERVISORS.items() if name in vendor), None)


def _extent(lines: Sequence[str], start: int) -> int:
    return run_of(_LINE, lines, start)


def _read(lines: Sequence[str]) -> Machine | None:
    source = "pasted lscpu"
    named = hypervisor_of(lines)
    host = Host(virtualisation=Known(named, source) if named else NOT_READ, cpu=read_cpu(lines, source))
    return Machine(origin="pasted", host=host) if knows_something(host) else None


KIND = Kind(
    "lscpu", r"\s*(?:Architecture|Model name|CPU\(s\)|Thread\(s\) per core):\s", _extent, _read, several="pieces"
)

"""Reads `nvcc --version`, `lspci -k`, torch.__config__.show() and `lscpu`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ownlab.instruments.doctor.paste.merge import knows_something
from ownlab.instruments.doctor.paste.sections import ReportKind, end_of_run
from ownlab.machine.facts import NOT_READ, Known
from ownlab.machine.records import Card, Cpu, Framework, Host, Interpreter, Machine, PciDevice, Toolkits
from ownlab.text import text

__all__ = ["KINDS", "LSCPU_KIND", "LSCPU_LINE", "hypervisor_of", "read_cpu"]

# --- nvcc --version ---------------------------------------------------------------------------------------------------

_NVCC_LINE = re.compile(r"\s*(?:nvcc: NVIDIA|Copyright \(c\)|Built on|Cuda compilation tools|Build cuda_|Build local)")
_RELEASE = re.compile(r"release (\d{1,2}\.\d{1,2})(?:, V(\d+(?:\.\d+)+))?")


def _nvcc_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(_NVCC_LINE, lines, start)


def _read_nvcc(lines: Sequence[str]) -> Machine | None:
    release = next((match for line in lines if (match := _RELEASE.search(line))), None)
    if release is None:
        return None
    return Machine(
        origin="pasted",
        toolkits=Toolkits(nvcc=Known(release[2] or release[1], text("pasted {program}", program="nvcc --version"))),
    )


# --- lspci -k ---------------------------------------------------------------------------------------------------------

_PCI = re.compile(
    r"\s*(?P<bus>(?:[0-9a-f]{4,6}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d) "
    r"(?P<kind>VGA compatible controller|3D controller|Display controller|Processing accelerators)(?: \[[0-9a-f]{4}\])?: (?P<name>.*)"
)
_PCI_OPENING = r"\s*(?:[0-9a-f]{4,6}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d (?:VGA compatible|3D|Display) controller|\s*(?:[0-9a-f]{4,6}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d Processing accel"
_PCI_LINE = re.compile(r"\s+\S|\s*(?:[0-9a-f]{4,6}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d ")
_IDS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]")
_DRIVER = re.compile(r"\s*Kernel driver in use: (\S+)")
_KINDS = {"VGA": "display", "3D": "3d", "Display": "display", "Processing": "accelerator"}
_VENDORS = (("NVIDIA", "10de"), ("Advanced Micro Devices", "1002"), ("Intel", "8086"), ("Huawei", "19e5"))


# Cards of their own, not graphics of a processor, as lspci names them: [Radeon RX 7900 XT/7900 XTX/7900M].
_RADEON = re.compile(r"\[AMD/ATI\].*\[((?:AMD )?(?:Radeon (?:RX \d|Pro |PRO |VII|AI )|Instinct )[^\]]*)\]")


def _pci_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(_PCI_LINE, lines, start)


def _read_pci(lines: Sequence[str]) -> Machine | None:
    devices: list[PciDevice] = []
    latest: PciDevice | None = None
    for line in lines:
        if re.match(r"\s*(?:[0-9a-f]{4,6}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d ", line):
            latest = _device(line)
            if latest is not None:
                devices.append(latest)
        elif latest is not None and (driver := _DRIVER.match(line)):
            devices[-1] = PciDevice(latest.bus_id, latest.vendor, latest.device, latest.kind, driver[1])
    if not devices:
        return None
    source = text("pasted {program}", program="lspci")
    cards = _radeons(lines, source)
    return Machine(
        origin="pasted", host=Host(pci=Known(tuple(devices), source)), cards=Known(cards, source) if cards else NOT_READ
    )


def _radeons(lines: Sequence[str], source: str) -> tuple[Card, ...]:
    """Return AMD's cards: other tools that name them may be missing, as their driver is part of the kernel."""
    names = (match[1] for line in lines if _PCI.match(line) and (match := _RADEON.search(line)))
    return tuple(Card(vendor="amd", index=index, name=Known(name, source)) for index, name in enumerate(names))


def _device(line: str) -> PciDevice | None:
    match = _PCI.match(line)
    if match is None:
        return None
    ids = _IDS.search(match["name"])
    vendor = next((number for name, number in _VENDORS if name in match["name"]), "")
    bus = match["bus"] if match["bus"].count(":") == 2 else f"0000:{match['bus']}"
    # Without -nn, lspci prints the name of a device, but not its number.
    return PciDevice(bus, ids[1] if ids else vendor, ids[2] if ids else "", _KINDS[match["kind"].split()[0]], None)


# --- torch.__config__.show() ------------------------------------------------------------------------------------------

_BUILT = r"(?:.{0,200}\s)?PyTorch built with:\s*$"
_BUILT_SOURCE = text("pasted {program}", program="torch.__config__.show()")


def _built_extent(lines: Sequence[str], start: int) -> int:
    end = end_of_run(re.compile(r"\s*- "), lines, start + 1)
    return end if end > start + 1 else start


def _read_built(lines: Sequence[str]) -> Machine | None:
    text = "\n".join(lines)
    cuda = re.search(r"- CUDA Runtime (\d+\.\d+)", text)
    codes = tuple(dict.fromkeys(re.findall(r"code=((?:sm|compute)_\d+\w?)", text)))
    cudnn, version = re.search(r"CUDNN_VERSION=([\d.]+)", text), re.search(r"TORCH_VERSION=([^,\s]+)", text)
    torch = Framework(
        name="torch",
        version=Known(version[1], _BUILT_SOURCE) if version else NOT_READ,
        build=Known("cuda", _BUILT_SOURCE) if cuda else NOT_READ,
        cuda=Known(cuda[1], _BUILT_SOURCE) if cuda else NOT_READ,
        cudnn=Known(cudnn[1], _BUILT_SOURCE) if cudnn else NOT_READ,
        arch_list=Known(codes, _BUILT_SOURCE) if codes else NOT_READ,
    )
    return Machine(origin="pasted", interpreter=Interpreter(frameworks=Known((torch,), _BUILT_SOURCE)))


KINDS = (
    ReportKind(
        "nvcc --version",
        r"\s*(?:nvcc: NVIDIA|Cuda compilation tools, release)",
        _nvcc_extent,
        _read_nvcc,
        several="each",
    ),
    ReportKind("lspci", _PCI_OPENING, _pci_extent, _read_pci, several="each"),
    ReportKind("torch.__config__", _BUILT, _built_extent, _read_built, width=8000),
)


# --- lscpu ------------------------------------------------------------------------------------------------------------

# lscpu uses the user's language; reports are mostly in English and sometimes in Chinese.
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
    pairs: dict[str, str] = {}
    for line in lines:
        match = _PAIR.match(line.strip()[:_LONGEST])
        if match is not None and match[2]:
            key = _KEYS.get(match[1].strip().lower())
            if key is not None:
                pairs.setdefault(key, match[2].strip())
    return pairs


def read_cpu(lines: Sequence[str], source: str) -> Cpu:
    """Read the CPU from the lines of `lscpu` (Linux), WMI (Windows) or the chip's name (macOS)."""
    pairs = _pairs(lines)

    def number(key: str) -> int | None:
        value = pairs.get(key, "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 6 else None

    model = pairs.get("model") or next((line.strip() for line in lines if line.strip().startswith("Apple M")), None)
    logical, cores, sockets = number("logical"), number("per_socket"), number("sockets")
    machine = pairs.get("architecture")
    return Cpu(
        model=Known(model, source) if model else NOT_READ,
        architecture=Known(_MACHINES.get(machine, machine), source) if machine else NOT_READ,
        logical_cores=Known(logical, source) if logical else NOT_READ,
        physical_cores=Known(cores * sockets, source) if cores and sockets else NOT_READ,
    )


def hypervisor_of(lines: Sequence[str]) -> str | None:
    """Return kvm, vmware, hyperv, …; None if lscpu names no hypervisor."""
    vendor = _pairs(lines).get("hypervisor", "").lower()
    return next((kind for name, kind in _HYPERVISORS.items() if name in vendor), None)


def _extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(_LINE, lines, start)


def _read(lines: Sequence[str]) -> Machine | None:
    source = text("pasted {program}", program="lscpu")
    hypervisor = hypervisor_of(lines)
    host = Host(virtualisation=Known(hypervisor, source) if hypervisor else NOT_READ, cpu=read_cpu(lines, source))
    return Machine(origin="pasted", host=host) if knows_something(host) else None


LSCPU_KIND = ReportKind(
    "lscpu", r"\s*(?:Architecture|Model name|CPU\(s\)|Thread\(s\) per core):\s", _extent, _read, several="pieces"
)

"""Reads `nvcc --version`, `lspci -k` and torch.__config__.show()."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ownlab.instruments.doctor.paste.sections import Kind, run_of
from ownlab.machine.facts import NOT_READ, Known
from ownlab.machine.records import Framework, Host, Interpreter, Machine, PciDevice, Toolkits

__all__ = ["KINDS"]

# --- nvcc --version ---------------------------------------------------------------------------------------------------

_NVCC_LINE = re.compile(r"\s*(?:nvcc: NVIDIA|Copyright \(c\)|Built on|Cuda compilation tools|Build cuda_|Build local)")
_RELEASE = re.compile(r"release (\d{1,2}\.\d{1,2})(?:, V(\d+(?:\.\d+)+))?")


def _nvcc_extent(lines: Sequence[str], start: int) -> int:
    return run_of(_NVCC_LINE, lines, start)


def _read_nvcc(lines: Sequence[str]) -> Machine | None:
    release = next((match for line in lines if (match := _RELEASE.search(line))), None)
    if release is None:
        return None
    return Machine(origin="pasted", toolkits=Toolkits(nvcc=Known(release[2] or release[1], "pasted nvcc --version")))


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
_MAKERS = (("NVIDIA", "10de"), ("Advanced Micro Devices", "1002"), ("Intel", "8086"), ("Huawei", "19e5"))


def _pci_extent(lines: Sequence[str], start: int) -> int:
    return run_of(_PCI_LINE, lines, start)


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
    return Machine(origin="pasted", host=Host(pci=Known(tuple(devices), "pasted lspci"))) if devices else None


def _device(line: str) -> PciDevice | None:
    match = _PCI.match(line)
    if match is None:
        return None
    ids = _IDS.search(match["name"])
    maker = next((number for name, number in _MAKERS if name in match["name"]), "")
    bus = match["bus"] if match["bus"].count(":") == 2 else f"0000:{match['bus']}"
    # Without -nn lspci names a device and leaves its number out.
    return PciDevice(bus, ids[1] if ids else maker, ids[2] if ids else "", _KINDS[match["kind"].split()[0]], None)


# --- torch.__config__.show() ------------------------------------------------------------------------------------------

_BUILT = r"(?:.{0,200}\s)?PyTorch built with:\s*$"
_BUILT_SOURCE = "pasted torch.__config__.show()"


def _built_extent(lines: Sequence[str], start: int) -> int:
    end = run_of(re.compile(r"\s*- "), lines, start + 1)
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
    Kind(
        "nvcc --version",
        r"\s*(?:nvcc: NVIDIA|Cuda compilation tools, release)",
        _nvcc_extent,
        _read_nvcc,
        several="each",
    ),
    Kind("lspci", _PCI_OPENING, _pci_extent, _read_pci, several="each"),
    Kind("torch.__config__", _BUILT, _built_extent, _read_built, width=8000),
)

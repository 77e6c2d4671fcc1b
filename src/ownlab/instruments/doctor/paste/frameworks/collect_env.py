"""Reads a report of the environment into a machine: torch's collect_env of any version, and the reports made after it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ownlab.instruments.doctor.paste.frameworks.collect_env_lines import OPENING, Report, extent, parse
from ownlab.instruments.doctor.paste.frameworks.lscpu import hypervisor_of, read_cpu
from ownlab.instruments.doctor.paste.frameworks.packages import installs_of, read_packages
from ownlab.instruments.doctor.paste.frameworks.torch_report import read_torch
from ownlab.instruments.doctor.paste.merge import knows_something
from ownlab.instruments.doctor.paste.nvidia_smi.gpu_list import read_gpu_list
from ownlab.instruments.doctor.paste.sections import Kind
from ownlab.instruments.doctor.paste.variables import environment_of
from ownlab.machine.facts import NOT_READ, Fact, Known, Unknown
from ownlab.machine.records import (
    Amd,
    Card,
    Cpu,
    Framework,
    Host,
    Interpreter,
    LibraryInstall,
    Machine,
    Nvidia,
    Toolkits,
)

__all__ = ["KIND"]

_SOURCE = "pasted collect_env"
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_OS = re.compile(r"(.*?)\s*\((x86_64|aarch64|arm64|AMD64|ppc64le|[\d.]+ 64-bit)\)\s*$")
_KERNEL = re.compile(r"Linux-(.+?)-(?:x86_64|aarch64|ppc64le)-with|Linux-(.+?)(?:-with-\S+)?$")
_CUDNN = re.compile(r"libcudnn\.(?:so|\d+\.dylib)(?:\.(\d+(?:\.\d+)*))?$|cudnn(?:_\w+)?64_(\d+)\.dll$")
_MANAGERS = (
    (r"Ubuntu|Debian|Mint|Pop!_OS", "apt"),
    (r"Fedora|Rocky|AlmaLinux|Red Hat Enterprise Linux (?:release )?(?:8|9|10)|CentOS Stream", "dnf"),
    (r"Arch Linux|Manjaro", "pacman"),
    (r"SUSE", "zypper"),
)
# No AMD chip has these numbers: they are Hygon's, whose stack is derived from ROCm.
_HYGON = re.compile(r"gfx9[23]\d")


def read(lines: Sequence[str]) -> Machine | None:
    report = parse(lines)
    packages, conda_cudnn = read_packages(report.packages)
    cards = _cards(report)
    torch = read_torch(report, cards, packages, conda_cudnn, _SOURCE)
    python = _VERSION.match(report.fields.get("python", ""))
    machine = Machine(
        origin="pasted",
        host=_host(report),
        cards=cards,
        nvidia=Nvidia(driver=_version(report, "driver"), smi=_smi(report)),
        amd=Amd(rocm=_rocm(report)),
        toolkits=_toolkits(report, installs_of(packages, "cudnn", _SOURCE), installs_of(packages, "nccl", _SOURCE)),
        interpreter=Interpreter(
            version=Known(python[0], _SOURCE) if python else NOT_READ,
            packages=Known(packages, _SOURCE) if packages else NOT_READ,
            frameworks=_frameworks(report, torch),
        ),
        environment=environment_of(report.variables),
    )
    return machine if knows_something(machine) else None


def _frameworks(report: Report, torch: Framework | None) -> Fact[tuple[Framework, ...]]:
    if torch is not None:
        return Known((torch,), _SOURCE)
    return Known((), f"{_SOURCE}: torch is not installed") if report.fields.get("torch") == "N/A" else NOT_READ


def _version(report: Report, key: str) -> Fact[str]:
    value = report.fields.get(key)
    if value is None:
        return NOT_READ
    match = _VERSION.search(value)
    return Known(match[0], _SOURCE) if match and "ollect" not in value else Unknown(f'collect_env says "{value}"')


def _smi(report: Report) -> Fact[str]:
    said = {report.fields.get("driver"), report.fields.get("gpus")}
    if said <= {"Could not collect", "No CUDA", "N/A"}:
        return Unknown("nvidia-smi is missing, or gave collect_env no answer")
    return NOT_READ


def _rocm(report: Report) -> Fact[str]:
    for key in ("rocm installed", "hip"):
        match = re.match(r"\d[\w.-]*", report.fields.get(key, ""))
        if match:
            return Known(match[0], f"{_SOURCE}: {'hipcc' if key == 'rocm installed' else 'HIP runtime'}")
    return NOT_READ


# --- the cards --------------------------------------------------------------------------------------------------------


def _cards(report: Report) -> Fact[tuple[Card, ...]]:
    cards = read_gpu_list(report.gpus, _SOURCE)
    if cards:
        return Known(cards, _SOURCE)
    intel = _intel_cards(report.intel)
    if intel:
        return Known(intel, _SOURCE)
    chip = next((line.strip() for line in report.cpu if line.strip().startswith("Apple M")), None)
    if chip or re.match(r"macOS.*\(arm64\)", report.fields.get("os", "")):
        name: Fact[str] = Known(chip, f"{_SOURCE}: CPU") if chip else Unknown("collect_env does not name the chip")
        return Known((Card("apple", 0, name=name),), f"{_SOURCE}: every Mac with an Apple chip has its GPU")
    said = report.fields.get("gpus") or report.fields.get("gpu type")
    if said is None:
        return NOT_READ
    if said in ("", "Could not collect", "No CUDA", "N/A"):
        return Unknown(f'collect_env lists no card ("{said}"): nvidia-smi is missing, or failed')
    return _first_card(report, said)


def _first_card(report: Report, said: str) -> Fact[tuple[Card, ...]]:
    """ROCm builds name only the first card, with its chip: "AMD Instinct MI250X (gfx90a:sramecc+:xnack-)"."""
    match = re.match(r"(.*?)\s*(?:\((gfx\w+)[^)]*\))?$", said)
    name, chip = (match[1], match[2]) if match else (said, None)
    if report.fields.get("rocm", "N/A")[:1].isdigit() or chip:
        vendor = "hygon" if chip and _HYGON.match(chip) else "amd"
    elif "AMD" in name or "Radeon" in name or "Instinct" in name:
        vendor = "amd"
    else:
        vendor = "nvidia"
    card = Card(vendor, 0, name=Known(name, _SOURCE), architecture=Known(chip, _SOURCE) if chip else NOT_READ)
    return Known((card,), f"{_SOURCE} (which names the first card only)")


def _intel_cards(lines: Sequence[str]) -> tuple[Card, ...]:
    """From what torch detected, else from what is on board."""
    detected = [match[1] for line in lines if (match := re.match(r"\* \[\d+\].*?name='([^']*)'", line))]
    onboard = [line[2:].strip() for line in lines if re.match(r"\* Intel", line)]
    names = detected if len(detected) >= len(onboard) else onboard  # the longer: either list may be cut
    return tuple(Card("intel", index, name=Known(name, _SOURCE)) for index, name in enumerate(names))


# --- the host ---------------------------------------------------------------------------------------------------------


def _host(report: Report) -> Host:
    fields = report.fields
    platform, os_line = fields.get("platform", ""), fields.get("os", "")
    system, machine = _system(os_line)
    kernel = _KERNEL.match(platform)
    libc = fields.get("libc", "")
    cpu = read_cpu(report.cpu, _SOURCE)
    if isinstance(cpu.architecture, Unknown) and machine:
        cpu = Cpu(cpu.model, Known(machine, _SOURCE), cpu.physical_cores, cpu.logical_cores)
    manager = next((name for sign, name in _MANAGERS if re.search(sign, system or "")), None)
    return Host(
        system=Known(system, _SOURCE) if system else NOT_READ,
        family=_family(report),
        kernel=Known(kernel[1] or kernel[2], _SOURCE) if kernel else NOT_READ,
        libc=Known(libc.replace("-", " "), _SOURCE) if libc and _VERSION.search(libc) else NOT_READ,
        virtualisation=_virtualisation(report),
        # Set in NVIDIA's CUDA images, and by nothing else.
        container=Known("container", "NVIDIA_REQUIRE_CUDA is set")
        if "NVIDIA_REQUIRE_CUDA" in report.variables
        else NOT_READ,
        package_manager=Known(manager, f"{_SOURCE}: OS") if manager else NOT_READ,
        cpu=cpu,
    )


def _system(os_line: str) -> tuple[str | None, str | None]:
    if not os_line or os_line in ("Could not collect", "N/A"):
        return None, None
    match = _OS.match(os_line)
    name, machine = (match[1], match[2]) if match else (os_line, None)
    # Windows says its maker's name first, in the console's own code page.
    windows = re.search(r"Windows .*", name)
    return (windows[0] if windows else name), machine if machine and machine[0].isalpha() else None


def _family(report: Report) -> Fact[str]:
    words = f"{report.fields.get('os', '')} {report.fields.get('platform', '')}"
    for sign, family in (("Windows", "windows"), ("macOS", "darwin"), ("Darwin", "darwin"), ("Mac OS", "darwin")):
        if sign in words:
            return Known(family, _SOURCE)
    if (
        "Linux" in words
        or "glibc" in report.fields.get("libc", "")
        or re.search(r"Ubuntu|Debian|Fedora|CentOS|Red Hat", words)
    ):
        return Known("linux", _SOURCE)
    if any(line[1:3] == ":\\" for line in report.cudnn):
        return Known("windows", f"{_SOURCE}: cuDNN's path")
    return NOT_READ


def _virtualisation(report: Report) -> Fact[str]:
    platform = report.fields.get("platform", "")
    if "microsoft" in platform.lower():
        return Known("wsl2" if "WSL2" in platform or "microsoft-standard" in platform else "wsl1", f"{_SOURCE}: kernel")
    named = hypervisor_of([*report.cpu, f"Hypervisor vendor: {report.fields.get('hypervisor', '')}"])
    return Known(named, f"{_SOURCE}: lscpu") if named else NOT_READ


# --- toolkits ---------------------------------------------------------------------------------------------------------


def _toolkits(report: Report, cudnn: tuple[LibraryInstall, ...], nccl: tuple[LibraryInstall, ...]) -> Toolkits:
    home = report.fields.get("cuda_home") or report.variables.get("CUDA_HOME")
    nvcc = report.fields.get("nvcc", "")
    version = re.search(r"V(\d+(?:\.\d+)+)", nvcc) or (_VERSION.match(nvcc))
    files = []
    for line in report.cudnn:
        found = _CUDNN.search(line)
        if found:
            number = found[1] or found[2]
            files.append(
                LibraryInstall(line, Known(number, "its file name") if number else Unknown("its name does not say"))
            )
    installs = (*files, *cudnn)
    return Toolkits(
        nvcc=Known(version[1] if version.re.groups else version[0], f"{_SOURCE} (nvcc)")
        if version
        else _version(report, "nvcc"),
        cuda_home=Known(home, _SOURCE) if home and home not in ("None", "N/A") else NOT_READ,
        cudnn=Known(installs, _SOURCE) if installs else NOT_READ,
        nccl=Known(nccl, _SOURCE) if nccl else NOT_READ,
    )


KIND = Kind(
    "torch collect_env",
    OPENING,
    extent,
    read,
    width=8000,
    several="pieces",
    again=r"[\s*-]*PyTorch(?: version[^:]{0,20})?\s*:",
)

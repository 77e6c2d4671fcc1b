"""Reads an environment report as a machine: torch's collect_env of any version, and the reports modelled on it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ownlab.instruments.doctor.paste.collect_env_lines import OPENING, Report, extent, parse
from ownlab.instruments.doctor.paste.facts_in_prose import environment_of
from ownlab.instruments.doctor.paste.merge import knows_something
from ownlab.instruments.doctor.paste.nvidia_smi_table import read_gpu_list
from ownlab.instruments.doctor.paste.packages import build_of, cuda_of, installs_of, read_packages, rocm_of
from ownlab.instruments.doctor.paste.sections import ReportKind
from ownlab.instruments.doctor.paste.system_tools import hypervisor_of, read_cpu
from ownlab.machine.facts import NOT_READ, Fact, Known, Unknown, value_of
from ownlab.machine.records import (
    Amd,
    Card,
    Cpu,
    Framework,
    FrameworkDevice,
    Host,
    Interpreter,
    LibraryInstall,
    Machine,
    Nvidia,
    Package,
    Toolkits,
)
from ownlab.text import text

__all__ = ["KIND", "read_torch"]

_SOURCE = text("pasted {program}", program="collect_env")
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
# These numbers belong to Hygon, whose software is derived from ROCm; no AMD chip has them.
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
    return (
        Known(match[0], _SOURCE)
        if match and "ollect" not in value
        else Unknown(text('collect_env reports "{value}"', value=value))
    )


def _smi(report: Report) -> Fact[str]:
    values = {report.fields.get("driver"), report.fields.get("gpus")}
    if values <= {"Could not collect", "No CUDA", "N/A"}:
        return Unknown(text("nvidia-smi is missing, or did not work for collect_env"))
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
        name: Fact[str] = (
            Known(chip, f"{_SOURCE}: CPU") if chip else Unknown(text("collect_env does not name the chip"))
        )
        return Known((Card("apple", 0, name=name),), f"{_SOURCE}: every Mac with an Apple chip has its GPU")
    listed = report.fields.get("gpus") or report.fields.get("gpu type")
    if listed is None:
        return NOT_READ
    if listed in ("", "Could not collect", "No CUDA", "N/A"):
        return Unknown(text('collect_env lists no card ("{value}"); nvidia-smi is missing or failed', value=listed))
    return _first_card(report, listed)


def _first_card(report: Report, listed: str) -> Fact[tuple[Card, ...]]:
    """Read the only card that ROCm builds list, the first: "AMD Instinct MI250X (gfx90a:sramecc+:xnack-)"."""
    match = re.match(r"(.*?)\s*(?:\((gfx\w+)[^)]*\))?$", listed)
    name, chip = (match[1], match[2]) if match else (listed, None)
    if report.fields.get("rocm", "N/A")[:1].isdigit() or chip:
        vendor = "hygon" if chip and _HYGON.match(chip) else "amd"
    elif "AMD" in name or "Radeon" in name or "Instinct" in name:
        vendor = "amd"
    else:
        vendor = "nvidia"
    card = Card(vendor, 0, name=Known(name, _SOURCE), architecture=Known(chip, _SOURCE) if chip else NOT_READ)
    return Known((card,), f"{_SOURCE} (which names the first card only)")


def _intel_cards(lines: Sequence[str]) -> tuple[Card, ...]:
    """Read the cards that torch detected, or those on board if that list is longer."""
    detected = [match[1] for line in lines if (match := re.match(r"\* \[\d+\].*?name='([^']*)'", line))]
    onboard = [line[2:].strip() for line in lines if re.match(r"\* Intel", line)]
    names = detected if len(detected) >= len(onboard) else onboard  # either list may be truncated
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
        # Only NVIDIA's CUDA images set it.
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
    # On Windows, the vendor's name comes first, in the console's code page.
    windows = re.search(r"Windows .*", name)
    return (windows[0] if windows else name), machine if machine and machine[0].isalpha() else None


def _family(report: Report) -> Fact[str]:
    system = f"{report.fields.get('os', '')} {report.fields.get('platform', '')}"
    for sign, family in (("Windows", "windows"), ("macOS", "darwin"), ("Darwin", "darwin"), ("Mac OS", "darwin")):
        if sign in system:
            return Known(family, _SOURCE)
    if (
        "Linux" in system
        or "glibc" in report.fields.get("libc", "")
        or re.search(r"Ubuntu|Debian|Fedora|CentOS|Red Hat", system)
    ):
        return Known("linux", _SOURCE)
    if any(line[1:3] == ":\\" for line in report.cudnn):
        return Known("windows", f"{_SOURCE}: cuDNN's path")
    return NOT_READ


def _virtualisation(report: Report) -> Fact[str]:
    platform = report.fields.get("platform", "")
    if "microsoft" in platform.lower():
        return Known("wsl2" if "WSL2" in platform or "microsoft-standard" in platform else "wsl1", f"{_SOURCE}: kernel")
    hypervisor = hypervisor_of([*report.cpu, f"Hypervisor vendor: {report.fields.get('hypervisor', '')}"])
    return Known(hypervisor, f"{_SOURCE}: lscpu") if hypervisor else NOT_READ


# --- toolkits ---------------------------------------------------------------------------------------------------------


def _toolkits(report: Report, cudnn: tuple[LibraryInstall, ...], nccl: tuple[LibraryInstall, ...]) -> Toolkits:
    home = report.fields.get("cuda_home") or report.variables.get("CUDA_HOME")
    nvcc = report.fields.get("nvcc", "")
    version = re.search(r"V(\d+(?:\.\d+)+)", nvcc) or (_VERSION.match(nvcc))
    files = []
    for line in report.cudnn:
        match = _CUDNN.search(line)
        if match:
            number = match[1] or match[2]
            files.append(
                LibraryInstall(
                    line, Known(number, "its file name") if number else Unknown(text("the file name has no version"))
                )
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


KIND = ReportKind(
    "torch collect_env",
    OPENING,
    extent,
    read,
    width=8000,
    several="pieces",
    again=r"[\s*-]*PyTorch(?: version[^:]{0,20})?\s*:",
)


_YES = ("true", "yes")
_NO = ("false", "no")
_NO_VALUE = ("N/A", "Could not collect", "None", "")


def read_torch(
    report: Report, cards: Fact[tuple[Card, ...]], packages: Sequence[Package], conda_cudnn: str | None, source: str
) -> Framework | None:
    """Read torch from the report; None if the report does not mention it."""
    fields = report.fields
    value = fields.get("torch")
    # transformers: "2.4.0+cu121 (True)"
    both = re.match(r"(\S+)\s+\((True|False|NA)\)", value or "")
    version = both[1] if both else value
    available = (both[2] if both else fields.get("available", "")).lower()
    if version in ("N/A", "not"):
        return _not_imported(packages)
    if not version and not available:
        return None
    build, cuda, rocm = _build(report, version or "", packages, source)
    return Framework(
        name="torch",
        version=Known(version, source) if version else NOT_READ,
        build=build,
        cuda=cuda,
        rocm=rocm,
        cudnn=Known(conda_cudnn, f"{source}: conda's build of torch") if conda_cudnn else NOT_READ,
        devices=_devices(report, cards, available, value_of(build), source),
    )


def _not_imported(packages: Sequence[Package]) -> Framework | None:
    listed = next((package for package in packages if package.name in ("torch", "pytorch")), None)
    if listed is None:
        return None
    reason = Unknown(text("torch could not be imported in the Python that ran collect_env"))
    return Framework(
        name="torch",
        version=reason,
        build=reason,
        cuda=reason,
        devices=reason,
        error=reason.reason,
        failure="import",
    )


def _build(
    report: Report, version: str, packages: Sequence[Package], source: str
) -> tuple[Fact[str], Fact[str], Fact[str]]:
    """Read what torch was built for: from torch.version.cuda, .hip or .xpu, else from its version."""
    cuda, rocm, xpu = (report.fields.get(key) for key in ("cuda", "rocm", "xpu"))
    none = Unknown(text("not built with CUDA"))
    if cuda and cuda[0].isdigit():
        return Known("cuda", source), Known(cuda.split()[0], source), Unknown(text("not built with ROCm"))
    if rocm and rocm[0].isdigit():
        return Known("rocm", source), none, Known(rocm, source)
    if xpu or "+xpu" in version:
        return Known("xpu", source), none, Unknown(text("not built with ROCm"))
    if cuda is None:
        return build_of(version, source), cuda_of(version, source), rocm_of(version, source)
    if any(package.name == "torch-npu" for package in packages):
        return Unknown(text("torch itself was built without CUDA; torch_npu makes it use Ascend")), none, none
    if "macOS" in report.fields.get("os", "") or "macOS" in report.fields.get("platform", ""):
        return (
            Unknown(text("built without CUDA, as always on macOS; collect_env does not report MPS")),
            none,
            none,
        )
    # torch.version.cuda is None: the report has "None" if there is no CUDA at all, else "Could not collect".
    return Known("cpu", source), none, Unknown(text("not built with ROCm"))


def _devices(
    report: Report, cards: Fact[tuple[Card, ...]], available: str, build: str | None, source: str
) -> Fact[tuple[FrameworkDevice, ...]]:
    listed = value_of(cards) or ()
    if report.fields.get("xpu available", "").lower() == "true":
        return Known(tuple(_device(card, "xpu") for card in listed) or (FrameworkDevice("an XPU", "xpu"),), source)
    if available in _YES and build in ("cuda", "rocm", None) and report.fields.get("cuda") not in _NO_VALUE[1:]:
        kind = "rocm" if build == "rocm" else "cuda"
        seen = tuple(_device(card, kind) for card in listed)
        # On a Jetson, torch sees the GPU, but there is no nvidia-smi to name it.
        return Known(seen or (FrameworkDevice("a device that is not named", kind),), source)
    if available in _YES:
        return Unknown(text("collect_env reports CUDA in a build without CUDA; torch was patched"))
    if "macOS" in report.fields.get("os", "") or "macOS" in report.fields.get("platform", ""):
        return Unknown(text("collect_env does not report whether MPS is available"))
    if available in _NO:
        return Known((), f"{source}: Is CUDA available")
    return NOT_READ


def _device(card: Card, kind: str) -> FrameworkDevice:
    return FrameworkDevice(
        value_of(card.name) or "unnamed",
        kind,
        value_of(card.compute_capability),
        value_of(card.memory_total),
    )

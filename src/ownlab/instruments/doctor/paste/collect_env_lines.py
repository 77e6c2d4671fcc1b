"""The lines of an environment report: torch's collect_env, and those of vLLM, sglang, mmcv and transformers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ownlab.instruments.doctor.paste.nvidia_smi_table import GPU_LINE
from ownlab.instruments.doctor.paste.packages import PACKAGE_LINE
from ownlab.instruments.doctor.paste.system_tools import LSCPU_LINE

__all__ = ["OPENING", "Report", "extent", "parse"]

# The key of a line in each program's report -> the key in `Report.fields`.
_KEYS = {
    "pytorch version": "torch",
    "pytorch": "torch",
    "pytorch version (gpu?)": "torch",
    "cuda used to build pytorch": "cuda",
    "rocm used to build pytorch": "rocm",
    "xpu used to build pytorch": "xpu",
    "os": "os",
    "libc version": "libc",
    "python version": "python",
    "python": "python",
    "python platform": "platform",
    "platform": "platform",
    "is cuda available": "available",
    "cuda available": "available",
    "hip available": "available",
    "cuda runtime version": "nvcc",
    "nvcc": "nvcc",
    "gpu models and configuration": "gpus",
    "gpu type": "gpu type",
    "nvidia driver version": "driver",
    "cuda driver version": "driver",
    "cudnn version": "cudnn",
    "is xpu available": "xpu available",
    "hip runtime version": "hip",
    "rocm version": "rocm installed",
    "cuda_home": "cuda_home",
    "hypervisor vendor": "hypervisor",
}
_OTHER_KEYS = (
    "Is debug build|GCC version|GCC|Clang version|CMake version|CUDA_MODULE_LOADING set to|MIOpen runtime version|"
    "Is XNNPACK available|Caching allocator config|Intel GPU driver version|Intel GPU models onboard|"
    "Intel GPU models detected|CPU|Versions of relevant libraries|Neuron SDK Version|vLLM Version|vLLM Build Flags|CUDA Archs|"
    "GPU Topology|NVIDIA Topology|AMD Topology|NIC Legend|Legend|ulimit soft|ulimit hard|sys\\.platform|TorchVision|OpenCV|"
    "MMEngine|MMCV|MMCV Compiler|MMCV CUDA Compiler|MMDetection|ROCM_HOME|HIPCC|ROCM Driver Version|`?transformers`? version|"
    "`?accelerate`? version|`?diffusers`? version|Huggingface_hub version|Safetensors version|Accelerate version|"
    "Accelerate config|DeepSpeed version|Tensorflow version \\(GPU\\?\\)|Flax version.*|Jax version|JaxLib version|"
    "Using GPU in script\\?|Using distributed or parallel set-up in script\\?|System RAM|Numpy version"
)
_KEY = re.compile(
    r"[\s*-]*(" + "|".join(sorted(map(re.escape, _KEYS), key=len, reverse=True)) + r")\s*:(?!:)\s*(.*)$", re.IGNORECASE
)
_OTHER = re.compile(rf"[\s*-]*(?:{_OTHER_KEYS})\s*:", re.IGNORECASE)
# Keys that are ordinary words do not begin a report.
OPENING = (
    r"[\s*-]*(?:`?(?:transformers|[Aa]ccelerate|diffusers)`? version|PyTorch version|PyTorch version \(GPU\?\)|Is debug build|CUDA used to build PyTorch|ROCM used to build PyTorch|"
    r"Libc version|GCC version|Clang version|CMake version|Python platform|Is CUDA available|CUDA available|CUDA runtime version|CUDA_MODULE_LOADING set to|"
    r"GPU models and configuration|Nvidia driver version|CUDA Driver Version|cuDNN version|Is XPU available|"
    r"XPU used to build PyTorch|HIP runtime version|MIOpen runtime version|Is XNNPACK available|vLLM Version|"
    r"Versions of relevant libraries|Intel GPU (?:driver version|models)|PyTorch: \d|OS\s*: \S.*\((?:x86_64|aarch64|arm64)\)|"
    r"Python version\s*: \d|Python: \d)\s*"
    rf"|{PACKAGE_LINE}\s|Collecting[ `]environment information"
)
_NEXT_REPORT = re.compile(r"\s*(?:PyTorch version:|Collecting[ `]environment information)")
_HEADING = re.compile(
    r"\s*(?:=+\s*$|(?:System Info|PyTorch Info|Python Environment|CUDA / GPU Info|CPU Info|vLLM Info|Environment Variables|"
    r"Versions of relevant libraries)\s*$)"
)
_TOPOLOGY = re.compile(
    r"\s*(?:=|GPU\d|GPU\[|NIC\d|mlx\d|HCU|X\s|SYS\b|NODE\b|PHB\b|PXB\b|PIX\b|NV#|(?:NIC )?Legend|Link |Weight|Hops|Numa|"
    r"Could not collect|\[4mGPU)"
)
_PART = re.compile(
    rf"{GPU_LINE}|\s*GPU \d[\d,]* Compute Capability:|\s*MIG \S+\s+Device|\s*(?:/|[A-Z]:\\).*cudnn|{PACKAGE_LINE}|{LSCPU_LINE}|"
    r"[A-Z][A-Z0-9_]{2,60}=|\s*\* |Collecting[ `]environment information|Could not collect\s*$|N/A\s*$|uv is set|"
    r"[\w-]{1,40}: (?:\d[\w.+]*|Module Not Found)\s*$|X\s+= |\s*(?:SYS|NODE|PHB|PXB|PIX|NV#)\s+= ",
    re.IGNORECASE,
)
_LONGEST = 500
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]{2,60})=(.*)$")


class Report(NamedTuple):
    """The lines of a report, sorted by what they are about."""

    fields: dict[str, str]
    gpus: list[str]
    cudnn: list[str]
    cpu: list[str]
    packages: list[str]
    intel: list[str]
    variables: dict[str, str]


def extent(lines: Sequence[str], start: int) -> int:
    """Return where the report ends: its lines have known forms, but their order differs by program and version."""
    end, section, versions = start, "", 0
    for index in range(start, len(lines)):
        line = lines[index]
        if _NEXT_REPORT.match(line):
            versions += line.lstrip()[:1] == "P"
            if versions > 1 or (versions and line.lstrip()[:1] == "C"):
                break
        if not line.strip():
            # The CPU's part ends at a blank line; all other parts may contain some.
            section = "" if section == "cpu" else section
            continue
        section = _section(line, section)
        known = _KEY.match(line) or _OTHER.match(line) or _HEADING.match(line) or _PART.match(line)
        if not (known or section == "cpu" or (section == "topology" and _TOPOLOGY.match(line))):
            break
        end = index + 1
    return end


def _section(line: str, section: str) -> str:
    text = line.strip()
    if text in ("CPU:", "CPU Info"):
        return "cpu"
    if "Topology:" in text or "Legend" in text:
        return "topology"
    if text.startswith(("Versions of", "[pip", "[conda]")) or text == "vLLM Info":
        return ""
    return section


def parse(lines: Sequence[str]) -> Report:
    """Sort the lines of a report."""
    report = Report({}, [], [], [], [], [], {})
    section = ""
    for line in lines:
        section = _section(line, section) if line.strip() else ("" if section == "cpu" else section)
        if section == "cpu":
            report.cpu.append(line)
            continue
        pair = _KEY.match(line)
        if pair is not None:
            key, value = _KEYS[pair[1].lower()], " ".join(pair[2].split())[:_LONGEST]
            report.fields.setdefault(key, value)
            if key == "gpus" and value.startswith("GPU "):
                report.gpus.append(value)
            elif key == "cudnn" and "cudnn" in value:
                report.cudnn.append(value)
        elif variable := _VARIABLE.match(line):
            report.variables.setdefault(variable[1], variable[2].strip())
        else:
            _add_line(report, line)
    return report


def _add_line(report: Report, line: str) -> None:
    """Add a line without a key to the part that its form belongs to."""
    text = line.strip()
    if re.match(PACKAGE_LINE, line):
        report.packages.append(line)
        # One version of vLLM lacks a line break: "[conda] Could not collectROCM Version: …"
        rocm = re.search(r"collectROCM Version: (\S+)", line)
        if rocm:
            report.fields.setdefault("rocm installed", rocm[1])
    elif re.match(rf"{GPU_LINE}|GPU \d[\d,]* Compute|\s*MIG ", line):
        report.gpus.append(line)
    elif "cudnn" in text and text.startswith(("/", "C:", "D:", "E:")):
        report.cudnn.append(text)
    elif text.startswith("* "):
        report.intel.append(text)
    elif re.match(LSCPU_LINE, line):
        report.cpu.append(line)

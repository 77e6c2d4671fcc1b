"""What a report of the environment says of torch itself: its build, and whether it sees a device."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ownlab.instruments.doctor.paste.frameworks.collect_env_lines import Report
from ownlab.instruments.doctor.paste.frameworks.torch_version import build_of, cuda_of, rocm_of
from ownlab.machine.facts import NOT_READ, Fact, Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, FrameworkDevice, Package

__all__ = ["read_torch"]

_YES = ("true", "yes")
_NO = ("false", "no")
_NOTHING = ("N/A", "Could not collect", "None", "")


def read_torch(
    report: Report, cards: Fact[tuple[Card, ...]], packages: Sequence[Package], conda_cudnn: str | None, source: str
) -> Framework | None:
    """torch, as the report has it; None where it says nothing of torch."""
    fields = report.fields
    said = fields.get("torch")
    # transformers: "2.4.0+cu121 (True)"
    both = re.match(r"(\S+)\s+\((True|False|NA)\)", said or "")
    version = both[1] if both else said
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
    why = Unknown("torch could not be imported in the Python that ran collect_env")
    return Framework(name="torch", version=why, build=why, cuda=why, devices=why, error=why.reason, failure="import")


def _build(
    report: Report, version: str, packages: Sequence[Package], source: str
) -> tuple[Fact[str], Fact[str], Fact[str]]:
    """What torch was built for: by its own words (torch.version.cuda, .hip, .xpu), else by its version."""
    cuda, rocm, xpu = (report.fields.get(key) for key in ("cuda", "rocm", "xpu"))
    none = Unknown("not built with CUDA")
    if cuda and cuda[0].isdigit():
        return Known("cuda", source), Known(cuda.split()[0], source), Unknown("not built with ROCm")
    if rocm and rocm[0].isdigit():
        return Known("rocm", source), none, Known(rocm, source)
    if xpu or "+xpu" in version:
        return Known("xpu", source), none, Unknown("not built with ROCm")
    if cuda is None:
        return build_of(version, source), cuda_of(version, source), rocm_of(version, source)
    if any(package.name == "torch-npu" for package in packages):
        return Unknown("torch itself is built without CUDA; torch_npu lets it use Ascend"), none, none
    if "macOS" in report.fields.get("os", "") or "macOS" in report.fields.get("platform", ""):
        return Unknown("built without CUDA, as always on macOS; collect_env does not say whether with MPS"), none, none
    # torch.version.cuda is None: "None" where nothing of CUDA was found at all, else "Could not collect".
    return Known("cpu", source), none, Unknown("not built with ROCm")


def _devices(
    report: Report, cards: Fact[tuple[Card, ...]], available: str, build: str | None, source: str
) -> Fact[tuple[FrameworkDevice, ...]]:
    listed = value_of(cards) or ()
    if report.fields.get("xpu available", "").lower() == "true":
        return Known(tuple(_device(card, "xpu") for card in listed) or (FrameworkDevice("an XPU", "xpu"),), source)
    if available in _YES and build in ("cuda", "rocm", None) and report.fields.get("cuda") not in _NOTHING[1:]:
        kind = "rocm" if build == "rocm" else "cuda"
        seen = tuple(_device(card, kind) for card in listed)
        # Jetson: torch sees the GPU, and there is no nvidia-smi to name it.
        return Known(seen or (FrameworkDevice("a device that is not named", kind),), source)
    if available in _YES:
        return Unknown('"Is CUDA available: True" in a build without CUDA: something patched it')
    if "macOS" in report.fields.get("os", "") or "macOS" in report.fields.get("platform", ""):
        return Unknown("collect_env does not say whether MPS is available")
    if available in _NO:
        return Known((), f"{source}: Is CUDA available")
    return NOT_READ


def _device(card: Card, kind: str) -> FrameworkDevice:
    return FrameworkDevice(
        value_of(card.name) or "unnamed", kind, value_of(card.compute_capability), value_of(card.memory_total)
    )

"""What torch says of itself: its build, the cards that it sees, and its own words where it sees none.

Nothing is allocated on a card: a context would take hundreds of megabytes of it.
"""

import importlib
import importlib.util
from typing import Any, Dict, Iterable, List, Tuple

from ownlab_guest.probe.framework_report import Facts, cudnn_version, examine, known, unknown, words

Devices = List[Dict[str, Any]]


def answer(arguments: List[str]) -> Facts:
    """A record of torch."""
    return examine("torch", arguments, read)


def read(torch: Any, facts: Facts) -> Iterable[str]:
    """Fill in what torch was built with and what it sees; return what it complains of."""
    build = _build(torch)
    facts["build"] = known(build, "torch.version")
    facts["cuda"] = _version_or(torch.version.cuda, "torch.version.cuda", build)
    facts["rocm"] = _version_or(getattr(torch.version, "hip", None), "torch.version.hip", build)
    complaints = _read_libraries(torch, build, facts)
    devices, source, more = _devices(torch, build)
    facts["devices"] = known(devices, source)
    complaints.extend(more)
    if not devices and build == "cpu":
        complaints.append(_refusal(torch, "cuda"))
    return complaints


def _build(torch: Any) -> str:
    if getattr(torch.version, "hip", None):
        return "rocm"
    if torch.version.cuda:
        return "cuda"
    if getattr(torch.version, "xpu", None):
        return "xpu"
    mps = getattr(torch.backends, "mps", None)
    return "mps" if mps is not None and mps.is_built() else "cpu"


def _version_or(version: Any, source: str, build: str) -> Facts:
    return known(str(version), source) if version else unknown(f"a {build} build of torch")


def _read_libraries(torch: Any, build: str, facts: Facts) -> List[str]:
    """cuDNN, NCCL and the architectures for which code was compiled. The list is torch.cuda's own, without a card."""
    if build not in ("cuda", "rocm"):
        facts.update({name: unknown(f"a {build} build of torch") for name in ("cudnn", "nccl", "arch_list")})
        return []
    complaints = []
    flags = torch._C._cuda_getArchFlags()
    facts["arch_list"] = unknown("torch was compiled without the list of its architectures")
    if flags:
        facts["arch_list"] = known(flags.split(), "torch._C._cuda_getArchFlags()")
    facts["cudnn"] = unknown("a ROCm build of torch uses MIOpen")
    if build == "cuda":
        try:
            code = torch.backends.cudnn.version()
            facts["cudnn"] = unknown("this build has no cuDNN")
            if code is not None:
                facts["cudnn"] = known(cudnn_version(code), "torch.backends.cudnn.version()")
        except Exception as exc:  # a cuDNN of another version was loaded: torch names both
            facts["cudnn"] = unknown(words(exc))
            complaints.append(words(exc))
    try:
        nccl = importlib.import_module("torch.cuda.nccl").version()
        facts["nccl"] = known(".".join(str(part) for part in nccl[:3]), "torch.cuda.nccl.version()")
    except Exception as exc:  # Windows builds have none, and say so with an AttributeError
        facts["nccl"] = unknown(words(exc))
    return complaints


def _devices(torch: Any, build: str) -> Tuple[Devices, str, List[str]]:
    if build in ("cuda", "rocm"):
        devices, complaints = _cuda_devices(torch, build)
        return devices, "torch.cuda", complaints
    if build == "xpu":
        devices, complaints = _counted_devices(torch.xpu, "xpu")
        return devices, "torch.xpu", complaints or ([] if devices else [_refusal(torch, "xpu")])
    if build == "mps":
        if torch.backends.mps.is_available():
            name = getattr(torch.backends.mps, "get_name", lambda: "Apple GPU")()
            return [{"name": name, "kind": "mps"}], "torch.backends.mps", []
        return [], "torch.backends.mps.is_available()", [_refusal(torch, "mps")]
    if importlib.util.find_spec("torch_npu") is not None:  # Huawei's plug-in stands beside a CPU build
        try:
            importlib.import_module("torch_npu")
        except Exception as exc:
            return [], "import torch_npu", [f"torch_npu: {words(exc)}"]
        devices, complaints = _counted_devices(torch.npu, "npu")
        return devices, "torch.npu", complaints or ([] if devices else [_refusal(torch, "npu")])
    return [], "torch.version", []


def _cuda_devices(torch: Any, kind: str) -> Tuple[Devices, List[str]]:
    torch.cuda.is_available()  # asked for its warnings: they say more than the error that follows
    try:
        torch.cuda.init()
    except Exception as exc:
        return [], [words(exc)]
    return _counted_devices(torch.cuda, kind)


def _counted_devices(accelerator: Any, kind: str) -> Tuple[Devices, List[str]]:
    """The devices of torch.cuda, torch.xpu or torch.npu, which are asked alike."""
    devices, complaints = [], []
    for index in range(accelerator.device_count()):
        try:
            properties = accelerator.get_device_properties(index)
        except Exception as exc:
            complaints.append(f"{kind}:{index}: {words(exc)}")
            continue
        device = {"name": properties.name, "kind": kind, "memory_total": int(properties.total_memory)}
        if kind == "cuda":
            device["compute_capability"] = f"{properties.major}.{properties.minor}"
        devices.append(device)
    return devices, complaints


def _refusal(torch: Any, device: str) -> str:
    """What torch says when it is asked to use a device that it does not have."""
    try:
        torch.zeros(1, device=device)
    except Exception as exc:
        return words(exc)
    return ""

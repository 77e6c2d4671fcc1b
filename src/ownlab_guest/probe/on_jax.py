"""What JAX says of itself. To list its devices it starts its client, with a context on each card: it has no other way.

The host sets XLA_PYTHON_CLIENT_PREALLOCATE=false, so that the client does not take three quarters of the memory.
"""

import importlib
from typing import Any, Dict, Iterable, List

from ownlab_guest.probe.framework_report import Facts, cuda_version, cudnn_version, examine, known, unknown, words
from ownlab_guest.probe.packages import distributions


def answer(arguments: List[str]) -> Facts:
    """A record of JAX."""
    return examine("jax", arguments, read)


def read(jax: Any, facts: Facts) -> Iterable[str]:
    """Fill in what JAX was built with and what it sees; return what it complains of."""
    build = _build()
    facts["build"] = known(build, "installed plug-ins of JAX")
    _read_versions(build, facts)
    facts["arch_list"] = unknown("JAX compiles for the card that it finds")
    facts["nccl"] = unknown("JAX does not tell its NCCL")
    try:
        devices = [_device(device, build) for device in jax.devices() if device.platform != "cpu"]
    except Exception as exc:  # a plug-in is there and fails; without one JAX goes on with the CPU
        facts["devices"] = known([], "jax.devices()")
        return [words(exc)]
    facts["devices"] = known(devices, "jax.devices()")
    if devices:
        return []
    try:
        jax.devices("tpu" if build == "tpu" else "gpu")
    except Exception as exc:
        return [words(exc)]
    return []


def _build() -> str:
    installed = dict(reversed(list(distributions())))  # the first on sys.path is the one that is imported
    names = " ".join(sorted(installed))
    local = installed.get("jaxlib", "").partition("+")[2]  # 0.4.23+cuda12.cudnn89, before there were plug-ins
    for build in ("cuda", "rocm"):
        if f"jax-{build}" in names or local.startswith(build):
            return build
    return "tpu" if "libtpu" in names else "cpu"


def _read_versions(build: str, facts: Facts) -> None:
    facts["rocm"] = unknown("JAX does not tell its ROCm" if build == "rocm" else f"a {build} build of JAX")
    facts["cuda"] = facts["cudnn"] = unknown(f"a {build} build of JAX")
    if build != "cuda":
        return
    try:
        versions = importlib.import_module("jax._src.lib").cuda_versions
        source = "jax._src.lib.cuda_versions"
        facts["cuda"] = known(cuda_version(versions.cuda_runtime_build_version()), source)
        facts["cudnn"] = known(cudnn_version(versions.cudnn_build_version()), source)
    except Exception as exc:  # private to JAX: it may be elsewhere, or its libraries may be missing
        facts["cuda"] = facts["cudnn"] = unknown(words(exc))


def _device(device: Any, build: str) -> Dict[str, Any]:
    kind = device.platform
    if kind == "gpu":
        kind = "rocm" if build == "rocm" else "cuda"
    entry = {"name": device.device_kind, "kind": kind}
    capability = getattr(device, "compute_capability", None)
    if kind == "cuda" and capability:
        entry["compute_capability"] = str(capability)
    return entry

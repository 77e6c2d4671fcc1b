"""What each framework reports: its build, the devices it sees, and its own error if it sees none.

The host starts one child process per framework: `probe.frameworks torch TRANSCRIPT SECONDS`.
"""

import importlib
import importlib.util
import sys
from typing import Any, Callable, Dict, Iterable, List, Tuple

from ownlab_guest.probe.framework_report import (
    Facts,
    cuda_version,
    cudnn_version,
    examine,
    exception_text,
    known,
    nccl_version,
    unknown,
)
from ownlab_guest.probe.packages import distributions
from ownlab_guest.text import text

Devices = List[Dict[str, Any]]


def answer(arguments: List[str]) -> Facts:
    """Return the record of the framework named by the first argument; the others are those of `examine`."""
    name, *others = arguments
    return examine(name, others, READERS[name])


# --- torch ------------------------------------------------------------------------------------------------------------
# Nothing is allocated on a card: a context would take hundreds of megabytes of its memory.


def read_torch(torch: Any, facts: Facts) -> Iterable[str]:
    """Fill in what torch was built with and which devices it sees; return its error messages."""
    build = _torch_build(torch)
    facts["build"] = known(build, "torch.version")
    facts["cuda"] = _version_or(torch.version.cuda, "torch.version.cuda", build)
    facts["rocm"] = _version_or(getattr(torch.version, "hip", None), "torch.version.hip", build)
    errors = _read_libraries(torch, build, facts)
    devices, source, more = _torch_devices(torch, build)
    facts["devices"] = known(devices, source)
    errors.extend(more)
    if not devices and build == "cpu":
        errors.append(_device_error(torch, "cuda"))
    return errors


def _torch_build(torch: Any) -> str:
    if getattr(torch.version, "hip", None):
        return "rocm"
    if torch.version.cuda:
        return "cuda"
    if getattr(torch.version, "xpu", None):
        return "xpu"
    mps = getattr(torch.backends, "mps", None)
    return "mps" if mps is not None and mps.is_built() else "cpu"


def _version_or(version: Any, source: str, build: str) -> Facts:
    return known(str(version), source) if version else unknown(text("a {build} build of torch", build=build))


def _read_libraries(torch: Any, build: str, facts: Facts) -> List[str]:
    """Fill in cuDNN, NCCL and the architectures that torch was compiled for; the list needs no card."""
    if build not in ("cuda", "rocm"):
        facts.update(
            {name: unknown(text("a {build} build of torch", build=build)) for name in ("cudnn", "nccl", "arch_list")}
        )
        return []
    errors = []
    flags = torch._C._cuda_getArchFlags()
    facts["arch_list"] = unknown(text("torch was compiled without a list of its architectures"))
    if flags:
        facts["arch_list"] = known(flags.split(), "torch._C._cuda_getArchFlags()")
    facts["cudnn"] = unknown(text("a ROCm build of torch uses MIOpen"))
    if build == "cuda":
        try:
            code = torch.backends.cudnn.version()
            facts["cudnn"] = unknown(text("this build has no cuDNN"))
            if code is not None:
                facts["cudnn"] = known(cudnn_version(code), "torch.backends.cudnn.version()")
        except Exception as exc:  # another version of cuDNN was loaded: torch names both
            facts["cudnn"] = unknown(exception_text(exc))
            errors.append(exception_text(exc))
    try:
        nccl = importlib.import_module("torch.cuda.nccl").version()
        facts["nccl"] = known(".".join(str(part) for part in nccl[:3]), "torch.cuda.nccl.version()")
    except Exception as exc:  # Windows builds have no NCCL and raise an AttributeError
        facts["nccl"] = unknown(exception_text(exc))
    return errors


def _torch_devices(torch: Any, build: str) -> Tuple[Devices, str, List[str]]:
    if build in ("cuda", "rocm"):
        devices, errors = _cuda_devices(torch, build)
        return devices, "torch.cuda", errors
    if build == "xpu":
        devices, errors = _counted_devices(torch.xpu, "xpu")
        return devices, "torch.xpu", errors or ([] if devices else [_device_error(torch, "xpu")])
    if build == "mps":
        if torch.backends.mps.is_available():
            name = getattr(torch.backends.mps, "get_name", lambda: "Apple GPU")()
            return [{"name": name, "kind": "mps"}], "torch.backends.mps", []
        return [], "torch.backends.mps.is_available()", [_device_error(torch, "mps")]
    if importlib.util.find_spec("torch_npu") is not None:  # Huawei's plug-in extends a CPU build
        try:
            importlib.import_module("torch_npu")
        except Exception as exc:
            return [], "import torch_npu", [f"torch_npu: {exception_text(exc)}"]
        devices, errors = _counted_devices(torch.npu, "npu")
        return devices, "torch.npu", errors or ([] if devices else [_device_error(torch, "npu")])
    return [], "torch.version", []


def _cuda_devices(torch: Any, kind: str) -> Tuple[Devices, List[str]]:
    torch.cuda.is_available()  # for its warnings, which are more detailed than the error of init()
    try:
        torch.cuda.init()
    except Exception as exc:
        return [], [exception_text(exc)]
    return _counted_devices(torch.cuda, kind)


def _counted_devices(accelerator: Any, kind: str) -> Tuple[Devices, List[str]]:
    """List the devices of torch.cuda, torch.xpu or torch.npu, which have the same functions."""
    devices, errors = [], []
    for index in range(accelerator.device_count()):
        try:
            properties = accelerator.get_device_properties(index)
        except Exception as exc:
            errors.append(f"{kind}:{index}: {exception_text(exc)}")
            continue
        device = {"name": properties.name, "kind": kind, "memory_total": int(properties.total_memory)}
        if kind == "cuda":
            device["compute_capability"] = f"{properties.major}.{properties.minor}"
        devices.append(device)
    return devices, errors


def _device_error(torch: Any, device: str) -> str:
    """Return torch's error message when it has to use a device that it does not have."""
    try:
        torch.zeros(1, device=device)
    except Exception as exc:
        return exception_text(exc)
    return ""


# --- TensorFlow -------------------------------------------------------------------------------------------------------
# TensorFlow writes why it sees no GPU to stderr, which `examine` reads.


def read_tensorflow(tensorflow: Any, facts: Facts) -> Iterable[str]:
    """Fill in what TensorFlow was built with and which devices it sees; return its error messages."""
    source = "tf.sysconfig.get_build_info()"
    info = tensorflow.sysconfig.get_build_info()
    build = "rocm" if info.get("is_rocm_build") else "cuda" if info.get("is_cuda_build") else "cpu"
    facts["build"] = known(build, source)
    for name, key in (("cuda", "cuda_version"), ("cudnn", "cudnn_version"), ("rocm", "rocm_version")):
        facts[name] = (
            known(str(info[key]), source)
            if info.get(key)
            else unknown(text("a {build} build of TensorFlow", build=build))
        )
    architectures = list(info.get("cuda_compute_capabilities") or ())
    facts["arch_list"] = (
        known(architectures, source) if architectures else unknown(text("a {build} build of TensorFlow", build=build))
    )
    facts["nccl"] = unknown(text("TensorFlow does not report its NCCL"))
    errors = []
    devices = []
    for device in tensorflow.config.list_physical_devices():
        if device.device_type not in ("GPU", "TPU", "NPU"):
            continue
        kind = device.device_type.lower()
        if kind == "gpu":
            kind = "mps" if sys.platform == "darwin" else "rocm" if build == "rocm" else "cuda"
        details = {}
        try:
            details = tensorflow.config.experimental.get_device_details(device)
        except Exception as exc:
            errors.append(exception_text(exc))
        entry = {"name": details.get("device_name") or device.name, "kind": kind}
        if details.get("compute_capability"):
            entry["compute_capability"] = ".".join(str(part) for part in details["compute_capability"])
        devices.append(entry)
    facts["devices"] = known(devices, "tf.config.list_physical_devices()")
    return errors


# --- JAX --------------------------------------------------------------------------------------------------------------
# To list its devices, JAX starts its client, with a context on each card; it has no other way. The host sets
# XLA_PYTHON_CLIENT_PREALLOCATE=false, so that the client does not take three quarters of the memory.


def read_jax(jax: Any, facts: Facts) -> Iterable[str]:
    """Fill in what JAX was built with and which devices it sees; return its error messages."""
    build = _jax_build()
    facts["build"] = known(build, "installed plug-ins of JAX")
    _read_versions(build, facts)
    facts["arch_list"] = unknown(text("JAX compiles for the card in use"))
    facts["nccl"] = unknown(text("JAX does not report its NCCL"))
    try:
        devices = [_jax_device(device, build) for device in jax.devices() if device.platform != "cpu"]
    except Exception as exc:  # an installed plug-in fails; without one JAX continues on the CPU
        facts["devices"] = known([], "jax.devices()")
        return [exception_text(exc)]
    facts["devices"] = known(devices, "jax.devices()")
    if devices:
        return []
    try:
        jax.devices("tpu" if build == "tpu" else "gpu")
    except Exception as exc:
        return [exception_text(exc)]
    return []


def _jax_build() -> str:
    installed = dict(reversed(list(distributions())))  # the first on sys.path is the one that is imported
    names = " ".join(sorted(installed))
    local = installed.get("jaxlib", "").partition("+")[2]  # 0.4.23+cuda12.cudnn89, before there were plug-ins
    for build in ("cuda", "rocm"):
        if f"jax-{build}" in names or local.startswith(build):
            return build
    return "tpu" if "libtpu" in names else "cpu"


def _read_versions(build: str, facts: Facts) -> None:
    facts["rocm"] = unknown(
        text("JAX does not report its ROCm") if build == "rocm" else text("a {build} build of JAX", build=build)
    )
    facts["cuda"] = facts["cudnn"] = unknown(text("a {build} build of JAX", build=build))
    if build != "cuda":
        return
    try:
        versions = importlib.import_module("jax._src.lib").cuda_versions
        source = "jax._src.lib.cuda_versions"
        facts["cuda"] = known(cuda_version(versions.cuda_runtime_build_version()), source)
        facts["cudnn"] = known(cudnn_version(versions.cudnn_build_version()), source)
    except Exception as exc:  # private to JAX: it may have moved, or its libraries may be missing
        facts["cuda"] = facts["cudnn"] = unknown(exception_text(exc))


def _jax_device(device: Any, build: str) -> Dict[str, Any]:
    kind = device.platform
    if kind == "gpu":
        kind = "rocm" if build == "rocm" else "cuda"
    entry = {"name": device.device_kind, "kind": kind}
    capability = getattr(device, "compute_capability", None)
    if kind == "cuda" and capability:
        entry["compute_capability"] = str(capability)
    return entry


# --- CuPy -------------------------------------------------------------------------------------------------------------


def read_cupy(cupy: Any, facts: Facts) -> Iterable[str]:
    """Fill in what CuPy was built with and which devices it sees; return its error messages."""
    runtime = cupy.cuda.runtime
    build = "rocm" if runtime.is_hip else "cuda"
    facts["build"] = known(build, "cupy.cuda.runtime.is_hip")
    facts["cuda"] = unknown(text("a rocm build of CuPy"))
    if build == "cuda":
        facts["cuda"] = known(
            cuda_version(cupy.cuda.driver.get_build_version()), "cupy.cuda.driver.get_build_version()"
        )
    facts["rocm"] = unknown(text("CuPy does not report its ROCm") if build == "rocm" else text("a cuda build of CuPy"))
    facts["cudnn"] = unknown(text("CuPy does not use it"))
    facts["arch_list"] = unknown(text("CuPy compiles for the card in use"))
    facts["nccl"] = _cupy_nccl()
    try:
        count = runtime.getDeviceCount()
    except Exception as exc:
        facts["devices"] = known([], "cupy.cuda.runtime.getDeviceCount()")
        return [exception_text(exc)]
    facts["devices"] = known([_cupy_device(runtime, index, build) for index in range(count)], "cupy.cuda.runtime")
    return []


def _cupy_nccl() -> Facts:
    try:
        nccl = importlib.import_module("cupy.cuda.nccl")
        return known(nccl_version(nccl.get_version()), "cupy.cuda.nccl.get_version()")
    except Exception as exc:  # an optional library, needed only for several cards
        return unknown(exception_text(exc))


def _cupy_device(runtime: Any, index: int, build: str) -> Dict[str, Any]:
    properties = runtime.getDeviceProperties(index)
    entry = {
        "name": properties["name"].decode(errors="replace"),
        "kind": build,
        "memory_total": int(properties["totalGlobalMem"]),
    }
    if build == "cuda":
        entry["compute_capability"] = f"{properties['major']}.{properties['minor']}"
    return entry


# --- numba.cuda -------------------------------------------------------------------------------------------------------


def read_numba(numba: Any, facts: Facts) -> Iterable[str]:
    """Fill in which devices numba.cuda sees; return its error messages."""
    for name in ("rocm", "cudnn", "nccl"):
        facts[name] = unknown(text("numba.cuda does not use it"))
    facts["arch_list"] = unknown(text("numba compiles for the card in use"))
    facts["devices"] = known([], "numba.cuda.gpus")
    if numba.config.ENABLE_CUDASIM:
        facts["build"] = known("cpu", "NUMBA_ENABLE_CUDASIM")
        return [text("NUMBA_ENABLE_CUDASIM is set, so numba.cuda only simulates a card")]
    try:
        cuda = importlib.import_module("numba.cuda")
    except Exception as exc:  # since numba 0.61, it is a separate package: numba-cuda
        facts["build"] = known("cpu", "import numba.cuda")
        return [exception_text(exc)]
    facts["build"] = known("cuda", "import numba.cuda")
    try:
        facts["cuda"] = known("{}.{}".format(*cuda.runtime.get_version()), "numba.cuda.runtime.get_version()")
    except Exception as exc:  # the CUDA runtime is missing; the error about devices explains the consequence
        facts["cuda"] = unknown(exception_text(exc))
    try:
        facts["devices"] = known([_numba_device(device) for device in cuda.gpus], "numba.cuda.gpus")
    except Exception as exc:
        return [exception_text(exc)]
    return []


def _numba_device(device: Any) -> Dict[str, Any]:
    name = device.name.decode(errors="replace") if isinstance(device.name, bytes) else device.name
    return {"name": name, "kind": "cuda", "compute_capability": "{}.{}".format(*device.compute_capability)}


READERS: Dict[str, Callable[[Any, Facts], Iterable[str]]] = {
    "torch": read_torch,
    "tensorflow": read_tensorflow,
    "jax": read_jax,
    "cupy": read_cupy,
    "numba": read_numba,
}

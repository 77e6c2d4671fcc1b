"""What TensorFlow says of itself; where it sees no GPU its reasons stand on stderr, which `examine` reads."""

import sys
from typing import Any, Iterable, List

from ownlab_guest.probe.framework_report import Facts, examine, known, unknown, words


def answer(arguments: List[str]) -> Facts:
    """A record of TensorFlow."""
    return examine("tensorflow", arguments, read)


def read(tensorflow: Any, facts: Facts) -> Iterable[str]:
    """Fill in what TensorFlow was built with and what it sees; return what it complains of."""
    source = "tf.sysconfig.get_build_info()"
    info = tensorflow.sysconfig.get_build_info()
    build = "rocm" if info.get("is_rocm_build") else "cuda" if info.get("is_cuda_build") else "cpu"
    facts["build"] = known(build, source)
    for name, key in (("cuda", "cuda_version"), ("cudnn", "cudnn_version"), ("rocm", "rocm_version")):
        facts[name] = known(str(info[key]), source) if info.get(key) else unknown(f"a {build} build of TensorFlow")
    architectures = list(info.get("cuda_compute_capabilities") or ())
    facts["arch_list"] = known(architectures, source) if architectures else unknown(f"a {build} build of TensorFlow")
    facts["nccl"] = unknown("TensorFlow does not tell its NCCL")
    complaints = []
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
            complaints.append(words(exc))
        entry = {"name": details.get("device_name") or device.name, "kind": kind}
        if details.get("compute_capability"):
            entry["compute_capability"] = ".".join(str(part) for part in details["compute_capability"])
        devices.append(entry)
    facts["devices"] = known(devices, "tf.config.list_physical_devices()")
    return complaints

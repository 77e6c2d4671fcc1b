"""Which cards a kernel may see, as the variables that each vendor's libraries obey."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ownlab.lab.store.rows import Device
from ownlab.units import PARTS

__all__ = ["VENDORS", "variables"]

# What hides all cards of a vendor, of whom none is leased.
_HIDDEN: dict[str, dict[str, str]] = {
    "nvidia": {"CUDA_VISIBLE_DEVICES": ""},
    # ROCr filters where its variable is set, even if it is empty (ROCR-Runtime, core/util/flag.h); HIP takes an empty
    # one for none, and a number that is not there for the end of the list (clr, rocclr/device/rocm/rocdevice.cpp).
    "amd": {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"},
    # Undocumented for an empty list; meant as NVIDIA's.
    "huawei": {"ASCEND_RT_VISIBLE_DEVICES": ""},
    # An empty ZE_AFFINITY_MASK hides nothing, and no value hides all; SYCL's selector does, for what is built on SYCL:
    # https://intel.github.io/llvm/EnvironmentVariables.html
    "intel": {"ONEAPI_DEVICE_SELECTOR": "*:cpu"},
}

VENDORS = frozenset(_HIDDEN)


def variables(devices: Sequence[Device], parts: int, all_vendors: Iterable[str]) -> dict[str, str]:
    """For a kernel that leases `parts` twelfths of each of these devices, on a machine with cards of `all_vendors`.

    CUDA_VISIBLE_DEVICES is always set, so that a CPU kernel sees no card that comes later either.
    """
    found = {"CUDA_VISIBLE_DEVICES": ""}
    leased = {device.vendor for device in devices}
    for vendor in sorted({*all_vendors} - leased):
        found.update(_HIDDEN.get(vendor, {}))
    for vendor in sorted(leased):
        found.update(_shown(vendor, [device for device in devices if device.vendor == vendor]))
    if devices and parts < PARTS:
        found.update(_sharing(parts))
    return found


def _shown(vendor: str, devices: Sequence[Device]) -> dict[str, str]:
    numbers = ",".join(str(device.number) for device in devices)
    if vendor == "nvidia":
        # UUIDs (GPU-…, MIG-…) are taken as well as numbers: CUDA C++ Programming Guide, "CUDA Environment Variables".
        # The order is for programs that count for themselves: by default the fastest card is 0.
        return {"CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in devices), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if vendor == "amd":
        # HIP stands on ROCr and counts what that leaves from 0. Without its own variable it, and PyTorch, would read
        # CUDA's: https://rocm.docs.amd.com/projects/HIP/en/latest/reference/env_variables.html
        return {"ROCR_VISIBLE_DEVICES": numbers, "HIP_VISIBLE_DEVICES": ",".join(map(str, range(len(devices))))}
    if vendor == "huawei":
        return {"ASCEND_RT_VISIBLE_DEVICES": numbers}  # as npu-smi numbers them
    if vendor == "intel":
        # https://oneapi-src.github.io/level-zero-spec/level-zero/latest/core/PROG.html#affinity-mask
        return {"ZE_AFFINITY_MASK": numbers}
    return {}


def _sharing(parts: int) -> dict[str, str]:
    """Stops frameworks from taking the whole card's memory at their first step. PyTorch takes what it needs anyway."""
    return {
        # https://docs.jax.dev/en/latest/gpu_memory_allocation.html: 75 % by default, at the first operation.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{parts / PARTS:.3f}",
        # https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth: all of it by default.
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }

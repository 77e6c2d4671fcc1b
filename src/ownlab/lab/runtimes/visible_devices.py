"""Which cards a kernel may see: the environment variables of each vendor's libraries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ownlab.lab.store.rows import Device
from ownlab.units import PARTS

__all__ = ["VENDORS", "variables"]

# Variables that hide all cards of a vendor.
_HIDDEN: dict[str, dict[str, str]] = {
    "nvidia": {"CUDA_VISIBLE_DEVICES": ""},
    # ROCr filters if its variable is set, even if it is empty (ROCR-Runtime, core/util/flag.h); HIP ignores an empty
    # one, and takes an invalid number as the end of the list (clr, rocclr/device/rocm/rocdevice.cpp).
    "amd": {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"},
    # Undocumented for an empty list; by analogy with NVIDIA's.
    "huawei": {"ASCEND_RT_VISIBLE_DEVICES": ""},
    # An empty ZE_AFFINITY_MASK hides nothing, and no value hides all; SYCL's selector does, for programs that use SYCL:
    # https://intel.github.io/llvm/EnvironmentVariables.html
    "intel": {"ONEAPI_DEVICE_SELECTOR": "*:cpu"},
}

VENDORS = frozenset(_HIDDEN)


def variables(devices: Sequence[Device], parts: int, all_vendors: Iterable[str]) -> dict[str, str]:
    """Variables for a kernel that leases `parts` twelfths of each of these devices; the machine has cards of `all_vendors`.

    CUDA_VISIBLE_DEVICES is always set, so that a CPU kernel does not see cards that are added later either.
    """
    shown = {"CUDA_VISIBLE_DEVICES": ""}
    leased = {device.vendor for device in devices}
    for vendor in sorted({*all_vendors} - leased):
        shown.update(_HIDDEN.get(vendor, {}))
    for vendor in sorted(leased):
        shown.update(_shown(vendor, [device for device in devices if device.vendor == vendor]))
    if devices and parts < PARTS:
        shown.update(_sharing(parts))
    return shown


def _shown(vendor: str, devices: Sequence[Device]) -> dict[str, str]:
    numbers = ",".join(str(device.number) for device in devices)
    if vendor == "nvidia":
        # UUIDs (GPU-…, MIG-…) are taken as well as numbers: CUDA C++ Programming Guide, "CUDA Environment Variables".
        # The order matters to programs that use numbers: by default the fastest card is 0.
        return {"CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in devices), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if vendor == "amd":
        # HIP is based on ROCr and numbers what that leaves from 0. Without its own variable, HIP and PyTorch would read
        # CUDA's: https://rocm.docs.amd.com/projects/HIP/en/latest/reference/env_variables.html
        return {"ROCR_VISIBLE_DEVICES": numbers, "HIP_VISIBLE_DEVICES": ",".join(map(str, range(len(devices))))}
    if vendor == "huawei":
        return {"ASCEND_RT_VISIBLE_DEVICES": numbers}  # npu-smi's numbers
    if vendor == "intel":
        # https://oneapi-src.github.io/level-zero-spec/level-zero/latest/core/PROG.html#affinity-mask
        return {"ZE_AFFINITY_MASK": numbers}
    return {}


def _sharing(parts: int) -> dict[str, str]:
    """Keep frameworks from allocating the whole card's memory at the start. PyTorch allocates only what it needs anyway."""
    return {
        # https://docs.jax.dev/en/latest/gpu_memory_allocation.html: 75 % by default, at the first operation.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{parts / PARTS:.3f}",
        # https://www.tensorflow.org/guide/gpu#limiting_gpu_memory_growth: all of it by default.
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }

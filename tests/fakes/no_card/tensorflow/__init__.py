"""TensorFlow for CUDA that finds no GPU and says so on stderr alone, from C++ (NVIDIA/tensorflow#110)."""

import os
from types import SimpleNamespace

LOG = b"""2024-06-19 16:06:44.995157: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized
2024-06-19 16:06:44.996032: W tensorflow/stream_executor/platform/default/dso_loader.cc:60] Could not load dynamic library 'libcusolver.so.11'; dlerror: libnvJitLink.so.12: cannot open shared object file: No such file or directory
2024-06-19 16:06:44.996140: W tensorflow/core/common_runtime/gpu/gpu_device.cc:1689] Cannot dlopen some GPU libraries. Please make sure the missing libraries mentioned above are installed properly if you would like to use GPU.
Skipping registering GPU devices...
"""


def list_physical_devices():
    os.write(2, LOG)
    return [SimpleNamespace(name="/physical_device:CPU:0", device_type="CPU")]


__version__ = "2.17.0"
BUILD = {
    "is_cuda_build": True,
    "is_rocm_build": False,
    "cuda_version": "12.3",
    "cudnn_version": "8",
    "cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"],
}
sysconfig = SimpleNamespace(get_build_info=lambda: BUILD)
config = SimpleNamespace(list_physical_devices=list_physical_devices)

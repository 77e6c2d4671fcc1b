"""torch 2.1 for CUDA 12.1 on a driver that serves CUDA 11.6 (wording: tests/pastes/errors/driver-too-old-11060.txt)."""

import warnings
from types import SimpleNamespace

TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11060). Please update your GPU driver by downloading "
    "and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx Alternatively, go to: "
    "https://pytorch.org to install a PyTorch version that has been compiled with your version of the CUDA driver."
)


def is_available():
    warnings.warn(
        f"CUDA initialization: {TOO_OLD} (Triggered internally at ../c10/cuda/CUDAFunctions.cpp:108.)", stacklevel=2
    )
    return False


def init():
    raise RuntimeError(TOO_OLD)


__version__ = "2.1.0+cu121"
version = SimpleNamespace(cuda="12.1", hip=None)
cuda = SimpleNamespace(is_available=is_available, init=init, device_count=lambda: 0)
backends = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 8902))
_C = SimpleNamespace(_cuda_getArchFlags=lambda: "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90")

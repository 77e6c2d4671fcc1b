"""torch 2.8 on a GTX 1080 Ti: it sees the card, and warns that it has no code for it (tests/pastes/errors)."""

import warnings
from types import SimpleNamespace

CUDNN = (
    "cuDNN version incompatibility: PyTorch was compiled  against (9, 10, 2) but found runtime version (9, 1, 0). "
    "PyTorch already comes bundled with cuDNN. One option to resolving this error is to ensure PyTorch can find the "
    "bundled cuDNN. one possibility is that there is a conflicting cuDNN in LD_LIBRARY_PATH."
)


def init():
    warnings.warn(
        "\nNVIDIA GeForce GTX 1080 Ti with CUDA capability sm_61 is not compatible with the current PyTorch "
        "installation.\nThe current PyTorch install supports CUDA capabilities sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 "
        "compute_120.\n",
        stacklevel=2,
    )


def cudnn_version():
    raise RuntimeError(CUDNN)


warnings.warn("The pynvml package is deprecated. Please install nvidia-ml-py instead.", FutureWarning, stacklevel=2)
__version__ = "2.8.0+cu128"
version = SimpleNamespace(cuda="12.8", hip=None, xpu=None)
CARD = SimpleNamespace(name="NVIDIA GeForce GTX 1080 Ti", major=6, minor=1, total_memory=11811160064)
cuda = SimpleNamespace(
    is_available=lambda: True, init=init, device_count=lambda: 1, get_device_properties=lambda index: CARD
)
backends = SimpleNamespace(cudnn=SimpleNamespace(version=cudnn_version))
_C = SimpleNamespace(_cuda_getArchFlags=lambda: "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120")

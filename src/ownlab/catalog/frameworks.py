"""What CUDA and cuDNN a release of TensorFlow or torch was built with, and what torch's allocator variable is called."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ownlab.catalog.tables import load
from ownlab.catalog.versions import major_minor

__all__ = [
    "AllocatorNames",
    "TensorflowBuild",
    "allocator_names",
    "cudnn_of_torch",
    "tensorflow_build",
    "tensorflow_windows_last",
]


class TensorflowBuild(Struct, frozen=True):
    """The CUDA and cuDNN that a TensorFlow release was built and tested with."""

    version: str
    cuda: str
    cudnn: str
    python: tuple[str, str]  # oldest and newest


class JaxRelease(Struct, frozen=True):
    version: str
    cuda: tuple[str, ...]  # majors
    min_driver_linux: str
    cudnn: str
    python_min: str


class CupyPackage(Struct, frozen=True):
    package: str
    cuda_major: int
    last: str


class AllocatorNames(Struct, frozen=True):
    """The environment variable that sets torch's allocator, and its older name."""

    new_name: str
    old_name: str
    works_for_cuda_since: str  # the first torch whose CUDA allocator reads the new name


class Frameworks(Struct, frozen=True):
    source: tuple[str, ...]
    as_of: str
    tensorflow: tuple[TensorflowBuild, ...]
    tensorflow_windows_last_gpu: str
    jax: tuple[JaxRelease, ...]
    cupy: tuple[CupyPackage, ...]
    torch_alloc_conf: AllocatorNames


class CudnnMajor(Struct, frozen=True):
    cudnn: str
    cuda_majors: tuple[int, ...]
    min_compute_capability: str


class TorchCudnn(Struct, frozen=True):
    torch: str
    cudnn: str  # of the build that pip installs
    builds: dict[str, str]  # by tag: {"cu126": "9.10.2.21"}


class Cudnn(Struct, frozen=True):
    source: tuple[str, ...]
    as_of: str
    majors: tuple[CudnnMajor, ...]
    torch_cudnn: tuple[TorchCudnn, ...]
    version_number: dict[str, Any]


def _frameworks() -> Frameworks:
    return load("frameworks", Frameworks)


def tensorflow_build(version: str) -> TensorflowBuild | None:
    """What a TensorFlow release was built with; None where the table has none."""
    return next((row for row in _frameworks().tensorflow if row.version == major_minor(version)), None)


def tensorflow_windows_last() -> str:
    """The last TensorFlow that uses an NVIDIA card on Windows itself (later ones do in WSL)."""
    return _frameworks().tensorflow_windows_last_gpu


def allocator_names() -> AllocatorNames:
    """How the variable of torch's allocator is called, and since when."""
    return _frameworks().torch_alloc_conf


def cudnn_of_torch(torch: str, cuda: str | None = None) -> str | None:
    """The cuDNN that an official torch wheel brings: of its build for this CUDA, or of the one that pip installs."""
    row = next((row for row in load("cudnn", Cudnn).torch_cudnn if row.torch == major_minor(torch)), None)
    if row is None or cuda is None:
        return row.cudnn if row else None
    return row.builds.get(f"cu{major_minor(cuda).replace('.', '')}")

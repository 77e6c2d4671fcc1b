"""The CUDA and cuDNN that frameworks are built with, their packages per CUDA major, and torch's allocator variable."""

from __future__ import annotations

from msgspec import Struct

from ownlab.catalog.data_files import load_json
from ownlab.catalog.versions import major_minor, parse_version

__all__ = [
    "AllocatorNames",
    "TensorflowBuild",
    "allocator_names",
    "cudnn_of_torch",
    "cudnn_wheel",
    "cupy_packages",
    "jax_extras",
    "tensorflow_build",
    "tensorflow_windows_last",
]


class TensorflowBuild(Struct, frozen=True):
    """The CUDA and cuDNN that a TensorFlow release was built and tested with."""

    version: str
    cuda: str
    cudnn: str
    python: tuple[str, str]  # oldest and newest


class JaxExtra(Struct, frozen=True):
    """jax[cuda13]: JAX's build for one CUDA major."""

    extra: str
    cuda_major: int
    min_compute_capability: str


class CupyPackage(Struct, frozen=True):
    package: str
    cuda_major: int


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
    jax: tuple[JaxExtra, ...]
    cupy: tuple[CupyPackage, ...]
    torch_alloc_conf: AllocatorNames


class CudnnWheels(Struct, frozen=True):
    """The releases of nvidia-cudnn-cuNN."""

    cuda_major: int
    oldest: str
    newest: str | None  # None: it is still released


class TorchCudnn(Struct, frozen=True):
    torch: str
    cudnn: str  # of the build that pip installs
    builds: dict[str, str]  # by tag: {"cu126": "9.10.2.21"}


class Cudnn(Struct, frozen=True):
    source: tuple[str, ...]
    as_of: str
    wheels: tuple[CudnnWheels, ...]
    torch_cudnn: tuple[TorchCudnn, ...]


def _frameworks() -> Frameworks:
    return load_json("frameworks", Frameworks)


def tensorflow_build(version: str) -> TensorflowBuild | None:
    """Return what a TensorFlow release was built with; None where the table does not have it."""
    return next((row for row in _frameworks().tensorflow if row.version == major_minor(version)), None)


def tensorflow_windows_last() -> str:
    """Return the last TensorFlow that supports NVIDIA cards on native Windows (later ones need WSL)."""
    return _frameworks().tensorflow_windows_last_gpu


def jax_extras() -> tuple[JaxExtra, ...]:
    """Return JAX's builds for CUDA, the newest CUDA first."""
    return tuple(sorted(_frameworks().jax, key=lambda row: row.cuda_major, reverse=True))


def cupy_packages() -> tuple[CupyPackage, ...]:
    """Return CuPy's packages, the newest CUDA first."""
    return tuple(reversed(_frameworks().cupy))


def allocator_names() -> AllocatorNames:
    """Return the names of the variable that configures torch's allocator."""
    return _frameworks().torch_alloc_conf


def cudnn_wheel(cudnn: str, cuda_major: int) -> str | None:
    """Return the requirement of NVIDIA's wheel with this cuDNN (or a newer one of its major) for a CUDA major.

    None where there is no such wheel: cuDNN 7 and older have none, and each CUDA major has only some releases.
    """
    wanted = parse_version(cudnn)
    row = next((row for row in load_json("cudnn", Cudnn).wheels if row.cuda_major == cuda_major), None)
    if row is None or not wanted:
        return None
    oldest, newest = parse_version(row.oldest), parse_version(row.newest) if row.newest else wanted
    if not oldest[0] <= wanted[0] <= newest[0]:
        return None
    least = ".".join(map(str, max(wanted[:2], oldest)))
    return f"nvidia-cudnn-cu{cuda_major}>={least},<{wanted[0] + 1}"


def cudnn_of_torch(torch: str, cuda: str | None = None) -> str | None:
    """Return the cuDNN of an official torch wheel: of the build for this CUDA, or of the one that pip installs."""
    row = next((row for row in load_json("cudnn", Cudnn).torch_cudnn if row.torch == major_minor(torch)), None)
    if row is None or cuda is None:
        return row.cudnn if row else None
    return row.builds.get(f"cu{major_minor(cuda).replace('.', '')}")

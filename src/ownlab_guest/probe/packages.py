"""The version of this Python, and which of the packages that matter for accelerators are installed.

Names and versions come from the names of the metadata folders: reading the metadata of hundreds of packages takes
longer than starting Python.
"""

import importlib.util
import os
import platform
import re
import sys
from typing import Any, Dict, Iterator, List, Tuple

FRAMEWORKS = ("torch", "tensorflow", "jax", "cupy", "numba")

# Distributions that affect accelerators.
_RELEVANT = re.compile(
    r"torch|torchvision|torchaudio|torch-npu|torch-xla|intel-extension-for-pytorch|triton|pytorch-triton.*|keras"
    r"|tensorflow.*|tf-nightly.*|jax|jaxlib|jax-cuda.*|jax-rocm.*|libtpu.*|cupy.*|numba|numba-cuda|numpy"
    r"|onnxruntime|onnxruntime-gpu|ctranslate2|bitsandbytes|flash-attn|xformers|vllm|paddlepaddle|paddlepaddle-gpu"
    r"|mindspore|nvidia-.*|pynvml|cuda-python|cuda-bindings|cuda-toolkit"
)
_CONDA_RELEVANT = re.compile(
    r"pytorch|pytorch-(cuda|mutex|gpu|cpu)|libtorch|cudatoolkit|cuda-version|cudnn|nccl"
    r"|tensorflow|tensorflow-(base|gpu)|jaxlib|cupy|numba"
)
# Framework -> the distributions that contain it, for the case that its module cannot be found.
_DISTRIBUTIONS = {
    "torch": re.compile(r"torch$"),
    "tensorflow": re.compile(r"(tensorflow|tf-nightly)(-cpu|-gpu|-intel|-rocm|-macos|-and-cuda|-cpu-aws)?$"),
    "jax": re.compile(r"jax$"),
    "cupy": re.compile(r"cupy(-cuda.*|-rocm.*)?$"),
    "numba": re.compile(r"numba$"),
}


def distributions() -> Iterator[Tuple[str, str]]:
    """Yield name and version of each distribution on sys.path, in the order of imports."""
    for folder in sys.path:
        try:
            entries = os.listdir(folder or ".")
        except OSError:  # a zip file, or a folder that does not exist: sys.path may contain many
            continue
        for entry in sorted(entries):
            stem, extension = os.path.splitext(entry)
            if extension in (".dist-info", ".egg-info") and "-" in stem:
                name, version = stem.split("-")[:2]
                yield re.sub(r"[-_.]+", "-", name).lower(), version


def conda_packages() -> Iterator[Tuple[str, str]]:
    """Yield conda's packages in this environment, in conda's form: pytorch, 2.1.0=py3.11_cuda12.1_cudnn8.9.2_0."""
    try:
        entries = os.listdir(os.path.join(sys.prefix, "conda-meta"))
    except OSError:  # not a conda environment
        return
    for entry in sorted(entries):
        parts = entry[: -len(".json")].rsplit("-", 2)
        if entry.endswith(".json") and len(parts) == 3 and _CONDA_RELEVANT.fullmatch(parts[0]):
            yield parts[0], f"{parts[1]}={parts[2]}"


def is_installed(framework: str, names: List[str]) -> bool:
    """Return whether a framework is installed, working or not: its module or its distribution is found."""
    if any(_DISTRIBUTIONS[framework].match(name) for name in names):
        return True
    try:
        spec = importlib.util.find_spec(framework)
    except Exception:  # a broken import hook of another package; the distribution's name was checked already
        return False
    return spec is not None and spec.origin is not None  # no origin: a folder left over from an uninstalled package


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Return the interpreter's version, architecture and prefix, the relevant packages, and the installed frameworks."""
    packages: Dict[str, str] = {}
    for name, version in distributions():
        if _RELEVANT.fullmatch(name):
            packages.setdefault(name, version)
    names = list(packages)
    for name, version in conda_packages():
        packages.setdefault("conda:" + name, version)
    return {
        "version": platform.python_version(),
        "architecture": platform.machine(),
        "prefix": sys.prefix,
        "packages": [{"name": name, "version": version} for name, version in sorted(packages.items())],
        "frameworks": [name for name in FRAMEWORKS if is_installed(name, names)],
    }

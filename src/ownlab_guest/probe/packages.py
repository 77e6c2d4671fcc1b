"""Which Python this is, and which of the packages that matter for accelerators are installed in it.

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

# Distributions that say something about accelerators.
_MATTERS = re.compile(
    r"torch|torchvision|torchaudio|torch-npu|torch-xla|intel-extension-for-pytorch|triton|pytorch-triton.*|keras"
    r"|tensorflow.*|tf-nightly.*|jax|jaxlib|jax-cuda.*|jax-rocm.*|libtpu.*|cupy.*|numba|numba-cuda|numpy"
    r"|onnxruntime|onnxruntime-gpu|ctranslate2|bitsandbytes|flash-attn|xformers|vllm|paddlepaddle|paddlepaddle-gpu"
    r"|mindspore|nvidia-.*|pynvml|cuda-python|cuda-bindings|cuda-toolkit"
)
_CONDA_MATTERS = re.compile(
    r"pytorch|pytorch-(cuda|mutex|gpu|cpu)|libtorch|cudatoolkit|cuda-version|cudnn|nccl"
    r"|tensorflow|tensorflow-(base|gpu)|jaxlib|cupy|numba"
)
# Which distribution brings a framework, where its module cannot be found by itself.
_BROUGHT_BY = {
    "torch": re.compile(r"torch$"),
    "tensorflow": re.compile(r"(tensorflow|tf-nightly)(-cpu|-gpu|-intel|-rocm|-macos|-and-cuda|-cpu-aws)?$"),
    "jax": re.compile(r"jax$"),
    "cupy": re.compile(r"cupy(-cuda.*|-rocm.*)?$"),
    "numba": re.compile(r"numba$"),
}


def distributions() -> Iterator[Tuple[str, str]]:
    """Name and version of each distribution on sys.path, in the order in which imports would find them."""
    for folder in sys.path:
        try:
            entries = os.listdir(folder or ".")
        except OSError:  # a zip file, or a folder that is gone: sys.path holds many
            continue
        for entry in sorted(entries):
            stem, extension = os.path.splitext(entry)
            if extension in (".dist-info", ".egg-info") and "-" in stem:
                name, version = stem.split("-")[:2]
                yield re.sub(r"[-_.]+", "-", name).lower(), version


def conda_packages() -> Iterator[Tuple[str, str]]:
    """What conda put into this environment, as conda writes it: pytorch, 2.1.0=py3.11_cuda12.1_cudnn8.9.2_0."""
    try:
        entries = os.listdir(os.path.join(sys.prefix, "conda-meta"))
    except OSError:  # not an environment of conda's
        return
    for entry in sorted(entries):
        parts = entry[: -len(".json")].rsplit("-", 2)
        if entry.endswith(".json") and len(parts) == 3 and _CONDA_MATTERS.fullmatch(parts[0]):
            yield parts[0], f"{parts[1]}={parts[2]}"


def is_there(framework: str, names: List[str]) -> bool:
    """Whether a framework is installed: its module is found, or its distribution is, whether or not it works."""
    if any(_BROUGHT_BY[framework].match(name) for name in names):
        return True
    try:
        spec = importlib.util.find_spec(framework)
    except Exception:  # a broken import hook of another package; the distribution's name has decided already
        return False
    return spec is not None and spec.origin is not None  # no origin: a folder that an uninstalled package left behind


def answer(arguments: List[str]) -> Dict[str, Any]:
    """The interpreter's version, architecture and prefix, the packages that matter, and the frameworks that can be asked."""
    found: Dict[str, str] = {}
    for name, version in distributions():
        if _MATTERS.fullmatch(name):
            found.setdefault(name, version)
    names = list(found)
    for name, version in conda_packages():
        found.setdefault("conda:" + name, version)
    return {
        "version": platform.python_version(),
        "architecture": platform.machine(),
        "prefix": sys.prefix,
        "packages": [{"name": name, "version": version} for name, version in sorted(found.items())],
        "frameworks": [name for name in FRAMEWORKS if is_there(name, names)],
    }

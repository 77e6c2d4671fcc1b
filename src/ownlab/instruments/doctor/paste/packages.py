"""Reads lists of Python packages: `pip list`, `pip freeze`, `pip show`, `conda list`, and collect_env's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ownlab.instruments.doctor.paste.sections import ReportKind, end_of_run
from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.records import Framework, Interpreter, LibraryInstall, Machine, Package, Toolkits
from ownlab.text import text

__all__ = ["FREEZE", "KINDS", "PACKAGE_LINE", "build_of", "cuda_of", "installs_of", "read_packages", "rocm_of"]

# Packages that affect whether and how an accelerator is used.
_MATTERS = re.compile(
    r"(?:torch|torchvision|torchaudio|torch-npu|torch-xla|torch-directml|torch-cuda80|pytorch|pytorch-nightly|pytorch-cuda|"
    r"pytorch-gpu|pytorch-mutex|cpuonly|pytorch-triton.*|triton|triton-.*|tensorflow|tensorflow-.*|tf-nightly.*|keras|jax|jaxlib|"
    r"jax-.*|cupy|cupy-.*|numba|numba-cuda|numpy|nvidia-.*|cudatoolkit|cuda|cuda-.*|cudnn|nccl|libtpu.*|vllm|sglang|"
    r"sgl-kernel|flash-attn|flashinfer.*|xformers|bitsandbytes|deepspeed|apex|intel-extension-for-pytorch|"
    r"intel-extension-for-tensorflow|transformers|accelerate|onnxruntime.*|ctranslate2|mindspore|pynvml|llama-cpp-python)$"
)
_FRAMEWORKS = {
    "torch": "torch",
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "tensorflow-gpu": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "jax": "jax",
    "numba": "numba",
}
PACKAGE_LINE = r"\s*\[(?:pip3?|conda|uv)\]"
_COLLECT_ENV = re.compile(
    r"\s*\[(?:pip3?|uv)\]\s+([\w.-]{1,80})==(\S{1,80})|\s*\[conda\]\s+([\w.-]{1,80})\s+(\d\S{0,80})(?:\s+(\S{1,80}))?"
)
FREEZE = r"\s*[A-Za-z0-9][\w.-]{0,79}(?:\[[\w,-]{1,60}\])?==\d\S{0,79}\s*$"
_FREEZE = re.compile(r"\s*([A-Za-z0-9][\w.-]{0,79})(?:\[[\w,-]{1,60}\])?==(\S+)")
_ROW = re.compile(r"\s*([A-Za-z0-9][\w.-]{0,79})\s+(\d\S{0,79})(?:\s+(\S+).*)?$")
# The first row of a list that was searched for a name (`pip list | grep torch`).
_BARE_ROW = r"\s*(?:torch|torchvision|torchaudio|torch[-_]\w+|pytorch\S*|tensorflow\S*|jax|jaxlib|nvidia-\w\S*|cudatoolkit|cupy\S*|numpy|onnxruntime\S*|xformers|triton|vllm|bitsandbytes)\s{2,}\d+\.\d\S*(?:\s+\S+){0,3}\s*$"
_RULE_OR_ROW = re.compile(r"\s*-{3,}|#|" + _ROW.pattern)
_SHOWN = re.compile(
    r"(?:Name|Version|Summary|Home-page|Author|Author-email|License|License-Expression|Location|Requires|Required-by)\b.*:"
)
# Packages whose build in conda says for which device they are.
_LABELLED = ("pytorch", "pytorch-mutex", "torchvision", "torchaudio")
_CONDA_CUDNN = re.compile(r"cudnn(\d+(?:\.\d+)+)")
_SOURCE = "pasted list of packages"


def read_packages(lines: Sequence[str]) -> tuple[tuple[Package, ...], str | None]:
    """Read the relevant packages in collect_env's list, and the cuDNN of conda's build of torch, if there is one."""
    packages: dict[str, Package] = {}
    cudnn: str | None = None
    for line in lines:
        match = _COLLECT_ENV.match(line)
        if match is None:
            continue
        name, version = _normal(match[1] or match[3]), match[2] or match[4]
        if _MATTERS.match(name):
            packages.setdefault(name, Package(name, version))
        if name in ("pytorch", "pytorch-nightly") and match[5] and (built := _CONDA_CUDNN.search(match[5])):
            cudnn = built[1]
    return tuple(packages.values()), cudnn


def installs_of(packages: Sequence[Package], library: str, source: str) -> tuple[LibraryInstall, ...]:
    """Return the copies of cuDNN or NCCL that are installed as wheels."""
    return tuple(
        LibraryInstall(path=package.name, version=Known(package.version, source), origin="wheel")
        for package in packages
        if package.name.startswith(f"nvidia-{library}-cu") or package.name == f"nvidia-{library}"
    )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _machine(pairs: Sequence[tuple[str, str]], builds: Mapping[str, str] | None = None) -> Machine | None:
    packages = {name: Package(name, version) for given, version in pairs if _MATTERS.match(name := _normal(given))}
    for name, build in (builds or {}).items():
        label = _label_of_build(build) if name in _LABELLED and name in packages else None
        if label is not None and "+" not in packages[name].version:
            packages[name] = Package(name, f"{packages[name].version}+{label}")
    if not packages:
        return None
    listed = tuple(packages.values())
    frameworks = {
        _FRAMEWORKS[package.name]: _framework(_FRAMEWORKS[package.name], package)
        for package in listed
        if package.name in _FRAMEWORKS
    }
    cudnn, nccl = installs_of(listed, "cudnn", _SOURCE), installs_of(listed, "nccl", _SOURCE)
    toolkits = Toolkits()
    if cudnn:
        toolkits = Toolkits(cudnn=Known(cudnn, _SOURCE), nccl=Known(nccl, _SOURCE) if nccl else toolkits.nccl)
    interpreter = Interpreter(packages=Known(listed, _SOURCE))
    if frameworks:
        interpreter = Interpreter(
            packages=Known(listed, _SOURCE), frameworks=Known(tuple(frameworks.values()), _SOURCE)
        )
    return Machine(origin="pasted", toolkits=toolkits, interpreter=interpreter)


def _label_of_build(build: str) -> str | None:
    """Return pip's label for a build of conda, which stands beside the version: py3.9_cpu_0, py3.9_cuda11.3_cudnn8.3.2_0."""
    if re.search(r"(?:^|_)cpu", build):
        return "cpu"
    match = re.search(r"cuda(\d+)\.(\d)_|(?:^|_)cu(\d{2,3})$", build)
    return f"cu{match[3] or match[1] + match[2]}" if match else None


def _framework(name: str, package: Package) -> Framework:
    version = Known(package.version, _SOURCE)
    if name != "torch":
        return Framework(name=name, version=version)
    return Framework(
        name=name,
        version=version,
        build=build_of(package.version, _SOURCE),
        cuda=cuda_of(package.version, _SOURCE),
        rocm=rocm_of(package.version, _SOURCE),
    )


def _freeze_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(re.compile(FREEZE + r"|\s*[\w.-]+ @ \S|\s*-e "), lines, start)


def _read_freeze(lines: Sequence[str]) -> Machine | None:
    return _machine([(match[1], match[2]) for line in lines if (match := _FREEZE.match(line))])


def _list_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(_RULE_OR_ROW, lines, start + 1)


def _read_list(lines: Sequence[str]) -> Machine | None:
    rows = [match for line in lines if (match := _ROW.match(line))]
    return _machine([(row[1], row[2]) for row in rows], {_normal(row[1]): row[3] or "" for row in rows})


def _rows_extent(lines: Sequence[str], start: int) -> int:
    return end_of_run(_RULE_OR_ROW, lines, start)


def _show_extent(lines: Sequence[str], start: int) -> int:
    end = end_of_run(_SHOWN, lines, start)
    return end if end - start >= 2 and lines[start + 1].startswith("Version:") else start


def _read_show(lines: Sequence[str]) -> Machine | None:
    return _machine([(lines[0].partition(":")[2].strip(), lines[1].partition(":")[2].strip())])


KINDS = (
    ReportKind(text("list of packages"), FREEZE, _freeze_extent, _read_freeze, several="each"),
    ReportKind(
        text("list of packages"),
        r"\s*(?:Package\s+Version\b|# Name\s+Version\b)",
        _list_extent,
        _read_list,
        several="each",
    ),
    ReportKind(text("list of packages"), _BARE_ROW, _rows_extent, _read_list, several="each"),
    ReportKind(text("list of packages"), r"Name: \S+$", _show_extent, _read_show, several="each"),
)


_LABEL = re.compile(r"\+.*?(?:cu(\d{2,3})(?!\d)|rocm(\d+(?:\.\d+){0,2})|(cpu)|(xpu))")


def build_of(version: str, source: str) -> Fact[str]:
    """Return what torch was built for: 2.4.0+cu121 for CUDA, 2.4.0+cpu for the CPU only."""
    match = _LABEL.search(version)
    if match is None:
        return Unknown(text("the version {version} does not show what torch was built for", version=version))
    return Known("cuda" if match[1] else "rocm" if match[2] else match[3] or match[4], source)


def cuda_of(version: str, source: str) -> Fact[str]:
    """Return the CUDA in torch's version: 2.4.0+cu121 was built with CUDA 12.1."""
    match = _LABEL.search(version)
    if match is None:
        return Unknown(text("the version {version} does not show with which CUDA torch was built", version=version))
    if match[1] is None:
        return Unknown(text("not built with CUDA"))
    return Known(f"{match[1][:-1]}.{match[1][-1]}", source)


def rocm_of(version: str, source: str) -> Fact[str]:
    """Return the ROCm in torch's version."""
    match = _LABEL.search(version)
    return Known(match[2], source) if match and match[2] else Unknown(text("the version shows no ROCm"))

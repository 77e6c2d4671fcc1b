"""What a version of torch tells of its build: 2.4.0+cu121 is built for CUDA 12.1, 2.4.0+cpu for the CPU alone."""

from __future__ import annotations

import re

from ownlab.machine.facts import Fact, Known, Unknown

__all__ = ["build_of", "cuda_of", "rocm_of"]

_LABEL = re.compile(r"\+.*?(?:cu(\d{2,3})(?!\d)|rocm(\d+(?:\.\d+){0,2})|(cpu)|(xpu))")
_SILENT = "the version does not say"


def build_of(version: str, source: str) -> Fact[str]:
    match = _LABEL.search(version)
    if match is None:
        return Unknown(f"{_SILENT} what {version} was built for")
    return Known("cuda" if match[1] else "rocm" if match[2] else match[3] or match[4], source)


def cuda_of(version: str, source: str) -> Fact[str]:
    match = _LABEL.search(version)
    if match is None:
        return Unknown(f"{_SILENT} with which CUDA {version} was built")
    if match[1] is None:
        return Unknown("not built with CUDA")
    return Known(f"{match[1][:-1]}.{match[1][-1]}", source)


def rocm_of(version: str, source: str) -> Fact[str]:
    match = _LABEL.search(version)
    return Known(match[2], source) if match and match[2] else Unknown("not built with ROCm, as far as its version says")

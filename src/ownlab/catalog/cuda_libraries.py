"""CUDA's shared libraries: which CUDA a library's name belongs to, and which of NVIDIA's wheels brings it."""

from __future__ import annotations

import re

from msgspec import Struct, field

from ownlab.catalog.data_files import load

__all__ = ["cuda_majors", "library_names", "library_wheel"]

_NAME = re.compile(r"(?:lib)?(?P<name>[A-Za-z-]+?)(?:\.so\.(?P<unix>\d+)|64_(?P<windows>\d+)\.dll|\.so$)")
_FIRST_WITH_WHEELS = 11
_FIRST_WITHOUT_SUFFIX = 13
_ALL_NUMBERED_AS_CUDA = 9  # up to this CUDA


class CudaLibrary(Struct, frozen=True):
    name: str
    wheel: str  # the part of the wheel's name between nvidia- and -cu12
    pinned: bool = False  # the wheel's version is CUDA's
    suffix: bool = False  # the wheel keeps its -cuNN from CUDA 13 on
    numbers: dict[str, tuple[int, ...]] = field(default_factory=dict)  # by the number in its name; else that is CUDA's


class CudaLibraries(Struct, frozen=True):
    source: tuple[str, ...]
    as_of: str
    libraries: tuple[CudaLibrary, ...]


def _libraries() -> tuple[CudaLibrary, ...]:
    return load("cuda_libraries", CudaLibraries).libraries


def library_names() -> tuple[str, ...]:
    """cudart, cublas, …: without what stands before and after them in a file's name."""
    return tuple(row.name for row in _libraries())


def cuda_majors(file: str) -> tuple[int, ...]:
    """The CUDA majors that have a library of this name: "libcufft.so.11" -> (12,); () where the name does not tell."""
    row, number = _parse(file)
    if row is None or number is None:
        return ()
    known = row.numbers.get(str(number))
    if known is not None:
        return known
    return (number,) if not row.numbers or number <= _ALL_NUMBERED_AS_CUDA else ()


def library_wheel(file: str, cuda_major: int) -> str | None:
    """The requirement of NVIDIA's wheel with a library for this CUDA, as pip takes it; None where there is none."""
    row, _ = _parse(file)
    if row is None or cuda_major < _FIRST_WITH_WHEELS:
        return None
    if cuda_major < _FIRST_WITHOUT_SUFFIX or row.suffix:
        return f"nvidia-{row.wheel}-cu{cuda_major}"
    return f"'nvidia-{row.wheel}=={cuda_major}.*'" if row.pinned else f"nvidia-{row.wheel}"


def _parse(file: str) -> tuple[CudaLibrary | None, int | None]:
    """ "libcudart.so.11.0" and "cudart64_110.dll" -> cudart's row and 11."""
    match = _NAME.match(file)
    if match is None:
        return None, None
    row = next((row for row in _libraries() if row.name.lower() == match["name"].lower()), None)
    if match["windows"]:
        return row, _windows_number(match["windows"])
    return row, int(match["unix"]) if match["unix"] else None


def _windows_number(digits: str) -> int:
    """Windows leaves out the point of older versions: 110 is 11.0, 92 is 9.2; 12 is 12."""
    if len(digits) == 3:
        return int(digits[:2])
    return int(digits[0]) if len(digits) == 2 and int(digits) >= 50 else int(digits)

"""Which driver runs which CUDA, and which CUDA a shared library and NVIDIA's wheels belong to.

NVIDIA's rule since CUDA 11: a program built with any 11.x (12.x, 13.x) runs on every driver from its family's floor on
("minor-version compatibility"), and every driver runs all older CUDA. Up to 10.2 each release has its own floor.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from ownlab.catalog.data_files import load_json
from ownlab.catalog.versions import major_minor, parse_version

__all__ = [
    "Branch",
    "branch_of",
    "cuda_majors",
    "driver_floor",
    "library_names",
    "library_wheel",
    "newest_cuda",
    "toolkit_driver",
]


class Family(Struct, frozen=True):
    cuda_major: int
    linux_floor: str | None
    windows_floor: str | None
    minor_compatibility: bool


class Toolkit(Struct, frozen=True):
    cuda: str
    linux_driver: str | None
    windows_driver: str | None


class Branch(Struct, frozen=True):
    """A driver branch: R580 is 580."""

    branch: int
    kind: str | None = None
    end_of_life: str | None = None  # "2026-06"
    newest_cuda: str | None = None


class Drivers(Struct, frozen=True):
    source: tuple[str, ...]
    as_of: str
    families: tuple[Family, ...]
    toolkits: tuple[Toolkit, ...]
    branches: tuple[Branch, ...]


def _drivers() -> Drivers:
    return load_json("cuda_drivers", Drivers)


def driver_floor(cuda: str, family: str = "linux") -> str | None:
    """Return the oldest driver that runs programs built with this CUDA; None where no source states it."""
    version = parse_version(cuda)
    if not version:
        return None
    for row in _drivers().families:
        if row.cuda_major == version[0] and row.minor_compatibility:
            return row.windows_floor if family == "windows" else row.linux_floor
    return toolkit_driver(cuda, family)


def toolkit_driver(cuda: str, family: str = "linux") -> str | None:
    """Return the driver that came with this toolkit; it supports all of its features."""
    for row in _drivers().toolkits:
        if row.cuda == major_minor(cuda):
            return row.windows_driver if family == "windows" else row.linux_driver
    return None


def branch_of(driver: str, family: str = "linux") -> Branch | None:
    """Return the branch of a driver version: "535.104.05" -> R535.

    Windows drivers of a branch are numbered slightly above it (R550: 551 to 553), so the nearest branch below is taken.
    """
    version = parse_version(driver)
    if not version:
        return None
    if family == "windows":
        below = [row for row in _drivers().branches if row.branch <= version[0] < row.branch + 5]
        return max(below, key=lambda row: row.branch, default=None)
    return next((row for row in _drivers().branches if row.branch == version[0]), None)


def newest_cuda(driver: str, family: str = "linux") -> str | None:
    """Return the newest CUDA that a driver supports, as the header of nvidia-smi shows it."""
    branch = branch_of(driver, family)
    return branch.newest_cuda if branch else None


_NAME = re.compile(r"(?:lib)?(?P<name>[A-Za-z-]+?)(?:\.so\.(?P<unix>\d+)|64_(?P<windows>\d+)\.dll|\.so$)")
_FIRST_WITH_WHEELS = 11
_FIRST_WITHOUT_SUFFIX = 13
_ALL_NUMBERED_AS_CUDA = 9  # up to this CUDA


class CudaLibrary(Struct, frozen=True):
    name: str
    wheel: str  # the part of the wheel's name between nvidia- and -cu12
    pinned: bool = False  # the wheel's version is CUDA's
    suffix: bool = False  # the wheel keeps its -cuNN from CUDA 13 on
    numbers: dict[str, tuple[int, ...]] = field(
        default_factory=dict
    )  # CUDA majors by the number in the file name; else that number is CUDA's


class CudaLibraries(Struct, frozen=True):
    source: tuple[str, ...]
    as_of: str
    libraries: tuple[CudaLibrary, ...]


def _libraries() -> tuple[CudaLibrary, ...]:
    return load_json("cuda_libraries", CudaLibraries).libraries


def library_names() -> tuple[str, ...]:
    """Return cudart, cublas, …: names without prefix and suffix of the file."""
    return tuple(row.name for row in _libraries())


def cuda_majors(file: str) -> tuple[int, ...]:
    """Return the CUDA majors that have a library of this file name: "libcufft.so.11" -> (12,); () where it is unknown."""
    row, number = _parse(file)
    if row is None or number is None:
        return ()
    majors = row.numbers.get(str(number))
    if majors is not None:
        return majors
    return (number,) if not row.numbers or number <= _ALL_NUMBERED_AS_CUDA else ()


def library_wheel(file: str, cuda_major: int) -> str | None:
    """Return the pip requirement of NVIDIA's wheel with a library for this CUDA; None where there is none."""
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
    """Windows omits the point of older versions: 110 is 11.0, 92 is 9.2; 12 is 12."""
    if len(digits) == 3:
        return int(digits[:2])
    return int(digits[0]) if len(digits) == 2 and int(digits) >= 50 else int(digits)

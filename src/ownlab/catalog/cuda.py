"""Which driver runs which CUDA.

NVIDIA's rule since CUDA 11: a program built with any 11.x (12.x, 13.x) runs on every driver from its family's floor on
("minor-version compatibility"), and every driver runs all older CUDA. Up to 10.2 each release has its own floor.
"""

from __future__ import annotations

from msgspec import Struct

from ownlab.catalog.data_files import load
from ownlab.catalog.versions import major_minor, parse_version

__all__ = ["Branch", "branch_of", "driver_floor", "newest_cuda", "toolkit_driver"]


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
    return load("cuda_drivers", Drivers)


def driver_floor(cuda: str, family: str = "linux") -> str | None:
    """The oldest driver that runs programs built with this CUDA; None where no source says."""
    version = parse_version(cuda)
    if not version:
        return None
    for row in _drivers().families:
        if row.cuda_major == version[0] and row.minor_compatibility:
            return row.windows_floor if family == "windows" else row.linux_floor
    return toolkit_driver(cuda, family)


def toolkit_driver(cuda: str, family: str = "linux") -> str | None:
    """The driver that came with this toolkit: it serves all of its features."""
    for row in _drivers().toolkits:
        if row.cuda == major_minor(cuda):
            return row.windows_driver if family == "windows" else row.linux_driver
    return None


def branch_of(driver: str, family: str = "linux") -> Branch | None:
    """The branch that a driver version belongs to: "535.104.05" -> R535.

    Windows drivers of a branch run a few numbers above it (R550: 551 to 553), so there the nearest branch below is meant.
    """
    version = parse_version(driver)
    if not version:
        return None
    if family == "windows":
        below = [row for row in _drivers().branches if row.branch <= version[0] < row.branch + 5]
        return max(below, key=lambda row: row.branch, default=None)
    return next((row for row in _drivers().branches if row.branch == version[0]), None)


def newest_cuda(driver: str, family: str = "linux") -> str | None:
    """The newest CUDA that a driver serves, as nvidia-smi's header says it."""
    known = branch_of(driver, family)
    return known.newest_cuda if known else None

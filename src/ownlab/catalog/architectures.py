"""GPU architectures: what a compute capability supports, and which compiled code runs on it. PCIe rates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct, field

from ownlab.catalog.data_files import load_json
from ownlab.catalog.versions import parse_version

__all__ = ["PCIE_LANE_BYTES", "Architecture", "architecture_of", "capability_of", "is_datacentre", "runs_on"]


class Architecture(Struct, frozen=True):
    name: str
    compute_capabilities: tuple[str, ...]
    first_cuda: dict[str, str | None]  # by compute capability: the first toolkit that compiles for it
    open_modules: str  # required, possible, impossible
    bf16: bool
    tensor_cores: bool
    tf32: bool
    fp8: bool
    last_cuda: str | None = None  # the last toolkit that compiles for it; None: the newest does
    last_cuda_by_capability: dict[str, str] = field(default_factory=dict)  # exceptions within the architecture
    last_driver_branch: int | None = None  # None: the newest supports it

    def last_cuda_for(self, capability: str) -> str | None:
        """Return the last toolkit that compiles for one of its compute capabilities; None: the newest does."""
        return self.last_cuda_by_capability.get(capability, self.last_cuda)


class NamedCard(Struct, frozen=True):
    match: str
    compute_capability: str
    datacentre: bool


class Architectures(Struct, frozen=True):
    source: tuple[str, ...]
    as_of: str
    architectures: tuple[Architecture, ...]
    cards: tuple[NamedCard, ...]


# Jetson parts: code for them runs only on themselves, and other code of their major version does not run on them (torch's own
# table, DEVICE_REQUIREMENT in torch/cuda/__init__.py of 2.11 to 2.15). Wheels from CUDA 13.2 on reportedly support Orin with
# server code as well; their arch list does not show it.
_ONLY_ON_ITSELF = {(5, 3), (6, 2), (7, 2), (8, 7), (11, 0)}
# Thor was 10.1 up to CUDA 12.9 and is 11.0 since.
_RENAMED: dict[tuple[int, ...], tuple[int, ...]] = {(10, 1): (11, 0)}
_CODE = re.compile(r"(sm|compute)_(\d+?)(\d)([af]?)$")


def _table() -> Architectures:
    return load_json("architectures", Architectures)


def architecture_of(capability: str) -> Architecture | None:
    """Return the architecture of a compute capability: "8.6" -> Ampere."""
    return next((row for row in _table().architectures if capability in row.compute_capabilities), None)


@lru_cache(maxsize=256)
def _row_by_name(name: str) -> NamedCard | None:
    return next((row for row in _table().cards if re.search(row.match, name, re.IGNORECASE)), None)


def capability_of(name: str) -> str | None:
    """Return the compute capability of a card by its nvidia-smi name; None for a name that is not in the table."""
    row = _row_by_name(name)
    return row.compute_capability if row else None


def is_datacentre(name: str) -> bool | None:
    """Return whether forward compatibility (cuda-compat) supports this card; None for a name that is not in the table."""
    row = _row_by_name(name)
    return row.datacentre if row else None


def runs_on(arch_list: Iterable[str], capability: str) -> bool:
    """Return whether a build with this arch list has code for a card: ("sm_80", "sm_86") runs on 8.9, not on 9.0.

    Machine code (sm_XY) runs on cards of the same major version and an equal or higher minor one; PTX (compute_XY) is
    compiled by the driver for any newer card; an architecture-specific target (sm_90a) runs on just that card.
    """
    card = _RENAMED.get(parse_version(capability), parse_version(capability))
    return any(_code_runs_on(code, card) for code in arch_list)


def _code_runs_on(code: str, card: tuple[int, ...]) -> bool:
    match = _CODE.match(code)
    if match is None:
        return False
    target: tuple[int, ...] = (int(match[2]), int(match[3]))
    target = _RENAMED.get(target, target)
    if match[4] == "a" or target in _ONLY_ON_ITSELF or card in _ONLY_ON_ITSELF:
        return target == card or (match[1] == "compute" and not match[4] and target <= card)
    if match[1] == "compute":
        return target <= card
    return target[0] == card[0] and target[1] <= card[1]


# Bytes per second of one lane in one direction, by generation, after line coding (PCI-SIG, PCIe 1.0 to 6.0).
PCIE_LANE_BYTES = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

"""The runtime types of this machine: the CPU, and whole cards, shares of cards and several cards, in each environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import kernels_export, kernels_folder, state_folder
from ownlab.config.settings import LabOptions
from ownlab.lab.environments.registry import DEFAULT, Environment, list_environments, own_python
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.kernelspecs import read_specs, write_specs
from ownlab.lab.runtimes.records import ListedType, RuntimeType, TypeList
from ownlab.lab.store.rows import Device
from ownlab.units import PARTS

__all__ = ["current_types", "custom_type", "list_types", "refresh_specs", "runtime_types"]

# Number of shares -> how a label and a name write one of them.
_FRACTIONS = {2: ("½", "half"), 3: ("⅓", "third"), 4: ("¼", "quarter"), 6: ("⅙", "sixth"), 12: ("1/12", "twelfth")}


class _Resources(NamedTuple):
    """The cards that a type leases: "½ × NVIDIA H200"."""

    label: str
    slug: str
    kind: str | None = None
    cards: int = 0
    parts: int = PARTS


def runtime_types(
    devices: Sequence[Device], environments: Iterable[Environment], options: LabOptions
) -> tuple[RuntimeType, ...]:
    """Return every type that this machine can start, in the order in which they are offered.

    Environments whose interpreter is gone are left out. Until the default environment is built, ownlab's own stands in.
    """
    resources = [_Resources("CPU", "cpu")]
    for kind in sorted({device.name for device in devices}):
        resources += _resources_of(kind, [device for device in devices if device.name == kind], options.shares)
    types: list[RuntimeType] = []
    taken: set[str] = set()
    there = {environment.name: environment for environment in environments if environment.is_there}
    default = there.pop(DEFAULT, Environment(DEFAULT, own_python()))
    for environment in (default, *there.values()):
        own = environment.name == DEFAULT
        for resource in resources:
            name = _unique("ownlab-" + ("" if own else f"{environment.name}-") + resource.slug, taken)
            types.append(_runtime_type(environment, resource, name, options))
    return tuple(types)


def custom_type(environment: Environment, kind: str | None, cards: int, parts: int, options: LabOptions) -> RuntimeType:
    """A type with any number of cards. It need not be on the list: a run may ask for three."""
    resource = _Resources("CPU", "cpu")
    if kind is not None:
        mark, word = (str(cards), str(cards)) if parts == PARTS else _FRACTIONS[PARTS // parts]
        resource = _Resources(f"{mark} × {kind}", f"{word}-{_slug(kind)}", kind, cards, parts)
    prefix = "" if environment.name == DEFAULT else f"{environment.name}-"
    return _runtime_type(environment, resource, f"ownlab-{prefix}{resource.slug}", options)


def _runtime_type(environment: Environment, resource: _Resources, name: str, options: LabOptions) -> RuntimeType:
    return RuntimeType(
        name=name,
        label=f"{'Python 3' if environment.name == DEFAULT else environment.name} ({resource.label})",
        environment=environment.name,
        python=environment.python,
        kind=resource.kind,
        cards=resource.cards,
        parts=resource.parts,
        units_per_hour=options.units_for(resource.kind, resource.cards, resource.parts),
    )


def _slug(kind: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-") or "card"


def _resources_of(kind: str, devices: Sequence[Device], shares: Sequence[int]) -> Iterator[_Resources]:
    slug = _slug(kind)
    yield _Resources(f"1 × {kind}", f"1-{slug}", kind, 1)
    if not all(device.whole_only for device in devices):
        for share in shares:
            mark, word = _FRACTIONS[share]
            yield _Resources(f"{mark} × {kind}", f"{word}-{slug}", kind, 1, PARTS // share)
    # CUDA gives a process only one MIG instance, however many are visible (NVIDIA's MIG User Guide).
    if not any(device.uuid.startswith("MIG-") for device in devices):
        for count in _several(len(devices)):
            yield _Resources(f"{count} × {kind}", f"{count}-{slug}", kind, count)


def _several(most: int) -> list[int]:
    """6 -> 2, 4, 6: powers of two, and the maximum."""
    powers = [2**power for power in range(1, most.bit_length()) if 2**power < most]
    return [*powers, most] if most > 1 else []


def _unique(name: str, taken: set[str]) -> str:
    """Make a name unique: two cards' names may differ in punctuation only."""
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}-{number}"
    taken.add(unique)
    return unique


def current_types(
    environ: Mapping[str, str] = os.environ, devices: Sequence[Device] | None = None
) -> tuple[RuntimeType, ...]:
    """Return the types that can be started now."""
    options = resolve_lab_options(environ=environ)
    current = read_devices(environ) if devices is None else devices
    return runtime_types(current, list_environments(environ), options)


def refresh_specs(environ: Mapping[str, str] = os.environ, devices: Sequence[Device] | None = None) -> bool:
    """Update the kernelspecs on disk; return whether anything changed."""
    folder = kernels_folder(environ)
    if folder.is_relative_to(state_folder(environ, make=False)):
        state_folder(environ)  # creates it with private permissions
    return write_specs(current_types(environ, devices), folder)


def list_types(environ: Mapping[str, str] = os.environ) -> TypeList:
    """Compare the current types with the kernelspecs on disk."""
    folder = kernels_folder(environ)
    current, written = current_types(environ), read_specs(folder)
    names = {kind.name for kind in current}
    return TypeList(
        str(folder),
        tuple(ListedType(kind, kind in written) for kind in current),
        tuple(kind.name for kind in written if kind.name not in names),
        kernels_export(environ),
    )

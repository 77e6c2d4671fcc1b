"""Which runtime types there are: the CPU, and every card whole, in part and several together, in each environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ownlab.config.settings import LabOptions
from ownlab.lab.environments.registry import DEFAULT, Environment, own_python
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.lab.store.rows import Device
from ownlab.units import PARTS

__all__ = ["runtime_types"]

# Number of parts -> how a person writes one of them, and how a name does.
_FRACTIONS = {2: ("½", "half"), 3: ("⅓", "third"), 4: ("¼", "quarter"), 6: ("⅙", "sixth"), 12: ("1/12", "twelfth")}


class _Form(NamedTuple):
    """Something to hold: "½ × NVIDIA H200"."""

    words: str
    slug: str
    kind: str | None = None
    cards: int = 0
    parts: int = PARTS


def runtime_types(
    devices: Sequence[Device], environments: Iterable[Environment], options: LabOptions
) -> tuple[RuntimeType, ...]:
    """Every type that this machine can start, in the order in which people are offered them.

    An environment whose interpreter is gone has none.
    """
    forms = [_Form("CPU", "cpu")]
    for kind in sorted({device.name for device in devices}):
        forms += _forms(kind, [device for device in devices if device.name == kind], options.shares)
    types: list[RuntimeType] = []
    taken: set[str] = set()
    there = [environment for environment in environments if environment.is_there]
    for environment in (Environment(DEFAULT, own_python()), *there):
        own = environment.name == DEFAULT
        for form in forms:
            name = _unique("ownlab-" + ("" if own else f"{environment.name}-") + form.slug, taken)
            types.append(
                RuntimeType(
                    name=name,
                    label=f"{'Python 3' if own else environment.name} ({form.words})",
                    environment=environment.name,
                    python=environment.python,
                    kind=form.kind,
                    cards=form.cards,
                    parts=form.parts,
                    units_per_hour=options.units_for(form.kind, form.cards, form.parts),
                )
            )
    return tuple(types)


def _forms(kind: str, devices: Sequence[Device], shares: Sequence[int]) -> Iterator[_Form]:
    slug = re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-") or "card"
    yield _Form(f"1 × {kind}", f"1-{slug}", kind, 1)
    if not all(device.whole_only for device in devices):
        for share in shares:
            mark, word = _FRACTIONS[share]
            yield _Form(f"{mark} × {kind}", f"{word}-{slug}", kind, 1, PARTS // share)
    # CUDA gives a process one MIG instance, however many it is shown (NVIDIA's MIG User Guide).
    if not any(device.uuid.startswith("MIG-") for device in devices):
        for count in _several(len(devices)):
            yield _Form(f"{count} × {kind}", f"{count}-{slug}", kind, count)


def _several(most: int) -> list[int]:
    """6 -> 2, 4, 6: powers of two, and all of them."""
    powers = [2**power for power in range(1, most.bit_length()) if 2**power < most]
    return [*powers, most] if most > 1 else []


def _unique(name: str, taken: set[str]) -> str:
    """Two cards' names may differ in nothing but signs."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    taken.add(found)
    return found

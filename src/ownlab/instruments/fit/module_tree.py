"""Which modules hold the memory: bytes by dotted name, as a tree; equal layers are one line."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from ownlab.instruments.fit.records import ModuleShare

__all__ = ["shares"]

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def shares(held: Iterable[tuple[str, int]]) -> tuple[ModuleShare, ...]:
    """The tree, the greatest branch first; "layers.0" and "layers.1" are both "layers.*". What no part holds has no name."""
    own = 0
    sizes: dict[str, int] = defaultdict(int)
    names: dict[str, set[str]] = defaultdict(set)
    for module, size in held:
        own += 0 if module else size
        for inner in _ancestors(module):
            key = _NUMBER.sub("*", inner)
            sizes[key] += size
            names[key].add(inner)
    children: dict[str, list[str]] = defaultdict(list)
    for key in sizes:
        children[key.rpartition(".")[0]].append(key)
    found: list[ModuleShare] = []

    def walk(above: str, depth: int) -> None:
        for key in sorted(children.get(above, ()), key=lambda one: (-sizes[one], one)):
            found.append(ModuleShare(key, len(names[key]), sizes[key], depth))
            walk(key, depth + 1)

    walk("", 0)
    return (*found, ModuleShare("", 1, own, 0)) if own else tuple(found)


def _ancestors(module: str) -> Iterable[str]:
    """ "a.b" -> "a", "a.b"."""
    parts = module.split(".") if module else []
    return (".".join(parts[: number + 1]) for number in range(len(parts)))

"""Packages that a notebook's cells installed: what a kernel tells of them, and how the notebook remembers it.

The kernel tells changes, {"pip": {name: requirement or None}, "apt": {name: name or None}}; None: it was removed. The
notebook's metadata has lists, as people would write them: {"ownlab": {"packages": {"pip": ["einops==0.8.1"], "apt": […]}}}.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["PACKAGES_MESSAGE", "Changes", "add_changes", "packages_of", "record_packages"]

PACKAGES_MESSAGE = "ownlab_packages"

Changes = dict[str, dict[str, str | None]]

_KINDS = ("pip", "apt")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def add_changes(changes: Changes, told: Mapping[str, Any]) -> bool:
    """Add to what is known what a kernel tells later; whether it tells anything. It may say what it likes."""
    found = False
    for kind in _KINDS:
        given = told.get(kind)
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if value is None or isinstance(value, str):
                changes.setdefault(kind, {})[name] = value
                found = True
    return found


def packages_of(notebook: Mapping[str, Any]) -> dict[str, list[str]]:
    """What a notebook remembers, as requirements of pip and names of apt; empty where that is nothing."""
    found = _part(_part(notebook, "metadata"), "ownlab").get("packages")
    lists = {kind: _texts(_as_object(found).get(kind)) for kind in _KINDS}
    return {kind: texts for kind, texts in lists.items() if texts}


def record_packages(notebook: dict[str, Any], changes: Changes) -> bool:
    """Put changes into a notebook's metadata; whether that changed it. What else stands there stays."""
    metadata = notebook.setdefault("metadata", {})
    own = metadata.get("ownlab", {})
    if not isinstance(own, dict) or not isinstance(own.get("packages", {}), dict):
        return False  # somebody else's
    before = packages_of(notebook)
    after = {kind: _changed(kind, before.get(kind, []), changes.get(kind, {})) for kind in _KINDS}
    after = {kind: texts for kind, texts in after.items() if texts}
    if after == before:
        return False
    others = {name: value for name, value in own.get("packages", {}).items() if name not in _KINDS}
    metadata["ownlab"] = {**own, "packages": {**others, **after}}
    return True


def _changed(kind: str, before: Iterable[str], changes: Mapping[str, str | None]) -> list[str]:
    kept: dict[str, str | None] = {_name(kind, each): each for each in before}
    kept.update((_name(kind, name), value) for name, value in changes.items())
    return sorted(value for value in kept.values() if value)


def _name(kind: str, requirement: str) -> str:
    """Whatever is written after it, and however it is written: Foo_Bar==1.0 -> foo-bar."""
    found = _NAME.match(requirement) if kind == "pip" else None
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else requirement


def _texts(found: object) -> list[str]:
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _as_object(record.get(name))


def _as_object(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}

"""Packages that a notebook's cells installed: what a kernel reports, and what the notebook's metadata keeps.

The kernel reports changes, {"pip": {name: requirement or None}, "apt": {name: name or None}}; None means removed. The
metadata has lists, as people would write them: {"ownlab": {"packages": {"pip": ["einops==0.8.1"], "apt": […]}}}.
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


def add_changes(changes: Changes, reported: Mapping[str, Any]) -> bool:
    """Add later changes that a kernel reported; return whether there are any. Invalid ones are ignored."""
    any_reported = False
    for kind in _KINDS:
        given = reported.get(kind)
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if value is None or isinstance(value, str):
                changes.setdefault(kind, {})[name] = value
                any_reported = True
    return any_reported


def packages_of(notebook: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the packages in a notebook's metadata, as requirements of pip and names of apt; empty if there are none."""
    packages = _part(_part(notebook, "metadata"), "ownlab").get("packages")
    lists = {kind: _texts(_as_object(packages).get(kind)) for kind in _KINDS}
    return {kind: texts for kind, texts in lists.items() if texts}


def record_packages(notebook: dict[str, Any], changes: Changes) -> bool:
    """Apply changes to a notebook's metadata; return whether it changed. Other keys are kept."""
    metadata = notebook.setdefault("metadata", {})
    own = metadata.get("ownlab", {})
    if not isinstance(own, dict) or not isinstance(own.get("packages", {}), dict):
        return False  # the key is used by something else
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
    """The normalised name of a requirement: Foo_Bar==1.0 -> foo-bar."""
    match = _NAME.match(requirement) if kind == "pip" else None
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else requirement


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return _as_object(record.get(name))


def _as_object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

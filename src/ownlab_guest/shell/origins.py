"""What an environment had before notebooks changed it, so that a factory reset can put it back.

Each package folder has a file of its own: it is writable if something was installed there, and a version that is hidden by
another folder need not be restored.
"""

import contextlib
import json
import os
import re
from typing import Dict, Iterable, Mapping, Optional, Tuple

from ownlab_guest.atomic_files import replace_file

__all__ = ["FILE", "forget_origins", "read_origins", "record_origins"]

FILE = "ownlab-origins.json"  # name -> the version before the first change; null: the package was not there
_INFO = ".dist-info"

Origins = Dict[str, Optional[str]]
Found = Mapping[str, Tuple[int, int]]  # as in packages.py


def record_origins(before: Found, after: Found) -> None:
    """Record the packages that differ. The first change counts: later ones are changes of what a notebook installed."""
    changed: Dict[str, Origins] = {}
    for path in {*before, *after}:
        folder, name, _ = _parts(path)
        if before.get(path) != after.get(path) and name not in changed.get(folder, {}):
            earlier = [_parts(each)[2] for each in before if _parts(each)[:2] == (folder, name)]
            changed.setdefault(folder, {})[name] = earlier[0] if earlier else None
    for folder, names in changed.items():
        _write(folder, {**names, **_read(folder)})


def read_origins(folders: Iterable[str]) -> Origins:
    """Return what is recorded for these folders; for a package in several, that of the first."""
    found: Origins = {}
    for folder in folders:
        found = {**_read(folder), **found}
    return found


def forget_origins(folders: Iterable[str], names: Iterable[str]) -> None:
    """Called when packages are again as they were."""
    gone = set(names)
    for folder in folders:
        known = _read(folder)
        if gone & set(known):
            _write(folder, {name: version for name, version in known.items() if name not in gone})


def _parts(path: str) -> Tuple[str, str, str]:
    """FOLDER/Foo_Bar-1.0.dist-info -> FOLDER, foo-bar, 1.0."""
    name, _, version = os.path.basename(path)[: -len(_INFO)].partition("-")
    return os.path.dirname(path), re.sub(r"[-_.]+", "-", name).lower(), version


def _read(folder: str) -> Origins:
    try:
        with open(os.path.join(folder or ".", FILE), encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return {}
    items = content.items() if isinstance(content, dict) else ()
    return {name: version for name, version in items if version is None or isinstance(version, str)}


def _write(folder: str, origins: Origins) -> None:
    path = os.path.join(folder or ".", FILE)
    with contextlib.suppress(OSError):  # then nothing of this folder is reset
        replace_file(path, json.dumps(origins, indent=1, sort_keys=True))

"""Disconnect and delete, and factory reset: what a runtime leaves behind, and its removal."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import content_folder
from ownlab.errors import LabError
from ownlab.guest_client import ask
from ownlab.lab.runtimes.content_files import is_content_in_use, mark_content, remove_content
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.text import text

__all__ = [
    "Leftovers",
    "NeededPackage",
    "RemovablePackages",
    "RemovedPackages",
    "delete_content_after_end",
    "find_removable",
    "measure_content",
    "remove_packages",
]

# Entries that are counted: the answer must come while somebody waits for a dialog.
_MAX_ENTRIES = 50_000
# Seconds.
_POLL = 0.2
_MARGIN = 60.0  # beyond the time that on_end functions have
_PLAN_SECONDS = 60.0
_REMOVE_SECONDS = 600.0


class Leftovers(Struct, frozen=True):
    """GET …/leftovers: what a runtime has in /content."""

    runtime: str
    content: bool  # whether it has such a folder
    files: int = 0
    size: int = 0  # bytes
    complete: bool = True  # False: there are more files than were counted


class NeededPackage(Struct, frozen=True):
    """A package that stays, since another one needs it."""

    name: str
    by: str


class RemovablePackages(Struct, frozen=True):
    """The packages of a notebook that a factory reset uninstalls, as NAME==VERSION, and those that stay."""

    removable: tuple[str, ...]
    needed: tuple[NeededPackage, ...]
    restorable: tuple[str, ...] = ()  # NAME==VERSION, as the environment had it before a notebook replaced it
    own: tuple[str, ...] = ()  # of the environment: no notebook has changed them here


class RemovedPackages(Struct, frozen=True):
    """The packages that were uninstalled; `failed`: why not all."""

    removed: tuple[str, ...]
    failed: str
    restored: tuple[str, ...] = ()  # NAME==VERSION


def measure_content(runtime: str) -> Leftovers:
    """Count the files of a runtime's /content. Nothing outside of it is counted: links and mounts are not followed."""
    folder = content_folder(runtime)
    if not folder.is_dir():
        return Leftovers(runtime, content=False)
    files = size = 0
    device = os.stat(folder).st_dev
    folders = [str(folder)]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # it was removed meanwhile, or may not be read
            continue
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if entry.is_dir(follow_symlinks=False):
                if status.st_dev == device:
                    folders.append(entry.path)
                continue
            files, size = files + 1, size + status.st_size
            if files >= _MAX_ENTRIES:
                return Leftovers(runtime, content=True, files=files, size=size, complete=False)
    return Leftovers(runtime, content=True, files=files, size=size)


def delete_content_after_end(runtime: str) -> bool:
    """Remove a runtime's /content once it has ended. If this process ends before, the lab removes it later. Blocks."""
    if not mark_content(runtime):
        return False
    deadline = time.monotonic() + resolve_lab_options().on_end_seconds + _MARGIN
    while is_content_in_use(runtime):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return remove_content(runtime)


def find_removable(types: Iterable[RuntimeType], name: str, pip: Sequence[str]) -> RemovablePackages:
    """Ask the interpreter of a runtime type which of these packages a factory reset would uninstall."""
    arguments = ["removable", json.dumps({"pip": list(pip)})]
    return ask(_python(types, name), "shell.removal", arguments, answer=RemovablePackages, deadline=_PLAN_SECONDS)


def remove_packages(types: Iterable[RuntimeType], name: str, pip: Sequence[str]) -> RemovedPackages:
    """Uninstall packages from the environment of a runtime type."""
    arguments = ["remove", json.dumps({"pip": list(pip)})]
    return ask(_python(types, name), "shell.removal", arguments, answer=RemovedPackages, deadline=_REMOVE_SECONDS)


def _python(types: Iterable[RuntimeType], name: str) -> str:
    python = next((each.python for each in types if each.name == name), "")
    if not python or shutil.which(python) is None:
        raise LabError(
            text("There is no runtime type {name}.", name=name),
            hint=text("`ownlab types` lists the types of this machine."),
        )
    return python

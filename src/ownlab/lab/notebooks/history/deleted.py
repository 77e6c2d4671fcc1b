"""Notebooks that were deleted in a lab: listing them, putting them back, and removing them for good."""

from __future__ import annotations

import os
import shutil
import time

import msgspec

from ownlab.errors import LabError
from ownlab.lab.notebooks.files import write_new
from ownlab.lab.notebooks.history.recorder import history_options, version_store
from ownlab.lab.notebooks.history.records import DeletedNotebook
from ownlab.lab.notebooks.identity import NotebookIdentity, all_identities, identity_folder, write_identity
from ownlab.text import text

__all__ = ["deleted_notebooks", "find_deleted", "purge_deleted", "remove_expired", "restore_deleted"]

_DAY = 86400.0


def deleted_notebooks(folder: str = "") -> list[DeletedNotebook]:
    """Return the deleted notebooks below a folder (all if none is given) that can be restored, newest first."""
    inside = os.path.join(folder, "") if folder else ""
    gone = [
        DeletedNotebook(each.id, each.path, each.deleted_at)
        for each in all_identities()
        if each.deleted_at is not None and each.path.startswith(inside) and version_store(each.id).versions()
    ]
    return sorted(gone, key=lambda each: -each.deleted_at)


def find_deleted(identity: str) -> NotebookIdentity | None:
    """Return a deleted notebook by its id."""
    return next((each for each in all_identities() if each.id == identity and each.deleted_at is not None), None)


def restore_deleted(deleted: NotebookIdentity) -> str:
    """Write the last version of a deleted notebook to its old place, or next to it if that is taken. Return its file."""
    store = version_store(deleted.id)
    versions = store.versions()
    if not versions:
        raise LabError(text("The history of this notebook is empty."))
    notebook = store.load(versions[-1])
    os.makedirs(os.path.dirname(deleted.path), exist_ok=True)
    base, number, path = deleted.path.removesuffix(".ipynb"), 0, deleted.path
    while os.path.lexists(path):
        number += 1
        path = f"{base}-restored{number if number > 1 else ''}.ipynb"
    write_new(path, notebook)
    write_identity(msgspec.structs.replace(deleted, path=os.path.realpath(path), deleted_at=None))
    return path


def purge_deleted(identity: str) -> None:
    """Remove a deleted notebook for good: its versions, and what pages typed."""
    shutil.rmtree(identity_folder(identity), ignore_errors=True)


def remove_expired() -> list[str]:
    """Remove notebooks that were deleted longer ago than versions are kept; not those with named versions."""
    before = time.time() - history_options().history_days * _DAY
    expired = [each for each in all_identities() if each.deleted_at is not None and each.deleted_at < before]
    removed = [each for each in expired if not any(version.name for version in version_store(each.id).versions())]
    for each in removed:
        purge_deleted(each.id)
    return [each.path for each in removed]

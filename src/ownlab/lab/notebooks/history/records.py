"""Versions of notebooks. labextension/src/records.ts is generated from these records."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

__all__ = ["DeletedNotebook", "DeletedNotebooks", "NotebookHistory", "Reason", "Version", "VersionContent"]

# opened: as it was before the first edit; before-restore: as it was when another version was restored; conflict: the text
# that two simultaneous edits of a cell did not keep; recovered: the text that the file had instead of the code that ran.
Reason = Literal["opened", "edited", "named", "before-restore", "restored", "deleted", "conflict", "recovered"]


class Version(Struct, frozen=True):
    """A version of a notebook."""

    id: str
    at: float
    reason: Reason
    cells: int
    changed: int  # cells that differ from the version before, or are no longer there
    name: str | None = None
    content: str = ""  # the blob that lists its cells
    lost: int = 0  # cells of the version before that are no longer there, or have less than half of their text


class NotebookHistory(Struct, frozen=True):
    """`ownlab history NOTEBOOK --json`, and GET /ownlab/api/notebooks/history: newest first."""

    notebook: str
    versions: tuple[Version, ...]
    bytes: int  # on disk


class VersionContent(Struct, frozen=True):
    """A version with its notebook, in Jupyter's format."""

    version: Version
    notebook: dict[str, Any]


class DeletedNotebook(Struct, frozen=True):
    """A notebook that was deleted in a lab and can be restored."""

    id: str
    path: str
    deleted_at: float


class DeletedNotebooks(Struct, frozen=True):
    """`ownlab history --deleted --json`, and GET /ownlab/api/notebooks/deleted: newest first."""

    notebooks: tuple[DeletedNotebook, ...]

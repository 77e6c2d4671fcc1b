"""What pages and the server tell each other about edits. labextension/src/records.ts is generated from these records."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

__all__ = [
    "CellPatch",
    "ChangedCell",
    "Changes",
    "Conflict",
    "MetadataPatch",
    "OrderPatch",
    "OutputsPatch",
    "Patch",
    "Recovered",
    "SourcePatch",
]


class SourcePatch(Struct, frozen=True, forbid_unknown_fields=True):
    """A cell's text now, and the text that the page had last exchanged with the server; None: the cell is new."""

    text: str
    base: str | None = None


class MetadataPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """Top-level keys that were set or removed."""

    set: dict[str, Any] = {}
    unset: tuple[str, ...] = ()

    def apply_to(self, metadata: dict[str, Any]) -> None:
        metadata.update(self.set)
        for name in self.unset:
            metadata.pop(name, None)


class OutputsPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """Outputs that no journal has: cleared, pasted, or of a kernel without a journal."""

    outputs: list[dict[str, Any]]
    execution_count: int | None = None


class CellPatch(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What changed in one cell."""

    id: str
    type: str
    source: SourcePatch | None = None
    metadata: MetadataPatch | None = None
    attachments: dict[str, Any] | None = None
    outputs: OutputsPatch | None = None


class OrderPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """The ids of all cells now, and when the page last exchanged them with the server."""

    base: tuple[str, ...]
    now: tuple[str, ...]


class Patch(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of POST /ownlab/api/notebooks/edits."""

    notebook: str
    page: str
    number: int  # 1, 2, 3 … for each page; applied only once
    version: int = 0  # the newest that the page has applied
    seen: str | None = None  # RUNTIME/NUMBER: the position in the journal that the outputs include
    client: str | None = None  # the session in the headers of what the page sends to its kernel
    at: float = 0.0  # when the page made it, in seconds since 1970 on the page's clock
    # The patch before this one, if the page goes away before it was answered: applied first, unless it has arrived.
    before: Patch | None = None
    cells: tuple[CellPatch, ...] = ()
    deleted: dict[str, str] = {}  # cell id -> its text as the page knew it
    order: OrderPatch | None = None
    metadata: MetadataPatch | None = None


class ChangedCell(Struct, frozen=True, omit_defaults=True):
    """A cell that changed."""

    id: str
    type: str
    source: str
    metadata: dict[str, Any]
    attachments: dict[str, Any] | UnsetType = UNSET
    outputs: OutputsPatch | UnsetType = UNSET  # only if they were set explicitly


class Conflict(Struct, frozen=True):
    """Two edits of the same lines of a cell. `other` is the text that was not kept; the history has it too."""

    cell: str
    other: str
    at: float


class Recovered(Struct, frozen=True):
    """A cell that shows the code that ran, since its file had another text. `other` is that text."""

    cell: str
    other: str
    at: float


class Changes(Struct, frozen=True):
    """What changed in a notebook after a version."""

    version: int
    cells: tuple[ChangedCell, ...] = ()
    deleted: tuple[str, ...] = ()
    order: tuple[str, ...] | None = None  # None: as before
    metadata: dict[str, Any] | None = None  # None: as before
    conflicts: tuple[Conflict, ...] = ()
    recovered: tuple[Recovered, ...] = ()

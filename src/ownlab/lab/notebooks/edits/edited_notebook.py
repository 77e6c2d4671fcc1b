"""The state of a notebook after the edits of its pages: the source of each cell, their order, and metadata.

Outputs are in the file and in journals, except those that only a page knows. The state starts from the file (the base), and
patches change it. When another program changes the file, what it changed and what pages changed are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ownlab.lab.notebooks.edits.base import NOT_EDITED, Base, BaseCell
from ownlab.lab.notebooks.edits.cell import Cell, OutputsBefore, Ran, cell_from_file, same_code, state_of, with_last
from ownlab.lab.notebooks.edits.deleted_cells import DeletedCell, order_with_deleted
from ownlab.lab.notebooks.edits.records import (
    CellPatch,
    ChangedCell,
    Changes,
    Conflict,
    OutputsPatch,
    Patch,
    Recovered,
)
from ownlab.lab.notebooks.edits.three_way import merge_dict, merge_order, merge_text
from ownlab.lab.notebooks.parsing import cells_of

__all__ = ["EditedNotebook"]

_KEPT_CONFLICTS = 100
_KEPT_DELETED = 500
_KEPT_PAGES = 1000


class EditedNotebook(Struct):
    """The state. It can be written to disk as it is."""

    base: Base
    cells: dict[str, Cell]
    order: list[str]
    metadata: dict[str, Any]
    version: int = 1
    saved_version: int = 1  # the version that the file contains
    oldest: int = 1  # changes after an older version are not known one by one
    order_changed: int = 0
    metadata_changed: int = 0
    deleted: dict[str, DeletedCell] = {}  # the earliest deletion first
    pages: dict[str, int] = {}  # the last patch of each page
    sent: dict[str, float] = {}  # client of a page -> when it made its last patch, on its own clock
    conflicts: list[tuple[int, Conflict]] = []
    recovered: dict[str, Recovered] = {}
    replaced: list[tuple[str, str]] = []  # cells and texts that recovery replaced, until the history has them
    recorded: int = 0  # the version up to which the history has the texts that were replaced
    told: int = 0  # the newest version that a page had: it was told of all conflicts up to that

    @classmethod
    def from_base(cls, base: Base, version: int = 1) -> EditedNotebook:
        """Start from a file."""
        cells = {name: cell_from_file(name, cell) for name, cell in base.cells.items()}
        return cls(base, cells, list(cells), dict(base.metadata), version, version, version)

    @property
    def unsaved(self) -> bool:
        """Whether the file lacks edits."""
        return self.version > self.saved_version

    # -- patches

    def apply(self, patch: Patch, at: float) -> Changes:
        """Apply a patch, unless it was applied before, and return what its page does not know yet."""
        if self.has_applied(patch):
            return self.answer_again(patch)
        if patch.before is not None and patch.before.page == patch.page:
            self.apply(patch.before, at)
        self.pages = with_last(self.pages, patch.page, patch.number, _KEPT_PAGES)
        if patch.client:
            self.sent = with_last(self.sent, patch.client, patch.at, _KEPT_PAGES)
        if not (patch.cells or patch.deleted or patch.order or patch.metadata):
            return self.changes_since(patch.version)
        known = {name for name, cell in self.cells.items() if self._has(patch.version, cell.changed)}
        metadata_known = self._has(patch.version, self.metadata_changed)
        order_before = list(self.order)
        self.version += 1
        conflicts = [conflict for each in patch.cells for conflict in self._apply_cell(each, patch, at)]
        places = order_with_deleted(self.order, self.deleted) if patch.deleted else []
        for name in [each for each in patch.deleted if each in self.cells]:
            self._apply_deletion(self.cells[name], patch, at, places)
        known -= self._undo_recoveries(patch, at)
        self._apply_order(patch)
        if self.order != order_before:
            self.order_changed = self.version
        if patch.metadata is not None:
            patch.metadata.apply_to(self.metadata)
            self.metadata_changed = self.version
        self._add_conflicts(conflicts)
        changes = self._with_kept(patch, self.changes_since(patch.version))
        sent = {each.id: each.source.text for each in patch.cells if each.source is not None}
        return msgspec.structs.replace(
            changes,
            # What this page sent, and nobody else changed, it has already.
            cells=tuple(
                cell
                for cell in changes.cells
                if not ((cell.id in known or cell.id in sent) and self._was_set_by(cell, patch, sent, known))
            ),
            deleted=tuple(name for name in changes.deleted if name not in patch.deleted),
            order=self._order_for(patch, changes),
            metadata=None if metadata_known and patch.metadata else changes.metadata,
            # Also those with another program, if its change was noticed just now.
            conflicts=changes.conflicts or tuple(conflicts),
        )

    def _has(self, version: int, changed: int) -> bool:
        """Return whether a page with a version has a change. What an older page has is not known."""
        return self.oldest <= version <= self.version and changed <= version

    def has_applied(self, patch: Patch) -> bool:
        """Return whether a patch was applied before: its page did not get the answer."""
        return patch.number <= self.pages.get(patch.page, 0)

    def answer_again(self, patch: Patch) -> Changes:
        """Return the answer to a patch that was applied before."""
        changes = self._with_kept(patch, self.changes_since(patch.version))
        return msgspec.structs.replace(changes, order=self._order_for(patch, changes))

    def _with_kept(self, patch: Patch, changes: Changes) -> Changes:
        """Add the cells that a page deleted and that are still there, since somebody else edited them."""
        known = {cell.id for cell in changes.cells}
        kept = [self.cells[name].as_change() for name in patch.deleted if name in self.cells and name not in known]
        return msgspec.structs.replace(changes, cells=(*changes.cells, *kept)) if kept else changes

    def _order_for(self, patch: Patch, changes: Changes) -> tuple[str, ...] | None:
        """Return the order of cells, unless the page of a patch has it."""
        if any(each.id not in self.cells for each in patch.cells):
            return tuple(self.order)  # a change of metadata did not bring back a deleted cell, which the page shows
        if patch.order is None:
            return changes.order
        return None if list(patch.order.now) == self.order else tuple(self.order)

    def _was_set_by(self, cell: ChangedCell, patch: Patch, sent: Mapping[str, str], known: set[str]) -> bool:
        """Return whether a cell is exactly what the page of a patch shows."""
        if not any(each.id == cell.id for each in patch.cells):
            return False
        is_new = any(each.id == cell.id and each.source and each.source.base is None for each in patch.cells)
        return (cell.id in known or is_new) and sent.get(cell.id, cell.source) == cell.source

    def _apply_cell(self, patch: CellPatch, whole: Patch, at: float) -> list[Conflict]:
        is_new = patch.id not in self.cells
        if is_new and patch.source is None:
            return []  # a change of metadata alone does not bring a deleted cell back
        cell = self._cell(patch)
        conflicts: list[Conflict] = []
        if patch.source is not None:
            was_recovered = cell.is_recovered
            merged = cell.merge(whole, patch.source, is_new, at)
            conflicts = [Conflict(cell.id, other, at) for other in merged.lost]
            cell.note_typed(whole, patch.source.text, at)
            if merged.text != cell.source:
                cell.replace_source(merged.text, at, whole.client or "")
            if was_recovered:
                self._update_recovered(cell, whole.client)
        cell.type = patch.type
        if patch.metadata is not None:
            patch.metadata.apply_to(cell.metadata)
        if patch.attachments is not None:
            cell.attachments = patch.attachments or None
        if patch.outputs is not None:
            runtime, _, number = (whole.seen or "").partition("/")
            cell.outputs = patch.outputs
            cell.outputs_before = (runtime or None, int(number) if number.isdigit() else 0, at)
        if cell.type != "code":
            cell.outputs = cell.outputs_before = None
        cell.changed = self.version
        return conflicts

    def _apply_deletion(self, cell: Cell, patch: Patch, at: float, places: list[str]) -> None:
        """Delete a cell as a page knows it. If somebody else edited it, that counts more."""
        if cell.source != patch.deleted[cell.id]:
            self._undo_recovery(cell, patch, at)
        if cell.source == patch.deleted[cell.id]:
            self._delete(cell.id, places)

    def _undo_recoveries(self, patch: Patch, at: float) -> set[str]:
        """A page that ran cells is not gone, and sends everything that it has changed: other cells are as the server has them.

        Return the cells that have another text now.
        """
        sent = {each.id for each in patch.cells if each.source is not None}
        ran = [cell for cell in self.cells.values() if cell.ran and cell.id not in sent]
        return {cell.id for cell in ran if self._undo_recovery(cell, patch, at)}

    def _undo_recovery(self, cell: Cell, patch: Patch, at: float) -> bool:
        if not cell.undo_recovery(patch, at):
            return False
        self.recovered.pop(cell.id, None)
        cell.changed = self.version
        return True

    def _update_recovered(self, cell: Cell, sender: str | None) -> None:
        """The cell was recovered, and a page sent its text: offer the text that people know by now, if it still is recovered."""
        client, notice = cell.recovered_client, self.recovered.get(cell.id)
        if client is None:
            self.recovered.pop(cell.id, None)
        elif notice is not None and client != sender:
            self.recovered[cell.id] = msgspec.structs.replace(notice, other=cell.ran[client].before)

    def _cell(self, patch: CellPatch) -> Cell:
        """Return the cell of a patch. A deleted cell that somebody edits is there again."""
        if patch.id not in self.cells:
            deleted = self.deleted.pop(patch.id, None)
            self.cells[patch.id] = deleted.cell if deleted else Cell(patch.id, patch.type, "", {})
            self.order.insert(deleted.place_in(self.order) if deleted else len(self.order), patch.id)
        return self.cells[patch.id]

    def _delete(self, name: str, places: list[str]) -> None:
        """Delete a cell. `places`: where it is among all cells, those that were deleted included."""
        self.deleted[name] = DeletedCell(self.cells.pop(name), places[: places.index(name)], self.version)
        self.order.remove(name)
        self.recovered.pop(name, None)
        while len(self.deleted) > _KEPT_DELETED:
            first = next(iter(self.deleted))
            self.oldest = max(self.oldest, self.deleted.pop(first).changed)

    def _apply_order(self, patch: Patch) -> None:
        if patch.order is not None:
            self.order = merge_order(patch.order.base, patch.order.now, self.order, self.cells)

    def _add_conflicts(self, conflicts: Iterable[Conflict]) -> None:
        self.conflicts = [*self.conflicts, *((self.version, each) for each in conflicts)][-_KEPT_CONFLICTS:]

    def take_replaced_texts(self) -> list[tuple[Literal["conflict", "recovered"], dict[str, str]]]:
        """Return texts of cells that the history does not have yet, and remember that it has them."""
        taken: list[tuple[Literal["conflict", "recovered"], dict[str, str]]] = []
        taken += [("conflict", {each.cell: each.other}) for version, each in self.conflicts if version > self.recorded]
        taken += [("recovered", {name: other}) for name, other in self.replaced]
        self.recorded, self.replaced = self.version, []
        return taken

    # -- what pages get

    def changes_since(self, version: int) -> Changes:
        """Return what changed after a version; everything if that is not known."""
        everything = not self.oldest <= version <= self.version
        since = -1 if everything else version
        order_changed = everything or self.order_changed > since
        self.told = max(self.told, min(version, self.version))
        return Changes(
            self.version,
            tuple(self.cells[name].as_change() for name in self.order if self.cells[name].changed > since),
            tuple(name for name, each in self.deleted.items() if each.changed > since),
            tuple(self.order) if order_changed else None,
            self.metadata if everything or self.metadata_changed > since else None,
            tuple(conflict for changed, conflict in self.conflicts if changed > version),
            tuple(self.recovered.values()),
        )

    @property
    def version_for_new_pages(self) -> int:
        """The version that a page has after opening: before the first conflict of which no page was told."""
        return min((changed - 1 for changed, _ in self.conflicts if changed > self.told), default=self.version)

    # -- the code that ran

    def can_recover(self, name: str, ran: Ran) -> bool:
        """Return whether the code that ran in a cell differs from its text, and nobody edited the cell afterwards.

        If two pages edit a cell, one may execute its own text after the other's has arrived: nothing was lost then.
        """
        cell = self.cells.get(name)
        if cell is None or cell.type != "code" or cell.was_edited_after(ran) or same_code(cell.source, ran.code):
            return False
        if ran.asked and self.sent.get(ran.client, 0.0) >= ran.asked:
            return False  # a patch has everything that its page had changed until then, in all cells
        return not cell.knows(ran)

    def recover(self, name: str, ran: Ran) -> bool:
        """Show the code that ran in a cell. Return whether the cell has changed."""
        if not self.can_recover(name, ran):
            return False
        cell = self.cells[name]
        self.version += 1
        if name not in self.recovered or not cell.is_recovered:
            # Several executions may be newer than the file: the other text is the one that people know.
            self.recovered[name] = Recovered(name, cell.source, ran.at)
        self.replaced.append((name, cell.source))
        cell.recover(ran)
        cell.changed = self.version
        return True

    def dismiss_recovered(self, name: str) -> bool:
        """Forget that a cell was recovered: somebody has seen it."""
        return self.recovered.pop(name, None) is not None

    # -- the file

    def apply_to(self, notebook: dict[str, Any]) -> bool:
        """Apply the edits to the notebook as it is in its file. Return whether it has changed."""
        if not self.unsaved:
            return False
        in_file = {cell["id"]: cell for cell in cells_of(notebook)}
        notebook["cells"] = [self._cell_json(self.cells[name], in_file.get(name)) for name in self.order]
        widgets = {name: value for name, value in notebook.get("metadata", {}).items() if name == "widgets"}
        notebook["metadata"] = {**self.metadata, **widgets}
        return True

    def _cell_json(self, cell: Cell, in_file: dict[str, Any] | None) -> dict[str, Any]:
        known = self.base.cells.get(cell.id)
        same = known is not None and state_of(cell) == (known.type, known.source, known.metadata, known.attachments)
        if in_file is not None and same and cell.outputs is None:
            return in_file
        kept = {name: each for name, each in (in_file or {}).get("metadata", {}).items() if name in NOT_EDITED}
        made: dict[str, Any] = {**(in_file or {}), "id": cell.id, "cell_type": cell.type, "source": cell.source}
        made["metadata"] = {**cell.metadata, **kept}
        made.pop("attachments", None)
        if cell.attachments is not None:
            made["attachments"] = cell.attachments
        if cell.type != "code":
            made.pop("outputs", None)
            made.pop("execution_count", None)
        elif cell.outputs is not None:
            made["outputs"], made["execution_count"] = cell.outputs.outputs, cell.outputs.execution_count
        else:
            made.setdefault("outputs", [])
            made.setdefault("execution_count", None)
        return made

    def to_notebook(self, sources: Mapping[str, str]) -> dict[str, Any]:
        """Return the notebook without outputs, with other sources of some cells; also of cells that are deleted by now."""
        cells = [self._cell_json(self.cells[name], None) for name in self.order]
        for name in sources.keys() - self.cells.keys():
            deleted = self.deleted.get(name)
            cells.append(self._cell_json(deleted.cell if deleted else Cell(name, "code", "", {}), None))
        for cell in cells:
            cell["source"] = sources.get(cell["id"], cell["source"])
        return {"nbformat": 4, "nbformat_minor": 5, "metadata": dict(self.metadata), "cells": cells}

    def outputs_before(self) -> dict[str, OutputsBefore]:
        """Return, by cell, which outputs of runtimes are outdated."""
        return {
            name: OutputsBefore(*cell.outputs_before)
            for name, cell in self.cells.items()
            if cell.outputs_before is not None
        }

    def mark_saved(self, base: Base, version: int) -> None:
        """Record that the file contains everything up to a version."""
        self.base, self.saved_version = base, max(self.saved_version, version)
        for cell in self.cells.values():
            if cell.changed <= version:
                # From now on the file has them, and the journals' saved positions say what is newer.
                cell.outputs = cell.outputs_before = None
        # The file may have got more than edits: packages that were installed, for example.
        for key, value in base.metadata.items():
            if self.metadata.get(key) != value:
                self.metadata[key] = value

    def rebase(self, base: Base, at: float, outputs: Callable[[str], OutputsPatch]) -> list[Conflict]:
        """Another program changed the file: merge what it changed with what pages changed. Return conflicts.

        `outputs` returns the outputs of a cell in the file.
        """
        if base.same_content(self.base):
            self.base = base
            return []
        was_unsaved = self.unsaved
        self.version += 1
        order, old = list(self.order), self.base
        conflicts = [conflict for name, cell in base.cells.items() if (conflict := self._rebase_cell(name, cell, at))]
        for name, now in base.cells.items():
            if name in self.cells and now.type == "code" and now.outputs != old.outputs_digest(name):
                cell = self.cells[name]
                # Only for pages: what a runtime sent and no file contains yet is still merged over it.
                cell.outputs, cell.changed = outputs(name), self.version
        places = order_with_deleted(self.order, self.deleted)
        for name in [each for each in old.cells if each not in base.cells]:
            if name in self.cells and self.cells[name].source == old.cells[name].source:
                self._delete(name, places)
        # What the program did comes first: it is what the user sees in the file.
        self.order = merge_order(list(old.cells), order, list(base.cells), self.cells)
        if self.order != order:
            self.order_changed = self.version
        if self._rebase_metadata(old.metadata, base.metadata):
            self.metadata_changed = self.version
        self._add_conflicts(conflicts)
        self.base = base
        if not was_unsaved and self._equals(base):
            self.saved_version = self.version
        return conflicts

    def _rebase_cell(self, name: str, now: BaseCell, at: float) -> Conflict | None:
        before, cell = self.base.cells.get(name), self.cells.get(name)
        if cell is None:
            if before is not None and (before.type, before.source) == (now.type, now.source):
                return None  # a page deleted it, and only a change of its text counts more
            self.cells[name] = cell_from_file(name, now)
            self.deleted.pop(name, None)
            self.cells[name].changed, self.cells[name].edited_at = self.version, at
            return None
        if before is not None and before == now:
            return None
        merged = merge_text(before.source if before else "", cell.source, now.source)
        if merged.text != cell.source:
            cell.replace_source(merged.text, at)
        if before is None or before.metadata != now.metadata:
            merge_dict(cell.metadata, before.metadata if before else {}, now.metadata)
        if before is None or before.type != now.type:
            cell.type = now.type
        if before is None or before.attachments != now.attachments:
            cell.attachments = now.attachments
        cell.changed = self.version
        return Conflict(name, now.source, at) if merged.conflict else None

    def _rebase_metadata(self, before: dict[str, Any], now: dict[str, Any]) -> bool:
        if before == now:
            return False
        merge_dict(self.metadata, before, now)
        return True

    def _equals(self, base: Base) -> bool:
        return (
            self.order == list(base.cells)
            and self.metadata == base.metadata
            and all(
                state_of(self.cells[name]) == (cell.type, cell.source, cell.metadata, cell.attachments)
                for name, cell in base.cells.items()
            )
        )

    def replace(self, base: Base, at: float, outputs: Callable[[str], OutputsPatch]) -> None:
        """The user put another version in place of the notebook: nothing of the present one is kept."""
        before, old_order = self.cells, self.order
        self.version += 1
        self.cells = {name: cell_from_file(name, cell) for name, cell in base.cells.items()}
        for cell in self.cells.values():
            cell.changed, cell.edited_at = self.version, at
            cell.outputs = outputs(cell.id) if cell.type == "code" else None
        self.order, self.metadata = list(self.cells), dict(base.metadata)
        self.order_changed = self.metadata_changed = self.version
        for name in before.keys() - self.cells.keys():
            previous = old_order[: old_order.index(name)]
            self.deleted[name] = DeletedCell(before[name], previous, self.version)
        for name in self.cells:
            self.deleted.pop(name, None)
        self.recovered.clear()
        self.base, self.saved_version = base, self.version

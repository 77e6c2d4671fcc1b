"""The differences of two notebooks, cell by cell. Cells are aligned by their ids."""

from __future__ import annotations

from difflib import SequenceMatcher, unified_diff
from typing import Any, Literal

from msgspec import Struct

from ownlab.lab.notebooks.history.records import Version
from ownlab.lab.notebooks.parsing import cells_of

__all__ = ["CellDifference", "NotebookDifference", "compare_notebooks", "source_of", "unified"]


class CellDifference(Struct, frozen=True):
    """A cell of one or both notebooks. `number` counts from 1 in the notebook that has it, the newer one if both do."""

    id: str
    number: int
    change: Literal["added", "removed", "edited", "moved", "same"]
    type: str
    before: str | None
    after: str | None
    type_before: str | None = None  # if the cell had another type


class NotebookDifference(Struct, frozen=True):
    """`ownlab history NOTEBOOK --diff VERSION --json`: all cells, from a version to another or to the present notebook."""

    notebook: str
    before: Version
    after: Version | None  # None: the present notebook
    cells: tuple[CellDifference, ...]


def compare_notebooks(before: dict[str, Any], after: dict[str, Any]) -> list[CellDifference]:
    """Return all cells in the order of the newer notebook, with removed ones where they were."""
    old = {str(cell.get("id")): (number, cell) for number, cell in enumerate(cells_of(before), 1)}
    new = {str(cell.get("id")): (number, cell) for number, cell in enumerate(cells_of(after), 1)}
    stayed = _in_place([name for name in old if name in new], [name for name in new if name in old])
    differences: list[CellDifference] = []
    waiting = list(old)
    for name, (number, cell) in new.items():
        if name in stayed:
            while waiting and waiting[0] != name:
                differences += _removed(waiting.pop(0), old, new)
            if waiting:
                waiting.pop(0)
        differences.append(_difference(name, number, old.get(name, (0, None))[1], cell, moved=name not in stayed))
    for name in waiting:
        differences += _removed(name, old, new)
    return differences


def unified(difference: CellDifference) -> list[str]:
    """Return a unified diff of a cell, without its header."""
    lines = unified_diff(
        (difference.before or "").splitlines(), (difference.after or "").splitlines(), lineterm="", n=3
    )
    return list(lines)[2:]


def source_of(cell: dict[str, Any]) -> str:
    """Return the source of a cell, which a file may have as a list of lines."""
    source = cell.get("source")
    return "".join(source) if isinstance(source, list) else source if isinstance(source, str) else ""


def _in_place(old: list[str], new: list[str]) -> set[str]:
    """Return the cells whose order did not change."""
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return {name for block in matcher.get_matching_blocks() for name in old[block.a : block.a + block.size]}


def _removed(
    name: str, old: dict[str, tuple[int, dict[str, Any]]], new: dict[str, tuple[int, dict[str, Any]]]
) -> list[CellDifference]:
    if name in new:  # it was moved
        return []
    number, cell = old[name]
    return [CellDifference(name, number, "removed", str(cell.get("cell_type")), source_of(cell), None)]


def _difference(
    name: str, number: int, before: dict[str, Any] | None, after: dict[str, Any], *, moved: bool
) -> CellDifference:
    kind = str(after.get("cell_type"))
    if before is None:
        return CellDifference(name, number, "added", kind, None, source_of(after))
    same = source_of(before) == source_of(after) and before.get("cell_type") == after.get("cell_type")
    change: Literal["edited", "moved", "same"] = "edited" if not same else "moved" if moved else "same"
    was = str(before.get("cell_type"))
    return CellDifference(name, number, change, kind, source_of(before), source_of(after), was if was != kind else None)

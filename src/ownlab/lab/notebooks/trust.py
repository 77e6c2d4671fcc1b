"""Trust: which outputs in a notebook's file were made on this machine, according to journals. JupyterLab shows them in full.

A run writes its file without nbformat's signature, because nbformat takes longer to import than many a run takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from logging import Logger, LoggerAdapter
from typing import TYPE_CHECKING, Any

from ownlab.lab.notebooks.parsing import cells_of

if TYPE_CHECKING:
    from ownlab.lab.runtimes.journals import Journal

__all__ = ["executed_here", "mark_trusted"]


def executed_here(notebook: dict[str, Any], journals: Sequence[Journal], log: Logger | LoggerAdapter[Any]) -> set[str]:
    """Return the ids of code cells that are empty, or show what one of these runtimes showed when it last ran them. Blocks."""
    if not journals:
        return set()
    cells = {cell["id"]: cell.get("outputs") for cell in notebook["cells"] if cell.get("cell_type") == "code"}
    trusted = {name for name, outputs in cells.items() if not outputs}
    for journal in journals:
        trusted |= _unchanged(cells, journal, log)
    return trusted


def mark_trusted(notebook: dict[str, Any], cell_ids: set[str]) -> None:
    """Mark code cells as trusted, as a page does with the cells that it ran."""
    for cell in cells_of(notebook):
        if cell.get("id") in cell_ids and cell.get("cell_type") == "code":
            cell.setdefault("metadata", {})["trusted"] = True


def _unchanged(cells: dict[str, Any], journal: Journal, log: Logger | LoggerAdapter[Any]) -> set[str]:
    try:
        with journal.current() as state:
            known = cells.keys() & state.by_cell.keys()
            return {name for name in known if state.by_cell[name].outputs.as_json() == cells[name]}
    except Exception as exc:  # a notebook must open even if a journal is damaged
        log.error("The journal of runtime %s cannot be read: %s", journal.runtime, exc, exc_info=True)
        return set()

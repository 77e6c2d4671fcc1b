"""Which outputs in a notebook's file were made on this machine, as journals tell: what they show may be shown in full.

A run writes its file without a signature, as nbformat takes longer to import than many a run takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from logging import Logger, LoggerAdapter
from typing import Any

from ownlab.lab.notebooks.journal_cache import Journal

__all__ = ["said_here"]


def said_here(notebook: dict[str, Any], journals: Sequence[Journal], log: Logger | LoggerAdapter[Any]) -> set[str]:
    """The ids of code cells that show what they showed when one of these runtimes ran them last, or nothing. Blocks."""
    if not journals:
        return set()
    cells = {cell["id"]: cell.get("outputs") for cell in notebook["cells"] if cell.get("cell_type") == "code"}
    found = {name for name, outputs in cells.items() if not outputs}
    for journal in journals:
        found |= _same(cells, journal, log)
    return found


def _same(cells: dict[str, Any], journal: Journal, log: Logger | LoggerAdapter[Any]) -> set[str]:
    try:
        with journal.current() as fold:
            known = cells.keys() & fold.by_cell.keys()
            return {name for name in known if fold.by_cell[name].outputs.as_json() == cells[name]}
    except Exception as exc:  # a notebook must open, whatever is wrong with a journal
        log.error("The journal of runtime %s cannot be read: %s", journal.runtime, exc, exc_info=True)
        return set()

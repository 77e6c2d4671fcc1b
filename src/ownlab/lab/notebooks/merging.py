"""Merges journals into notebooks: what runtimes sent while no page was open. Blocks."""

from __future__ import annotations

from collections.abc import Iterable
from logging import Logger, LoggerAdapter
from typing import TYPE_CHECKING, Any, NamedTuple

from ownlab.lab.journal.execution import Execution
from ownlab.lab.journal.installed_packages import Changes, record_packages
from ownlab.lab.journal.state import JournalState
from ownlab.lab.notebooks.parsing import cells_of

if TYPE_CHECKING:
    from ownlab.lab.runtimes.journals import Journal

__all__ = ["Merged", "SeenPosition", "merge_journals", "merge_state"]


class SeenPosition(NamedTuple):
    """The last message of a runtime that a page had shown when it saved."""

    runtime: str
    number: int


class Merged(NamedTuple):
    """The result of merging journals into a notebook."""

    positions: list[tuple[Journal, int]]  # each journal, and the number of its last record in the notebook
    cells: set[str]  # ids of the cells that got outputs
    changed: bool

    def mark_saved(self) -> None:
        """Record that the notebook's file holds everything merged."""
        for journal, position in self.positions:
            journal.mark_saved(position)


def merge_journals(
    notebook: dict[str, Any],
    journals: Iterable[Journal],
    log: Logger | LoggerAdapter[Any],
    seen: SeenPosition | None = None,
) -> Merged:
    """Add what its runtimes sent after `seen`, or after what its file already holds."""
    cells, later = cells_of(notebook), set[str]()
    merged, installed = Merged([], set(), False), list[Changes]()
    # Newest first: a cell shows its last execution, which may be in the notebook already, and no earlier one.
    for journal in reversed(list(journals)):
        mine = [cell for cell in cells if cell.get("id") not in later]
        since = seen.number if seen is not None and seen.runtime == journal.runtime else journal.saved_position
        try:
            with journal.current() as state:
                changed = merge_state({**notebook, "cells": mine}, state, since)
                new = {cell["id"] for cell in mine if cell.get("id") in state.by_cell}
                merged.cells.update(name for name in new if state.by_cell[name].outputs_at > since)
                merged.positions.insert(0, (journal, state.position))
                installed.insert(0, state.packages_after(since))
        except Exception as exc:  # a notebook must open, and be saved, even if a journal is damaged
            log.error("The journal of runtime %s cannot be read: %s", journal.runtime, exc, exc_info=True)
            continue
        merged = merged._replace(changed=merged.changed or changed)
        later |= new
    # Oldest first: what was installed last counts.
    remembered = [record_packages(notebook, each) for each in installed]
    return merged._replace(changed=merged.changed or any(remembered))


def merge_state(notebook: dict[str, Any], state: JournalState, seen: int) -> bool:
    """Update the cells that changed after record `seen`; return whether anything changed. It replaces and never appends."""
    changed = False
    for cell in notebook.get("cells") or ():
        execution = state.by_cell.get(cell.get("id", "")) if cell.get("cell_type") == "code" else None
        if execution is None:
            continue
        if execution.asked_at > seen:
            changed |= _unhide(cell)
        if execution.outputs_at > seen:
            outputs = execution.outputs.as_json()
            changed |= cell.get("outputs") != outputs
            cell["outputs"] = outputs
        if execution.counted_at > seen:
            changed |= _update_count(cell, execution)
    return changed


def _unhide(cell: dict[str, Any]) -> bool:
    """JupyterLab shows the outputs of a cell again when it is executed."""
    metadata = cell.get("metadata", {})
    jupyter = metadata.get("jupyter", {})
    was_hidden = metadata.pop("collapsed", None) is not None
    was_hidden |= jupyter.pop("outputs_hidden", None) is not None
    if was_hidden and "jupyter" in metadata and not jupyter:
        del metadata["jupyter"]
    return was_hidden


def _update_count(cell: dict[str, Any], execution: Execution) -> bool:
    metadata = cell.setdefault("metadata", {})
    timing = execution.timing if execution.records_timing else {}
    same = cell.get("execution_count") == execution.execution_count and metadata.get("execution", {}) == timing
    cell["execution_count"] = execution.execution_count
    if timing:
        metadata["execution"] = dict(timing)
    else:
        metadata.pop("execution", None)
    return not same

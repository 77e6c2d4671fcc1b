"""Merges journals into notebooks: what runtimes sent while no page was open. Blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from logging import Logger, LoggerAdapter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ownlab.lab.journal.execution import Execution
from ownlab.lab.journal.installed_packages import Changes, record_packages
from ownlab.lab.journal.state import JournalState
from ownlab.lab.notebooks.edits.cell import OutputsBefore
from ownlab.lab.notebooks.parsing import cells_of
from ownlab.lab.notebooks.vscode import executions_by_source
from ownlab.lab.notebooks.widget_state import merge_widget_state

if TYPE_CHECKING:
    from ownlab.lab.runtimes.journals import Journal

__all__ = ["Merged", "SeenPosition", "is_outdated", "merge_journals", "merge_state"]

_NONE: Mapping[str, OutputsBefore] = MappingProxyType({})


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
    outputs_before: Mapping[str, OutputsBefore] = _NONE,
    from_start: bool = False,
) -> Merged:
    """Add what its runtimes sent after `seen`, or after what its file already holds.

    `outputs_before`: cells whose outputs a page has set, and what it had shown by then. `from_start`: everything that
    the runtimes sent, since the file is gone.
    """
    cells, later = cells_of(notebook), set[str]()
    merged, installed, widgets = Merged([], set(), False), list[Changes](), dict[str, Any]()
    # Newest first: a cell shows its last execution, which may be in the notebook already, and no earlier one.
    for journal in reversed(list(journals)):
        mine = [cell for cell in cells if cell.get("id") not in later]
        since = seen.number if seen is not None and seen.runtime == journal.runtime else journal.saved_position
        since = 0 if from_start else since
        try:
            with journal.current() as state:
                if state.gaps.any:
                    state.gaps.assign_cells({cell["id"]: _source(cell) for cell in cells if cell.get("id")})
                mine = [cell for cell in mine if not is_outdated(cell, state, journal.runtime, outputs_before)]
                changed = merge_state({**notebook, "cells": mine}, state, since)
                executions = executions_of(mine, state)
                new = {cell["id"] for cell in mine if cell.get("id") in executions}
                merged.cells.update(name for name in new if executions[name].outputs_at > since)
                merged.positions.insert(0, (journal, state.position))
                installed.insert(0, state.packages_after(since))
                widgets = {**state.comms.widgets(), **widgets}
        except Exception as exc:  # a notebook must open, and be saved, even if a journal is damaged
            log.error("The journal of runtime %s cannot be read: %s", journal.runtime, exc, exc_info=True)
            continue
        merged = merged._replace(changed=merged.changed or changed)
        later |= new
    # Oldest first: what was installed last counts.
    remembered = [record_packages(notebook, each) for each in installed]
    drawn = merge_widget_state(notebook, widgets)
    return merged._replace(changed=merged.changed or any(remembered) or drawn)


def is_outdated(
    cell: dict[str, Any], state: JournalState, runtime: str, outputs_before: Mapping[str, OutputsBefore]
) -> bool:
    """Return whether a page replaced everything that a runtime has sent to a cell."""
    before, execution = outputs_before.get(cell.get("id", "")), state.by_cell.get(cell.get("id", ""))
    if before is None or execution is None:
        return False
    if before.runtime == runtime:
        return max(execution.outputs_at, execution.asked_at) <= before.number
    return execution.queued_at <= before.at


def merge_state(notebook: dict[str, Any], state: JournalState, seen: int) -> bool:
    """Update the cells that changed after record `seen`; return whether anything changed. It replaces and never appends."""
    changed = False
    cells = notebook.get("cells") or ()
    executions = executions_of(cells, state)
    for cell in cells:
        execution = executions.get(cell.get("id", "")) if cell.get("cell_type") == "code" else None
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


def executions_of(cells: Iterable[dict[str, Any]], state: JournalState) -> Mapping[str, Execution]:
    """Return the newest execution of each cell, by its id."""
    from_vscode = executions_by_source(cells, state.by_cell)
    if not from_vscode:
        return state.by_cell
    newer = {
        cell: execution
        for cell, execution in from_vscode.items()
        if cell not in state.by_cell or state.by_cell[cell].asked_at < execution.asked_at
    }
    return {**state.by_cell, **newer}


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "") if cell.get("cell_type") == "code" else ""
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


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
    timing = _timing(execution) if execution.records_timing else {}
    same = cell.get("execution_count") == execution.execution_count and metadata.get("execution", {}) == timing
    cell["execution_count"] = execution.execution_count
    if timing:
        metadata["execution"] = timing
    else:
        metadata.pop("execution", None)
    return not same


def _timing(execution: Execution) -> dict[str, str]:
    """Return the times of an execution as JupyterLab stores them, and who asked for it."""
    person = execution.request[0].get("username")
    return {**execution.timing, **({"ownlab.person": person} if isinstance(person, str) and person else {})}

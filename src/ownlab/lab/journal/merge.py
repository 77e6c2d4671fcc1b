"""What a journal knows, put into a notebook. It replaces and never appends, so it may be done any number of times."""

from __future__ import annotations

from typing import Any

from ownlab.lab.journal.execution import Execution
from ownlab.lab.journal.state import Fold

__all__ = ["merge"]


def merge(notebook: dict[str, Any], fold: Fold, seen: int) -> bool:
    """Bring the cells up to date of which the notebook, as of record `seen`, is not. Whether something was changed."""
    changed = False
    for cell in notebook.get("cells") or ():
        execution = fold.by_cell.get(cell.get("id", "")) if cell.get("cell_type") == "code" else None
        if execution is None:
            continue
        if execution.asked_at > seen:
            changed |= _unhide(cell)
        if execution.outputs_at > seen:
            outputs = execution.outputs.as_json()
            changed |= cell.get("outputs") != outputs
            cell["outputs"] = outputs
        if execution.counted_at > seen:
            changed |= _count(cell, execution)
    return changed


def _unhide(cell: dict[str, Any]) -> bool:
    """JupyterLab shows the outputs of a cell again when it is executed."""
    metadata = cell.get("metadata", {})
    jupyter = metadata.get("jupyter", {})
    found = metadata.pop("collapsed", None) is not None
    found |= jupyter.pop("outputs_hidden", None) is not None
    if found and "jupyter" in metadata and not jupyter:
        del metadata["jupyter"]
    return found


def _count(cell: dict[str, Any], execution: Execution) -> bool:
    metadata = cell.setdefault("metadata", {})
    timing = execution.timing if execution.records_timing else {}
    same = cell.get("execution_count") == execution.execution_count and metadata.get("execution", {}) == timing
    cell["execution_count"] = execution.execution_count
    if timing:
        metadata["execution"] = dict(timing)
    else:
        metadata.pop("execution", None)
    return not same

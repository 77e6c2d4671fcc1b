"""VS Code's names for notebooks and cells. It sends a random session path, and a cell's address instead of its id.

`vscode-notebook-cell:/home/ada/lab/train.ipynb#W2sZmlsZQ%3D%3D` (src/kernels/execution in microsoft/vscode-jupyter) names
the notebook's file where VS Code runs, and after the `#` a number that changes when the notebook is opened again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from ownlab.lab.journal.execution import Execution

__all__ = ["SCHEME", "executions_by_source", "notebook_of_cell"]

SCHEME = "vscode-notebook-cell"


def notebook_of_cell(address: str) -> str:
    """Return the path of the notebook that a cell's address names, on the machine where VS Code opened it; "" if none."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    path = unquote(parts.path)
    return path if parts.scheme == SCHEME and path.startswith("/") and path.endswith(".ipynb") else ""


def executions_by_source(cells: Iterable[dict[str, Any]], executions: Mapping[str, Execution]) -> dict[str, Execution]:
    """Return, by cell id, the newest execution from VS Code of each cell whose code is the only one of its kind."""
    newest: dict[str, Execution] = {}
    for address, execution in executions.items():
        code = execution.request[2].get("code")
        if address.startswith(f"{SCHEME}:") and isinstance(code, str):
            before = newest.get(_lines(code))
            if before is None or before.asked_at < execution.asked_at:
                newest[_lines(code)] = execution
    if not newest:
        return {}
    by_source: dict[str, list[str]] = {}
    for cell in cells:
        source = cell.get("source", "")
        if cell.get("cell_type") == "code" and cell.get("id"):
            by_source.setdefault(_lines("".join(source)), []).append(cell["id"])
    return {ids[0]: newest[code] for code, ids in by_source.items() if len(ids) == 1 and code in newest}


def _lines(source: str) -> str:
    return source.replace("\r\n", "\n").strip()

"""The notebook parser: bytes to a notebook, with every cell identified. It reads notebooks without importing nbformat.

nbformat takes longer to import than many a run takes, so that only notebooks of old formats, and the server, need it.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from ownlab.errors import InputError
from ownlab.text import text

if TYPE_CHECKING:
    from nbformat import NotebookNode

__all__ = [
    "assign_cell_ids",
    "cells_of",
    "parse_current_notebook",
    "parse_json",
    "parse_notebook",
    "parse_with_nbformat",
    "replace_lone_surrogates",
]

_FORMAT = 4
# The first minor version of format 4 in which cells have ids.
_MINOR_WITH_IDS = 5


def parse_json(data: bytes) -> object:
    """Parse the JSON of a notebook. ValueError or RecursionError if it is not JSON."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # NaN, a byte order mark, and lone surrogates, which the standard library accepts
        return json.loads(data.decode("utf-8-sig"))


def parse_notebook(data: bytes, name: str) -> dict[str, Any]:
    """Parse a notebook of any format, as it is. InputError, with `name` in it, if the data is not a notebook."""
    try:
        notebook = parse_json(data)
    except RecursionError as exc:
        message = text("{name} is not a notebook: it is not JSON (its values are nested too deeply).", name=name)
        raise InputError(message) from exc
    except UnicodeDecodeError as exc:
        raise InputError(text("{name} is not a notebook: it is not UTF-8 text.", name=name)) from exc
    except ValueError as exc:
        raise InputError(text("{name} is not a notebook: it is not JSON ({error}).", name=name, error=exc)) from exc
    if not isinstance(notebook, dict) or type(notebook.get("nbformat")) is not int:
        raise InputError(text("{name} is not a notebook: it is JSON of another kind.", name=name))
    return notebook


def parse_current_notebook(data: bytes, name: str) -> dict[str, Any]:
    """Parse a notebook and convert an old one to format 4. InputError, with `name` in it, if that is impossible."""
    notebook = parse_notebook(data, name)
    version = notebook["nbformat"]
    if version > _FORMAT:
        message = text(
            "{name} has notebook format {version}; the newest format supported is {newest}.",
            name=name,
            version=version,
            newest=_FORMAT,
        )
        raise InputError(message)
    if version != _FORMAT:
        notebook = _convert(data, name)
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(_is_cell(cell) for cell in cells):
        raise InputError(text("{name} is a damaged notebook: its cells are not a list of cells.", name=name))
    return notebook


def parse_with_nbformat(data: bytes) -> NotebookNode:
    """Parse a notebook into nbformat's own type. ValueError, among others, if the data is not a notebook."""
    import nbformat  # takes a second if jsonschema's format checkers are installed: nothing else here needs it

    notebook = parse_json(data)
    if isinstance(notebook, dict) and notebook.get("nbformat") == _FORMAT:
        current: NotebookNode = nbformat.v4.to_notebook_json(notebook)
        return current
    converted: NotebookNode = nbformat.reads(data.decode(), as_version=_FORMAT)
    # JupyterLab asks about it in a dialog when the notebook is opened, and there is nothing to decide.
    converted.metadata.pop("orig_nbformat", None)
    for cell in converted.cells:
        cell.pop("id", None)  # the conversion makes random ones each time
    return converted


def assign_cell_ids(notebook: dict[str, Any]) -> None:
    """Give an id to each cell without one, or with a duplicate. The ids are the same each time the file is read.

    JupyterLab would make new ones each time it opens the notebook, and outputs find their cells by id.
    """
    taken: set[object] = set()
    for number, cell in enumerate(cells_of(notebook)):
        if not isinstance(cell.get("id"), str) or cell["id"] in taken:
            cell["id"] = _derive_id(number, cell.get("source"))
        taken.add(cell["id"])
    if notebook.get("nbformat") == _FORMAT and notebook.get("nbformat_minor", 0) < _MINOR_WITH_IDS:
        notebook["nbformat_minor"] = _MINOR_WITH_IDS


def cells_of(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of a notebook that may be damaged."""
    cells = notebook.get("cells")
    return [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []


def replace_lone_surrogates(value: Any) -> Any:
    """Replace halves of surrogate pairs: JSON may hold them, a file in UTF-8 cannot."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [replace_lone_surrogates(each) for each in value]
    if isinstance(value, dict):
        return type(value)(
            (replace_lone_surrogates(name), replace_lone_surrogates(each)) for name, each in value.items()
        )
    return value


def _convert(data: bytes, name: str) -> dict[str, Any]:
    try:
        notebook: dict[str, Any] = json.loads(json.dumps(parse_with_nbformat(data)))
    except Exception as exc:  # nbformat raises many kinds for a damaged file
        message = text(
            "{name} has an old notebook format and cannot be converted to format {newest}: {error}.",
            name=name,
            newest=_FORMAT,
            error=exc,
        )
        raise InputError(message) from exc
    return notebook


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("metadata", {}), dict):
        return False
    source = cell.get("source")
    return isinstance(source, str) or (isinstance(source, list) and all(isinstance(line, str) for line in source))


def _derive_id(number: int, source: object) -> str:
    joined = "".join(map(str, source)) if isinstance(source, list) else str(source)
    import hashlib  # `ownlab run NOTEBOOK --help` reads a notebook without it

    return hashlib.sha256(f"{number}\n{joined}".encode("utf-8", "surrogatepass")).hexdigest()[:16]

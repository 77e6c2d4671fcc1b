"""A notebook as its file has it: what edits of pages, and changes of the file by other programs, are merged against."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from ownlab.lab.notebooks.edits.records import OutputsPatch
from ownlab.lab.notebooks.parsing import cells_of

__all__ = ["NOT_EDITED", "Base", "BaseCell", "outputs_in", "read_base"]

# Metadata of cells that is kept from the file, and updated from journals.
NOT_EDITED = ("execution", "trusted")


class BaseCell(Struct, frozen=True):
    """A cell as it is in the file."""

    type: str
    source: str
    metadata: dict[str, Any]
    attachments: dict[str, Any] | None
    outputs: str  # a digest


class Base(Struct, frozen=True):
    """What the file contains."""

    cells: dict[str, BaseCell]  # in order
    metadata: dict[str, Any]
    stamp: tuple[int, int] | None

    def same_content(self, other: Base) -> bool:
        """Return whether two files differ in nothing but their time."""
        return self.cells == other.cells and list(self.cells) == list(other.cells) and self.metadata == other.metadata

    def outputs_digest(self, name: str) -> str:
        """Return the digest of a cell's outputs; "" if it has none."""
        return self.cells[name].outputs if name in self.cells else ""


def read_base(notebook: dict[str, Any], stamp: tuple[int, int] | None) -> Base:
    """Read what edits are about from a notebook whose cells have ids."""
    cells = {cell["id"]: _base_cell(cell) for cell in cells_of(notebook)}
    metadata = notebook.get("metadata")
    return Base(cells, _plain_metadata(metadata, ("widgets",)), stamp)


def outputs_in(notebook: dict[str, Any]) -> Callable[[str], OutputsPatch]:
    """Return a function that returns the outputs of a cell."""
    cells = {cell.get("id"): cell for cell in cells_of(notebook)}

    def outputs_of(name: str) -> OutputsPatch:
        outputs, count = cells.get(name, {}).get("outputs"), cells.get(name, {}).get("execution_count")
        return OutputsPatch(outputs if isinstance(outputs, list) else [], count if isinstance(count, int) else None)

    return outputs_of


def _base_cell(cell: dict[str, Any]) -> BaseCell:
    attachments = cell.get("attachments")
    return BaseCell(
        str(cell.get("cell_type")),
        _joined(cell.get("source")),
        _plain_metadata(cell.get("metadata"), NOT_EDITED),
        _plain(attachments) if isinstance(attachments, dict) else None,
        _digest(cell.get("outputs")),
    )


def _plain_metadata(metadata: object, without: tuple[str, ...]) -> dict[str, Any]:
    given = metadata if isinstance(metadata, dict) else {}
    return {name: _plain(value) for name, value in given.items() if name not in without}


def _plain(value: Any) -> Any:
    """Return a copy without nbformat's types."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _joined(source: object) -> str:
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def _digest(outputs: object) -> str:
    if not outputs:
        return ""
    try:
        encoded = msgspec.json.encode(outputs)
    except (TypeError, ValueError, msgspec.MsgspecError):  # values that only Python accepts
        encoded = repr(outputs).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()

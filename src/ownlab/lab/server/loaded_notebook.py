"""A notebook between its file and a page, and the positions that a request carries."""

from __future__ import annotations

from contextvars import ContextVar
from typing import NamedTuple

from nbformat import NotebookNode, ValidationError

from ownlab.lab.notebooks.edits.edit_log import EditLog
from ownlab.lab.notebooks.merging import Merged, SeenPosition

__all__ = ["FileContent", "LoadedNotebook", "RequestPositions", "request_positions"]


class RequestPositions:
    """The positions in a request's headers. Jupyter's contents methods have no arguments for them."""

    def __init__(self, seen: SeenPosition | None = None) -> None:
        self.seen = seen  # sent by the page that saves
        self.position: tuple[str, int] | None = None  # returned to the page that opens
        self.version: int | None = None  # of the edits that it includes


request_positions: ContextVar[RequestPositions] = ContextVar("request_positions")


class FileContent(NamedTuple):
    """A notebook file."""

    data: bytes
    stamp: tuple[int, int] | None
    notebook: NotebookNode
    signature: str
    invalid: ValidationError | None


class LoadedNotebook(NamedTuple):
    """A notebook file, merged with its edits and its journals."""

    data: bytes
    stamp: tuple[int, int] | None
    notebook: NotebookNode
    signature: str
    invalid: ValidationError | None
    merged: Merged
    edits: EditLog
    version: int  # of the edits that it includes
    edited: bool  # whether they changed the notebook

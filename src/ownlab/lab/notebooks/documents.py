"""Notebooks as files: read so that each cell has an id that stays the same, and brought up to date from journals. Blocks."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable
from logging import Logger, LoggerAdapter
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO

import msgspec

from ownlab import files
from ownlab.lab.journal.installed_packages import Changes, remember
from ownlab.lab.journal.merge import merge
from ownlab.lab.notebooks.journal_cache import Journal

if TYPE_CHECKING:
    from nbformat import NotebookNode

__all__ = [
    "Merged",
    "Seen",
    "bring_up_to_date",
    "give_ids",
    "mark_trusted",
    "read_notebook",
    "replace_notebook",
    "whole_characters",
]

# The first format in which cells have ids.
_WITH_IDS = 5


class Seen(NamedTuple):
    """Up to which message of a runtime a page had shown what it saves."""

    runtime: str
    number: int


class Merged(NamedTuple):
    """What journals added to a notebook."""

    positions: list[tuple[Journal, int]]  # each journal, and up to which number it is in the notebook now
    cells: set[str]  # the ids of those that got outputs
    changed: bool

    def hold(self) -> None:
        """The notebook's file has it all now."""
        for journal, position in self.positions:
            journal.hold(position)


def read_notebook(data: bytes) -> NotebookNode:
    """A notebook as nbformat reads it, before anything is added; ValueError and others where it is none."""
    import nbformat  # a second, where jsonschema has its formats: nothing else here needs it

    given = _parse(data)
    if isinstance(given, dict) and given.get("nbformat") == 4:
        notebook: NotebookNode = nbformat.v4.to_notebook_json(given)
        return notebook
    older: NotebookNode = nbformat.reads(data.decode(), as_version=4)
    for cell in older.cells:
        cell.pop("id", None)  # converted just now: they are other ones each time
    return older


def give_ids(notebook: dict[str, Any]) -> None:
    """An id for each cell that has none, or that of another: the same one at each reading, until the notebook is saved.

    JupyterLab would make new ones at each opening, and outputs find their cells by them.
    """
    cells = _cells(notebook)
    taken: set[object] = set()
    for number, cell in enumerate(cells):
        if not isinstance(cell.get("id"), str) or cell["id"] in taken:
            cell["id"] = _made_id(number, cell.get("source"))
        taken.add(cell["id"])
    if notebook.get("nbformat") == 4 and notebook.get("nbformat_minor", 0) < _WITH_IDS:
        notebook["nbformat_minor"] = _WITH_IDS


def bring_up_to_date(
    notebook: dict[str, Any], journals: Iterable[Journal], log: Logger | LoggerAdapter[Any], seen: Seen | None = None
) -> Merged:
    """Put into a notebook what its runtimes said and it does not hold: that after `seen`, or after what its file holds."""
    cells, later = _cells(notebook), set[str]()
    merged, installed = Merged([], set(), False), list[Changes]()
    # From the newest on: a cell shows its last execution, which may be in the notebook already, and no earlier one.
    for journal in reversed(list(journals)):
        mine = [cell for cell in cells if cell.get("id") not in later]
        since = seen.number if seen is not None and seen.runtime == journal.runtime else journal.held
        try:
            with journal.current() as fold:
                changed = merge({**notebook, "cells": mine}, fold, since)
                new = {cell["id"] for cell in mine if cell.get("id") in fold.by_cell}
                merged.cells.update(name for name in new if fold.by_cell[name].outputs_at > since)
                merged.positions.insert(0, (journal, fold.position))
                installed.insert(0, fold.packages_after(since))
        except Exception as exc:  # a notebook must open, and be saved, whatever is wrong with a journal
            log.error("The journal of runtime %s cannot be read: %s", journal.runtime, exc, exc_info=True)
            continue
        merged = merged._replace(changed=merged.changed or changed)
        later |= new
    # From the oldest on: what was installed last holds.
    remembered = [remember(notebook, each) for each in installed]
    return merged._replace(changed=merged.changed or any(remembered))


def replace_notebook(path: str, write: Callable[[TextIO], None]) -> bool:
    """Write a file anew so that nobody, at no moment, finds a part of it. False: here that cannot be done.

    The new file has the old one's owner, mode and attributes; one with several names has to be written in its place.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    old = os.stat(path) if os.path.exists(path) else None
    if old is not None and (old.st_nlink > 1 or not os.access(path, os.W_OK)):
        return False
    # Always the same name: what an interrupted write left is gone with the next one.
    temporary = os.path.join(folder, f".~{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.tmp")

    def write_text(file: BinaryIO) -> None:
        wrapped = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        try:
            write(wrapped)
        finally:
            wrapped.detach()  # flushes, and leaves the file open

    try:
        files.replace_file(
            path,
            write_text,
            mode=0o666 if old is None else 0o600,
            durable=True,
            temporary=temporary,
            finish=None if old is None else lambda new: _make_alike(path, old, new),
        )
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False  # another's folder, a file that is a mount of its own …
    return True


def _make_alike(path: str, old: os.stat_result, new: str) -> None:
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.stat(new).st_gid):
        os.chown(new, old.st_uid, old.st_gid)
    shutil.copystat(path, new)
    os.utime(new)


def whole_characters(value: Any) -> Any:
    """The same with a sign in place of each half of a character: JSON may hold such, a file in UTF-8 cannot."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [whole_characters(each) for each in value]
    if isinstance(value, dict):
        return type(value)((whole_characters(name), whole_characters(each)) for name, each in value.items())
    return value


def mark_trusted(notebook: dict[str, Any], names: set[str]) -> None:
    """What code said that ran here may show itself, as in a page that ran it."""
    for cell in _cells(notebook):
        if cell.get("id") in names and cell.get("cell_type") == "code":
            cell.setdefault("metadata", {})["trusted"] = True


def _cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    found = notebook.get("cells")
    return [cell for cell in found if isinstance(cell, dict)] if isinstance(found, list) else []


def _made_id(number: int, source: object) -> str:
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    return hashlib.sha256(f"{number}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _parse(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:  # NaN, and halves of characters, which Python's own reader takes
        return json.loads(data.decode())

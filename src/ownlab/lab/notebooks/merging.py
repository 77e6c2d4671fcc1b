"""Merges what runtimes said, according to their journals, into notebooks. Blocks."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterable
from logging import Logger, LoggerAdapter
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TextIO

from ownlab.files import replace_file
from ownlab.lab.journal.execution import Execution
from ownlab.lab.journal.installed_packages import Changes, remember
from ownlab.lab.journal.state import Fold
from ownlab.lab.notebooks.parsing import cells_of

if TYPE_CHECKING:
    from ownlab.lab.runtimes.journals import Journal

__all__ = ["Merged", "Seen", "merge_journals", "merge_state", "replace_notebook"]


class Seen(NamedTuple):
    """The last message of a runtime that a page had shown when it saved."""

    runtime: str
    number: int


class Merged(NamedTuple):
    """What journals added to a notebook."""

    positions: list[tuple[Journal, int]]  # each journal, and the number of its last record in the notebook
    cells: set[str]  # ids of the cells that got outputs
    changed: bool

    def hold(self) -> None:
        """Record that the notebook's file holds everything merged."""
        for journal, position in self.positions:
            journal.hold(position)


def merge_journals(
    notebook: dict[str, Any], journals: Iterable[Journal], log: Logger | LoggerAdapter[Any], seen: Seen | None = None
) -> Merged:
    """Add what its runtimes said after `seen`, or after what its file already holds."""
    cells, later = cells_of(notebook), set[str]()
    merged, installed = Merged([], set(), False), list[Changes]()
    # Newest first: a cell shows its last execution, which may be in the notebook already, and no earlier one.
    for journal in reversed(list(journals)):
        mine = [cell for cell in cells if cell.get("id") not in later]
        since = seen.number if seen is not None and seen.runtime == journal.runtime else journal.held
        try:
            with journal.current() as fold:
                changed = merge_state({**notebook, "cells": mine}, fold, since)
                new = {cell["id"] for cell in mine if cell.get("id") in fold.by_cell}
                merged.cells.update(name for name in new if fold.by_cell[name].outputs_at > since)
                merged.positions.insert(0, (journal, fold.position))
                installed.insert(0, fold.packages_after(since))
        except Exception as exc:  # a notebook must open, and be saved, even if a journal is damaged
            log.error("The journal of runtime %s cannot be read: %s", journal.runtime, exc, exc_info=True)
            continue
        merged = merged._replace(changed=merged.changed or changed)
        later |= new
    # Oldest first: what was installed last counts.
    remembered = [remember(notebook, each) for each in installed]
    return merged._replace(changed=merged.changed or any(remembered))


def merge_state(notebook: dict[str, Any], fold: Fold, seen: int) -> bool:
    """Update the cells that changed after record `seen`; return whether anything changed. It replaces and never appends."""
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


def replace_notebook(path: str, write: Callable[[TextIO], None]) -> bool:
    """Replace a notebook's file atomically. False when that is impossible here; then it must be written in place.

    The new file gets the owner, the mode and the attributes of the old one. A file with several names (hard links) cannot
    be replaced.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    old = os.stat(path) if os.path.exists(path) else None
    if old is not None and (old.st_nlink > 1 or not os.access(path, os.W_OK)):
        return False

    def write_text(file: BinaryIO) -> None:
        wrapped = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        try:
            write(wrapped)
        finally:
            wrapped.detach()  # flushes, and leaves the file open

    try:
        replace_file(
            path,
            write_text,
            mode=0o666 if old is None else 0o600,
            durable=True,
            # Always the same name: the next write removes what an interrupted one left.
            temporary=os.path.join(folder, f".~{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.tmp"),
            finish=None if old is None else lambda new: _make_alike(path, old, new),
        )
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False  # another person's folder, a file that is a mount point …
    return True


def _make_alike(path: str, old: os.stat_result, new: str) -> None:
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.stat(new).st_gid):
        os.chown(new, old.st_uid, old.st_gid)
    shutil.copystat(path, new)
    os.utime(new)

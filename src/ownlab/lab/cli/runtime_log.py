"""`ownlab runtimes log`: what a notebook printed, from its runtime's journal; needs no server."""

from __future__ import annotations

import logging
import os
import time
from typing import Any

import click
from msgspec import Struct

from ownlab.cli.options import json_option
from ownlab.errors import InputError, LabError, UsageError
from ownlab.lab.journal.state import JournalState
from ownlab.lab.journal.storage import JournalInfo, all_journals
from ownlab.lab.runtimes.journals import Journal
from ownlab.lab.terminal.runtime_log import LogTeller
from ownlab.render.documents import echo_record

__all__ = ["CellLog", "RuntimeLog", "command"]

# Seconds between two looks at the journal of a runtime that is followed.
_EVERY = 0.3


@click.command("log")
@click.argument("runtime")
@json_option
@click.pass_obj
@click.option("-f", "--follow", is_flag=True, help="Go on until the runtime ends.")
@click.option("--cell", metavar="ID", help="Only what this cell printed; the beginning of its id is enough.")
@click.option("--notebook", "target", metavar="FILE", help="Write the notebook with all that it shows into FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def command(
    outer_json: bool, runtime: str, as_json: bool, follow: bool, cell: str | None, target: str | None, force: bool
) -> None:
    """Print what the notebook of RUNTIME printed, whether or not a page was open.

    RUNTIME is the beginning of an id, or a notebook. Runtimes that have ended are found as long as their journal is kept
    ([journal] keep_days). Pictures are named, not shown.
    """
    as_json = as_json or outer_json
    if follow and (as_json or target):
        raise UsageError("--follow prints text: it goes with neither --json nor --notebook")
    about = _find(runtime)
    journal = Journal(about.runtime)
    if target is not None:
        _write_notebook(about, journal, target, force)
    if as_json:
        with journal.current() as fold:
            echo_record(_document(about, fold, cell))
    elif target is not None:
        click.echo(f"Written to {target}.")
    else:
        _tell(journal, cell, follow)


def _tell(journal: Journal, cell: str | None, follow: bool) -> None:
    teller = LogTeller(cell)
    while True:
        with journal.current() as fold:
            lines, ended = teller.new_lines(fold), fold.ended is not None or not journal.alive
        if lines:
            click.echo("\n".join(lines))
        if ended or not follow:
            return
        time.sleep(_EVERY)


def _find(name: str) -> JournalInfo:
    """By the beginning of an id, or the notebook: of several runtimes of one notebook the newest."""
    journals = all_journals()
    found = [one for one in journals if one.runtime == name]
    found = found or [one for one in journals if name and one.runtime.startswith(name)]
    for notebook in (name, f"{name}.ipynb"):
        named = [one for one in journals if name and _is_notebook(one.notebook, notebook)]
        found = found or ([named[-1]] if len({one.notebook for one in named}) == 1 else named)
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(f"{one.runtime[:8]} ({one.notebook or one.type})" for one in found)
        raise LabError(f"{name} may be any of these runtimes: {listed}", hint="Name one by the beginning of its id.")
    raise LabError(
        f"there is no journal of a runtime {name}",
        hint="Runtimes of a lab have one, until some days after their end. `ownlab runtimes` lists those that run.",
    )


def _is_notebook(path: str, name: str) -> bool:
    return bool(path) and (path.endswith("/" + name) or path == os.path.abspath(name))


def _document(about: JournalInfo, fold: JournalState, cell: str | None) -> RuntimeLog:
    return RuntimeLog(
        about.runtime,
        about.notebook,
        fold.ended,
        tuple(
            CellLog(
                cell=each.cell,
                source=str(each.request[2].get("code", "")),
                state=each.state,
                execution_count=each.execution_count,
                started_at=each.started_at,
                ended_at=each.ended_at,
                outputs=each.outputs.as_json(),
            )
            for each in fold.executions.values()
            if cell is None or (each.cell or "").startswith(cell)
        ),
    )


def _write_notebook(about: JournalInfo, journal: Journal, target: str, force: bool) -> None:
    import nbformat  # half the time of this command, where it is not needed

    notebook = _notebook(about, journal)
    try:
        with open(target, "w" if force else "x", encoding="utf-8") as file:
            file.write(nbformat.writes(nbformat.from_dict(notebook)))  # type: ignore[no-untyped-call]  # as it is
    except FileExistsError as exc:
        raise UsageError(f"{target} is there already", hint="Overwrite it with --force.") from exc
    except OSError as exc:
        raise InputError(f"{target} cannot be written: {exc.strerror}") from exc


def _notebook(about: JournalInfo, journal: Journal) -> dict[str, Any]:
    """The notebook's file with what it does not hold yet; where there is none (any more), the cells that were executed."""
    from ownlab.lab.notebooks.merging import merge_journals
    from ownlab.lab.notebooks.parsing import assign_cell_ids, parse_with_nbformat
    from ownlab.lab.runtimes.journals import Journals

    try:
        with open(about.notebook, "rb") as file:
            notebook = parse_with_nbformat(file.read())
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        return _made_of(journal)
    assign_cell_ids(notebook)
    merge_journals(notebook, Journals().of_notebook(about.notebook), logging.getLogger("ownlab"))
    return notebook


def _made_of(journal: Journal) -> dict[str, Any]:
    with journal.current() as fold:
        cells = [
            {
                "cell_type": "code",
                "id": name,
                "metadata": {},
                "source": each.request[2].get("code", ""),
                "execution_count": each.execution_count,
                "outputs": each.outputs.as_json(),
            }
            for name, each in fold.by_cell.items()
        ]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}


class CellLog(Struct, frozen=True):
    """One execution of a cell."""

    cell: str | None  # its id; None: it was not executed from a notebook
    source: str
    state: str  # queued, running, done, aborted, cut
    execution_count: int | None
    started_at: float | None  # seconds since the epoch
    ended_at: float | None
    outputs: list[dict[str, Any]]  # as in a notebook


class RuntimeLog(Struct, frozen=True):
    """`ownlab runtimes log --json`."""

    runtime: str
    notebook: str
    ended: str | None  # why; None: it is alive
    cells: tuple[CellLog, ...]  # in the order in which they were executed

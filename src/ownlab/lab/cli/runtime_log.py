"""`ownlab runtimes log`: the output of a notebook, read from its journal. Needs no server."""

from __future__ import annotations

import logging
import time
from typing import Any

import click
from msgspec import Struct

from ownlab.cli.options import json_option
from ownlab.errors import InputError, LabError, UsageError
from ownlab.input_files import read_bytes
from ownlab.lab.cli.script_log import find_script_run, show_script_log
from ownlab.lab.journal.state import JournalState
from ownlab.lab.journal.storage import JournalInfo, all_journals
from ownlab.lab.runtimes.journals import Journal
from ownlab.lab.runtimes.notebook_names import is_notebook, is_run_of
from ownlab.lab.terminal.runtime_log import LogPrinter
from ownlab.render.documents import echo_record
from ownlab.text import text

__all__ = ["CellLog", "KernelDeath", "RuntimeLog", "command"]

# Seconds between two reads of the journal with --follow.
_INTERVAL = 0.3


@click.command("log")
@click.argument("runtime")
@json_option
@click.pass_obj
@click.option("-f", "--follow", is_flag=True, help="Continue until the runtime ends.")
@click.option("--cell", metavar="ID", help="Only the output of this cell; the beginning of its id is enough.")
@click.option("--notebook", "target", metavar="FILE", help="Write the notebook with all its outputs to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option(
    "--rank", type=click.IntRange(0), default=0, metavar="N", help="Of a script with several ranks.  [default: 0]"
)
def command(
    outer_json: bool, runtime: str, as_json: bool, follow: bool, cell: str | None, target: str | None, force: bool,
    rank: int,
) -> int:  # fmt: skip
    """Print the output of the notebook or the script of RUNTIME, whether or not a page was open.

    RUNTIME is the beginning of an id, a notebook or a script. Ended runtimes are found as long as their journal is kept
    ([journal] keep_days); scripts, as long as the folder with their logs exists. Images are named, not shown.

    \b
    ownlab runtimes log train.ipynb -f
    ownlab runtimes log 3f2a91 --notebook recovered.ipynb    with all outputs
    ownlab runtimes log train.py --rank 1
    """
    as_json = as_json or outer_json
    if follow and (as_json or target):
        raise UsageError(text("--follow cannot be combined with --json or --notebook."))
    script = find_script_run(runtime)
    if script is not None:
        return show_script_log(*script, rank=rank, follow=follow, as_json=as_json)
    about = _find(runtime)
    journal = Journal(about.runtime)
    if target is not None:
        _write_notebook(about, journal, target, force)
    if as_json:
        with journal.current() as state:
            echo_record(_document(about, state, cell))
    elif target is not None:
        click.echo(text("Written to {path}.", path=target))
    else:
        _print_log(journal, cell, follow)
    return 0


def _print_log(journal: Journal, cell: str | None, follow: bool) -> None:
    printer = LogPrinter(cell)
    while True:
        with journal.current() as state:
            lines, ended = printer.new_lines(state), state.ended is not None or not journal.alive
        if lines:
            click.echo("\n".join(lines))
        if ended or not follow:
            return
        time.sleep(_INTERVAL)


def _find(name: str) -> JournalInfo:
    """Find a journal by the beginning of its id or by its notebook; of several of one notebook the newest."""
    journals = all_journals()
    matches = [about for about in journals if about.runtime == name]
    matches = matches or [about for about in journals if name and about.runtime.startswith(name)]
    for notebook in (name, f"{name}.ipynb"):
        named = [about for about in journals if name and is_notebook(about.notebook, notebook)]
        matches = matches or ([named[-1]] if len({about.notebook for about in named}) == 1 else named)
    matches = matches or [about for about in journals if is_run_of(about.notebook, name)][-1:]
    if len(matches) == 1:
        return matches[0]
    if matches:
        runtimes = ", ".join(f"{about.runtime[:8]} ({about.notebook or about.type})" for about in matches)
        raise LabError(
            text("{name} matches several runtimes: {runtimes}.", name=name, runtimes=runtimes),
            hint=text("Name one by the beginning of its id."),
        )
    raise LabError(
        text("There is no journal of a runtime {name}.", name=name),
        hint=text(
            "Journals of a lab's runtimes are kept for some days after their end. `ownlab runtimes` lists the running ones."
        ),
    )


def _document(about: JournalInfo, fold: JournalState, cell: str | None) -> RuntimeLog:
    return RuntimeLog(
        about.runtime,
        about.notebook,
        fold.ended,
        deaths=tuple(
            KernelDeath(
                at=each.at,
                cell=each.cell,
                summary=each.death.summary(),
                signal=each.death.signal,
                exit_code=each.death.exit_code,
                out_of_memory=bool(each.death.out_of_memory),
            )
            for each in fold.deaths
        ),
        cells=tuple(
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
    import nbformat  # takes half the time of this command; seldom needed

    notebook = _notebook(about, journal)
    try:
        with open(target, "w" if force else "x", encoding="utf-8") as file:
            file.write(nbformat.writes(nbformat.from_dict(notebook)))  # type: ignore[no-untyped-call]  # nbformat is untyped
    except FileExistsError as exc:
        raise UsageError(text("{path} exists already.", path=target), hint=text("Overwrite it with --force.")) from exc
    except OSError as exc:
        raise InputError(text("Cannot write {path}: {reason}.", path=target, reason=exc.strerror)) from exc


def _notebook(about: JournalInfo, journal: Journal) -> dict[str, Any]:
    """Return the notebook as a lab would open it; without a file, a notebook of the executed cells."""
    from ownlab.lab.notebooks.executed_code import merge_unsaved
    from ownlab.lab.notebooks.parsing import assign_cell_ids, parse_with_nbformat
    from ownlab.lab.runtimes.journals import Journals

    try:
        notebook = parse_with_nbformat(read_bytes(about.notebook))
    except (InputError, ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return _notebook_of_executions(journal)
    assign_cell_ids(notebook)
    merge_unsaved(about.notebook, notebook, Journals().of_notebook(about.notebook), logging.getLogger("ownlab"))
    return notebook


def _notebook_of_executions(journal: Journal) -> dict[str, Any]:
    with journal.current() as state:
        cells = [
            {
                "cell_type": "code",
                "id": name,
                "metadata": {},
                "source": each.request[2].get("code", ""),
                "execution_count": each.execution_count,
                "outputs": each.outputs.as_json(),
            }
            for name, each in state.by_cell.items()
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


class KernelDeath(Struct, frozen=True):
    """The death of a kernel."""

    at: float  # seconds since the epoch
    cell: str | None  # the id of the cell that was running
    summary: str
    signal: int | None
    exit_code: int | None
    out_of_memory: bool  # False: it is not known to be the cause


class RuntimeLog(Struct, frozen=True):
    """`ownlab runtimes log --json`."""

    runtime: str
    notebook: str
    ended: str | None  # why; None: it is alive
    cells: tuple[CellLog, ...]  # in the order in which they were executed
    deaths: tuple[KernelDeath, ...] = ()  # kernels that died without being asked to

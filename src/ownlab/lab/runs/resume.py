"""Runs that failed and kept their runtime (--keep), and how they continue from the failed cell (--from-failed).

The record is in the journal's folder, since the keeper removes the runtime's own folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ownlab.atomic_files import replace_file
from ownlab.errors import LabError, UsageError
from ownlab.json_encoding import encode_json
from ownlab.lab.forms.parameters import find_parameters, set_parameters
from ownlab.lab.journal.storage import all_journals, journal_folder, remove_journal
from ownlab.lab.runs.preparation import clear
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.state import is_runtime_alive, may_continue, plan_of
from ownlab.text import text

__all__ = ["KeptRun", "find_kept_run", "forget_kept_run", "resume_cells", "retire_old", "save_kept_run"]

_NAME = "run.json"
_DAY = 86400.0


class KeptRun(Struct, frozen=True):
    """A run that stopped at a failed cell."""

    runtime: str
    notebook: str  # the input
    output: str
    parameters: dict[str, Any]
    done: tuple[str, ...]  # the ids of all cells before the failed one
    failed: str  # its id


def save_kept_run(kept: KeptRun) -> None:
    """Save the record for as long as its journal exists."""
    replace_file(str(journal_folder(kept.runtime) / _NAME), encode_json(kept).decode())


def forget_kept_run(runtime: str) -> None:
    """Remove the record: the run continues, or is over."""
    (journal_folder(runtime) / _NAME).unlink(missing_ok=True)


def find_kept_run(notebook: str) -> tuple[KeptRun, Plan]:
    """Return the newest failed run of a notebook whose runtime is alive. LabError if there is none."""
    wanted = os.path.realpath(notebook)
    for about in reversed(all_journals()):
        kept = _read(journal_folder(about.runtime))
        if kept is None or os.path.realpath(kept.notebook) != wanted:
            continue
        plan = plan_of(about.runtime)
        if plan is not None and is_runtime_alive(about.runtime):
            return kept, plan
    raise LabError(
        text("There is no failed run of {notebook} with a kept runtime.", notebook=notebook),
        hint=text("`ownlab run --keep` keeps the runtime if a cell fails; `ownlab runtimes` lists the running ones."),
    )


def resume_cells(kept: KeptRun, source: dict[str, Any], output: dict[str, Any], given: Mapping[str, object]) -> int:
    """Copy the remaining cells, as they are now, into the output; return the number of the first.

    They begin after the last cell that was done, so that a cell inserted before the failed one is run too.
    """
    done = set(kept.done)
    begin = max((number + 1 for number, cell in enumerate(source["cells"]) if cell["id"] in done), default=0)
    rest = {**source, "cells": source["cells"][begin:]}
    _fill(source, rest, kept.parameters, given)
    clear(rest)
    earlier = [cell for cell in output["cells"] if cell["id"] in done]
    output["cells"] = [*earlier, *rest["cells"]]
    return len(earlier)


def retire_old(keep_days: float) -> None:
    """Remove journals of runs that ended long ago and are saved in their notebooks; a lab that would do so may never run."""
    before = time.time() - keep_days * _DAY
    for about in all_journals():
        folder = journal_folder(about.runtime)
        if not about.lab and _is_old(folder, before) and not may_continue(about.runtime):
            remove_journal(about.runtime)


def _fill(
    whole: dict[str, Any], rest: dict[str, Any], before: Mapping[str, object], given: Mapping[str, object]
) -> None:
    """Set parameters: values of the first run still apply unless they are given again."""
    left = {parameter.name for parameter in find_parameters(rest)}
    everywhere = {parameter.name for parameter in find_parameters(whole)}
    for name in given:
        if name in everywhere - left:
            raise UsageError(text("{name} is set in a cell that has already run: it cannot be changed.", name=name))
    set_parameters(rest, {**{name: value for name, value in before.items() if name in left}, **given})


def _read(folder: Path) -> KeptRun | None:
    try:
        return msgspec.json.decode((folder / _NAME).read_bytes(), type=KeptRun)
    except (OSError, msgspec.DecodeError):
        return None


def _is_old(folder: Path, before: float) -> bool:
    """Whether the journal is old, and the notebook was updated after its last record."""
    try:
        with os.scandir(folder) as entries:
            times = {entry.name: entry.stat().st_mtime for entry in entries}
    except FileNotFoundError:
        return False
    newest = max((at for name, at in times.items() if name.endswith(".log")), default=0.0)
    return newest < before and times.get("held.json", 0.0) >= newest

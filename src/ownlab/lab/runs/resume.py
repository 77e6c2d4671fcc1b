"""Runs that failed and whose runtimes were kept: what is known of them, and how one goes on from the cell that failed.

It stands in the journal's folder: a runtime's own folder is removed by its keeper, which removes what it knows alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ownlab.errors import LabError, UsageError
from ownlab.files import replace_file
from ownlab.json_encoding import encode_json
from ownlab.lab.forms.parameters import find_parameters, set_parameters
from ownlab.lab.journal.storage import all_journals, journal_folder, remove_journal
from ownlab.lab.runs.preparation import clear
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.runtimes.state import is_runtime_alive, plan_of

__all__ = ["Kept", "find_kept", "forget_kept", "go_on", "retire_old", "write_kept"]

_NAME = "run.json"
_DAY = 86400.0


class Kept(Struct, frozen=True):
    """A run that stopped."""

    runtime: str
    notebook: str  # the input
    output: str
    parameters: dict[str, Any]
    done: tuple[str, ...]  # the ids of all cells before the one that failed
    failed: str  # its id


def write_kept(kept: Kept) -> None:
    """Remember it, for as long as its journal is there."""
    replace_file(str(journal_folder(kept.runtime) / _NAME), encode_json(kept).decode())


def forget_kept(runtime: str) -> None:
    """It goes on, or is over."""
    (journal_folder(runtime) / _NAME).unlink(missing_ok=True)


def find_kept(notebook: str) -> tuple[Kept, Plan]:
    """The newest run of a notebook that failed and whose runtime is still there. LabError where there is none."""
    wanted = os.path.realpath(notebook)
    for about in reversed(all_journals()):
        kept = _read(journal_folder(about.runtime))
        if kept is None or os.path.realpath(kept.notebook) != wanted:
            continue
        plan = plan_of(about.runtime)
        if plan is not None and is_runtime_alive(about.runtime):
            return kept, plan
    raise LabError(
        f"no run of {notebook} that failed has kept its runtime",
        hint="`ownlab run --keep` keeps it where a cell fails; `ownlab runtimes` lists those that are there.",
    )


def go_on(kept: Kept, source: dict[str, Any], output: dict[str, Any], given: Mapping[str, object]) -> int:
    """Put the cells that are still to be run into the output, as they are now; where they begin.

    That is behind the last cell that was done before, so that a cell which was put in before the failed one is run.
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
    """Let go of the journals of runs that ended long ago, and that their notebooks hold: there may never be a lab."""
    before = time.time() - keep_days * _DAY
    for about in all_journals():
        folder = journal_folder(about.runtime)
        if not about.lab and _is_old(folder, before) and not is_runtime_alive(about.runtime):
            remove_journal(about.runtime)


def _fill(
    whole: dict[str, Any], rest: dict[str, Any], before: Mapping[str, object], given: Mapping[str, object]
) -> None:
    """What was given for the first run still holds, where nothing else is given now."""
    left = {parameter.name for parameter in find_parameters(rest)}
    everywhere = {parameter.name for parameter in find_parameters(whole)}
    for name in given:
        if name in everywhere - left:
            raise UsageError(f"{name} stands in a cell that was run already: it cannot be changed any more")
    set_parameters(rest, {**{name: value for name, value in before.items() if name in left}, **given})


def _read(folder: Path) -> Kept | None:
    try:
        return msgspec.json.decode((folder / _NAME).read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return None


def _is_old(folder: Path, before: float) -> bool:
    """Nothing was written lately, and the notebook's file was brought up to date after the last of it."""
    try:
        with os.scandir(folder) as entries:
            times = {entry.name: entry.stat().st_mtime for entry in entries}
    except FileNotFoundError:
        return False
    newest = max((at for name, at in times.items() if name.endswith(".log")), default=0.0)
    return newest < before and times.get("held.json", 0.0) >= newest

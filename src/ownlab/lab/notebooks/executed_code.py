"""Edits and executions: outputs never stand under other code, and outputs that a page set are not shown after newer ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from logging import Logger, LoggerAdapter
from typing import TYPE_CHECKING, Any

import msgspec

from ownlab.lab.notebooks.edits.base import outputs_in, read_base
from ownlab.lab.notebooks.edits.cell import OutputsBefore, Ran
from ownlab.lab.notebooks.edits.edit_log import EditLog, read_edits
from ownlab.lab.notebooks.edits.edited_notebook import EditedNotebook
from ownlab.lab.notebooks.edits.records import Changes
from ownlab.lab.notebooks.merging import is_outdated, merge_journals

if TYPE_CHECKING:
    from ownlab.lab.journal.execution import Execution
    from ownlab.lab.runtimes.journals import Journal

__all__ = ["merge_unsaved", "recover_code", "without_outdated_outputs"]


def recover_code(
    edits: EditLog,
    journals: Iterable[Journal],
    prepare: Callable[[], None],
    log: Logger | LoggerAdapter[Any],
) -> bool:
    """Put the code that ran into cells whose outputs are newer than the file, unless they were edited after it ran.

    A page sends its edits before it executes a cell, so the two differ only if a client executed code without saving it.
    Call `prepare` before the log is written. Return whether a cell has changed.
    """
    changed = False
    for cell, ran in _newer_than_file(journals, log):
        if edits.state.can_recover(cell, ran):
            prepare()
            changed |= edits.recover(cell, ran)
    return changed


def merge_unsaved(
    path: str, notebook: dict[str, Any], journals: Sequence[Journal], log: Logger | LoggerAdapter[Any]
) -> None:
    """Merge into a notebook that was read from its file what a lab would open: edits, the code that ran, and outputs.

    It writes nothing: a command may do this while a lab serves the notebook. All cells have ids.
    """
    outputs_before: dict[str, OutputsBefore] = {}
    for state in read_edits(path) or [EditedNotebook.from_base(read_base(notebook, None))]:
        state.rebase(read_base(notebook, None), time.time(), outputs_in(notebook))
        for cell, ran in _newer_than_file(journals, log):
            state.recover(cell, ran)
        state.apply_to(notebook)
        outputs_before.update(state.outputs_before())
    merge_journals(notebook, journals, log, outputs_before=outputs_before)


def _newer_than_file(journals: Iterable[Journal], log: Logger | LoggerAdapter[Any]) -> Iterator[tuple[str, Ran]]:
    """Yield the cells whose outputs are newer than the file, each with the code that ran."""
    for journal in journals:
        try:
            with journal.current() as state:
                newer = [
                    (cell, Ran(execution.code, execution.queued_at, *_asked_by(execution)))
                    for cell, execution in state.by_cell.items()
                    if execution.asked_at > journal.saved_position and execution.state != "aborted"
                ]
        except Exception as exc:  # noqa: BLE001  # a damaged journal: `merge_journals` reports it
            log.debug("The journal of runtime %s cannot be read: %s", journal.runtime, exc)
            continue
        yield from newer


def _asked_by(execution: Execution) -> tuple[str, float]:
    """Return the client that sent a request, and when, on its clock; 0: it does not say."""
    session, date = (execution.request[0].get(name) for name in ("session", "date"))
    try:
        asked = datetime.fromisoformat(str(date).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        asked = 0.0
    return session if isinstance(session, str) else "", asked


def without_outdated_outputs(
    changes: Changes, edits: EditedNotebook, journals: Iterable[Journal], log: Logger | LoggerAdapter[Any]
) -> Changes:
    """Leave out outputs of cells that were executed since: pages get the newer ones from the kernel."""
    if not any(cell.outputs is not msgspec.UNSET for cell in changes.cells):
        return changes
    executed = {name for journal in journals for name in _executed_since(journal, edits.outputs_before(), log)}
    cells = [
        msgspec.structs.replace(cell, outputs=msgspec.UNSET) if cell.id in executed else cell for cell in changes.cells
    ]
    return msgspec.structs.replace(changes, cells=tuple(cells))


def _executed_since(
    journal: Journal, outputs_before: Mapping[str, OutputsBefore], log: Logger | LoggerAdapter[Any]
) -> set[str]:
    """Return the cells that a runtime executed after their outputs were set by a page or another program."""
    try:
        with journal.current() as state:
            return {
                name
                for name, execution in state.by_cell.items()
                if (
                    not is_outdated({"id": name}, state, journal.runtime, outputs_before)
                    if name in outputs_before
                    else execution.outputs_at > journal.saved_position
                )
            }
    except Exception as exc:  # noqa: BLE001  # a damaged journal: `merge_journals` reports it
        log.debug("The journal of runtime %s cannot be read: %s", journal.runtime, exc)
        return set()

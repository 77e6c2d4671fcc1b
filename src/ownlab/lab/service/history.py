"""The history of a notebook for the command line: with what open pages typed, and through a lab that serves the notebook."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any, NamedTuple

import msgspec

from ownlab.errors import InputError, LabError, OwnlabError
from ownlab.lab.notebooks.edits.base import outputs_in, read_base
from ownlab.lab.notebooks.edits.edit_log import EditLog
from ownlab.lab.notebooks.files import notebook_json, read_notebook, read_notebook_file, write_over
from ownlab.lab.notebooks.history.deleted import deleted_notebooks
from ownlab.lab.notebooks.history.recorder import version_store
from ownlab.lab.notebooks.history.records import NotebookHistory, Version
from ownlab.lab.notebooks.history.version_store import VersionStore
from ownlab.lab.notebooks.identity import find_identity, identity_folder, make_identity, note_file
from ownlab.lab.notebooks.parsing import assign_cell_ids, parse_with_nbformat
from ownlab.lab.runtimes.drive import MY_DRIVE, PREFIX, drive_root
from ownlab.lab.service.http_client import request
from ownlab.lab.service.labs import Lab, is_up, labs
from ownlab.text import text

__all__ = ["list_versions", "open_history", "present_notebook", "restore_version", "save_version"]

_LOG = logging.getLogger("ownlab")
_RESTORE_SECONDS = 60.0


class _Served(NamedTuple):
    """A lab that runs and serves a notebook, and the notebook's path there."""

    lab: Lab
    path: str


def open_history(notebook: str) -> VersionStore:
    """Return the history of a notebook. InputError if there is neither a file nor a history."""
    identity = find_identity(notebook)
    if identity is not None:
        return version_store(identity.id)
    if os.path.isfile(notebook):
        read_notebook(notebook)  # an error if it is not a notebook
        return version_store(make_identity(notebook).id)
    real = os.path.realpath(notebook)
    if any(each.path == real for each in deleted_notebooks()):
        raise InputError(
            text("{notebook} was deleted.", notebook=notebook),
            hint=text("Restore it: ownlab history --deleted --restore {notebook}", notebook=notebook),
        )
    raise InputError(text("There is no notebook {path}.", path=notebook))


def list_versions(notebook: str, store: VersionStore) -> NotebookHistory:
    """Return all versions, newest first."""
    return NotebookHistory(os.path.realpath(notebook), tuple(reversed(store.versions())), store.size())


def present_notebook(notebook: str, *, outputs: bool = False) -> dict[str, Any]:
    """Return a notebook as pages show it now: with what they typed; if asked for, with outputs that the file lacks."""
    if not outputs:
        present = read_notebook(notebook)
        assign_cell_ids(present)
        return present
    from ownlab.lab.notebooks.executed_code import merge_unsaved  # imports much; not needed to compare code
    from ownlab.lab.runtimes.journals import Journals

    # Texts as strings, as in the versions that a server records: equal cells are stored once.
    present = parse_with_nbformat(notebook_json(read_notebook_file(notebook)).encode())
    assign_cell_ids(present)
    merge_unsaved(notebook, present, Journals().of_notebook(os.path.realpath(notebook)), _LOG)
    return present


def save_version(notebook: str, store: VersionStore, name: str) -> Version | None:
    """Record the notebook as it is now, under a name."""
    return store.record(present_notebook(notebook, outputs=True), "named", name=name)


def restore_version(notebook: str, store: VersionStore, version: Version) -> None:
    """Put a version in place of a notebook: through the lab that serves it, so that open pages get it. The present one is recorded."""
    served = _serving_lab(notebook)
    if served is not None:
        _restore_through_lab(served, version)
    else:
        _restore_file(notebook, store, version)


def _serving_lab(notebook: str) -> _Served | None:
    """Return a lab that serves a notebook; of several, one with edits of it."""
    real = os.path.realpath(notebook)
    found = [_Served(lab, path) for lab in labs() if (path := _path_in(lab, real)) is not None and is_up(lab)]
    identity = find_identity(notebook)
    if identity is not None:
        edits = identity_folder(identity.id) / "edits"
        found.sort(key=lambda served: not (edits / f"{served.lab.id}.log").exists())
    return found[0] if found else None


def _path_in(lab: Lab, real: str) -> str | None:
    """Return JupyterLab's path of a notebook in a lab; None if it is not in its folder, nor in the drive."""
    inside = os.path.join(os.path.realpath(lab.folder), "")
    if real.startswith(inside):
        return real.removeprefix(inside)
    try:
        drive = os.path.join(os.path.realpath(drive_root()), "")
    except OwnlabError:  # it is not mounted, so this is not in it
        return None
    return f"{PREFIX}{MY_DRIVE}/{real.removeprefix(drive)}" if real.startswith(drive) else None


def _restore_through_lab(served: _Served, version: Version) -> None:
    body = json.dumps({"notebook": served.path, "version": version.id})
    answer = request(served.lab, "POST", "ownlab/api/notebooks/history/restore", body, timeout=_RESTORE_SECONDS)
    if answer is None:
        raise LabError(
            text("The lab of {folder} has this notebook open and does not answer.", folder=served.lab.folder),
            hint=text("Try again, or stop it with `ownlab down`; then the file is restored directly."),
        )
    status, content = answer
    if status != 200:
        reason = _reason(content) or text("HTTP status {status}", status=status)
        raise LabError(text("The lab cannot restore this version: {reason}", reason=reason))


def _reason(content: bytes) -> str:
    """Return why a lab refused: our own error, or Jupyter's."""
    try:
        document = msgspec.json.decode(content)
    except msgspec.DecodeError:
        return ""
    error = document.get("error") if isinstance(document, dict) else None
    if isinstance(error, dict):
        return str(error.get("message", ""))
    return str(document.get("message", "")) if isinstance(document, dict) else ""


def _restore_file(notebook: str, store: VersionStore, version: Version) -> None:
    """Restore a notebook that no lab serves. If this is interrupted, nothing is lost: the present one is recorded first."""
    content = store.load(version)
    if os.path.lexists(notebook):
        store.record(present_notebook(notebook, outputs=True), "before-restore")
    write_over(notebook, content)
    note_file(notebook)
    _mark_outputs_saved(notebook)
    _replace_edits(store, content)
    store.record(content, "restored")


def _mark_outputs_saved(notebook: str) -> None:
    """The user wants the outputs of that version, not those that came later."""
    from ownlab.lab.runtimes.journals import Journals

    for journal in Journals().of_notebook(os.path.realpath(notebook)):
        with journal.current() as state:
            journal.mark_saved(state.position)


def _replace_edits(store: VersionStore, content: dict[str, Any]) -> None:
    """Let edits that are not in the file yet end here: the version recorded before has them."""
    running = {lab.id for lab in labs() if is_up(lab)}
    for path in (store.folder.parent / "edits").glob("*.log"):
        log = EditLog.open(path)
        if log is not None and path.stem not in running:  # a running lab notices the new file, and keeps its edits
            log.state.replace(read_base(content, None), time.time(), outputs_in(content))
            log.write_snapshot()

"""Adds versions to the history of notebooks."""

from __future__ import annotations

from logging import Logger, LoggerAdapter
from typing import Any

from ownlab.config.loader import resolve_lab_options
from ownlab.config.settings import LabOptions
from ownlab.errors import OwnlabError
from ownlab.lab.notebooks.edits.edited_notebook import EditedNotebook
from ownlab.lab.notebooks.history.records import Reason
from ownlab.lab.notebooks.history.version_store import VersionStore
from ownlab.lab.notebooks.identity import make_identity

__all__ = ["HistoryRecorder", "history_options", "version_store"]


def history_options() -> LabOptions:
    """Return the user's limits of the history."""
    try:
        return resolve_lab_options()
    except OwnlabError:  # the history works even if the configuration is invalid
        return LabOptions()


def version_store(identity: str) -> VersionStore:
    """Return the history of a notebook, with the user's limits."""
    options = history_options()
    return VersionStore(identity, days=options.history_days, megabytes=options.history_mb)


class HistoryRecorder:
    """Records versions. Its methods block. A failure is logged: an edit is never refused because of its history."""

    def __init__(self, log: Logger | LoggerAdapter[Any]) -> None:
        self._log = log

    def record(self, os_path: str, notebook: dict[str, Any], reason: Reason) -> None:
        """Record a notebook as it is now."""
        try:
            version_store(make_identity(os_path).id).record(notebook, reason)
        except (OwnlabError, OSError) as exc:
            self._log.warning("Cannot add a version to the history of %s: %s", os_path, exc)

    def record_texts(self, os_path: str, state: EditedNotebook, texts: dict[str, str], reason: Reason) -> None:
        """Record texts of cells that the notebook does not show."""
        if texts:
            self.record(os_path, state.to_notebook(texts), reason)

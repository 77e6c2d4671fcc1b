"""The output notebook of a run, updated from the journal during the run and at its end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from ownlab.errors import InputError
from ownlab.lab.journal.storage import forget_notebook, journals_of_notebook, read_journal_info
from ownlab.lab.notebooks.files import read_notebook, write_over
from ownlab.lab.runtimes.journals import Journal
from ownlab.lab.runtimes.state import may_continue

__all__ = ["OutputFile", "forget_past_outputs"]

_WIDGETS = "application/vnd.jupyter.widget-state+json"
_log = logging.getLogger("ownlab")


class OutputFile:
    """A file that follows a journal. It may be edited or renamed meanwhile."""

    def __init__(self, runtime: str, path: str, update_elsewhere: Callable[[str], bool] = lambda path: False) -> None:
        """`update_elsewhere` may write it instead of us and returns whether it did: a lab may have it open."""
        self._journal = Journal(runtime)
        self._initial_path, self._update_elsewhere = path, update_elsewhere
        self._lock = threading.Lock()
        self.trouble = ""  # why it could not be written
        # The kernel's own answer; the notebook may have been saved with another Python.
        self.read_language_info: Callable[[], dict[str, Any] | None] = lambda: None

    @property
    def path(self) -> str:
        """Its present path."""
        about = read_journal_info(self._journal.folder)
        return about.notebook if about is not None and about.notebook else self._initial_path

    def update(self) -> None:
        """Write what is new. If that fails the run continues, and the journal still has everything."""
        with self._lock:
            try:
                self.trouble = ""
                self._write()
            except InputError as exc:
                self.trouble = exc.message
            except OSError as exc:  # from the journal
                self.trouble = str(exc)

    def _write(self) -> None:
        with self._journal.current() as fold:
            changed = fold.changed_at > self._journal.saved_position
        if not changed or self._update_elsewhere(self.path):
            return
        from ownlab.lab.notebooks.merging import merge_journals
        from ownlab.lab.notebooks.parsing import assign_cell_ids

        path = self.path
        notebook = read_notebook(path)
        assign_cell_ids(notebook)
        merged = merge_journals(notebook, [self._journal], _log)
        if any([self._keep_widgets(notebook), self._keep_language(notebook), merged.changed]):
            write_over(path, notebook)
        merged.mark_saved()

    def _keep_language(self, notebook: dict[str, Any]) -> bool:
        """Save the language and version that ran, as Jupyter does; whether they changed."""
        language, metadata = self.read_language_info(), notebook.setdefault("metadata", {})
        if not language or metadata.get("language_info") == language:
            return False
        metadata["language_info"] = language
        return True

    def _keep_widgets(self, notebook: dict[str, Any]) -> bool:
        """Save the state of widgets, so that they are shown without a kernel; whether there are any."""
        with self._journal.current() as fold:
            saved = fold.comms.saved()
        if saved is not None:
            notebook.setdefault("metadata", {}).setdefault("widgets", {})[_WIDGETS] = saved
        return saved is not None


def forget_past_outputs(path: str) -> None:
    """Forget the journals of ended runtimes: the file is about to be replaced."""
    if not any(may_continue(about.runtime) for about in journals_of_notebook(path)):
        forget_notebook(path)

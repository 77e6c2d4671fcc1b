"""The output of a run, brought up to date from its runtime's journal while it goes on, and at its end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from ownlab.errors import InputError
from ownlab.lab.journal.storage import forget_notebook, journals_of_notebook, read_journal_info
from ownlab.lab.notebooks.files import read_notebook, write_over
from ownlab.lab.runtimes.journals import Journal
from ownlab.lab.runtimes.state import is_runtime_alive

__all__ = ["Written", "forget_past"]

_WIDGETS = "application/vnd.jupyter.widget-state+json"
_log = logging.getLogger("ownlab")


class Written:
    """A file that follows a journal. Somebody may edit it meanwhile, or give it another name."""

    def __init__(self, runtime: str, path: str, elsewhere: Callable[[str], bool] = lambda path: False) -> None:
        """`elsewhere` may write it in our place, and says whether it did: a lab has it open, perhaps."""
        self._journal = Journal(runtime)
        self._given, self._elsewhere = path, elsewhere
        self._lock = threading.Lock()
        self.trouble = ""  # why it could not be written

    @property
    def path(self) -> str:
        """Where it is now."""
        about = read_journal_info(self._journal.folder)
        return about.notebook if about is not None and about.notebook else self._given

    def bring_up_to_date(self) -> None:
        """Write what is new, if there is anything. Whatever goes wrong, the run goes on, and the journal has it all."""
        with self._lock:
            try:
                self.trouble = ""
                self._write()
            except InputError as exc:
                self.trouble = exc.message
            except OSError as exc:  # of the journal
                self.trouble = str(exc)

    def _write(self) -> None:
        with self._journal.current() as fold:
            changed = fold.changed_at > self._journal.saved_position
        if not changed or self._elsewhere(self.path):
            return
        from ownlab.lab.notebooks.merging import merge_journals
        from ownlab.lab.notebooks.parsing import assign_cell_ids

        path = self.path
        notebook = read_notebook(path)
        assign_cell_ids(notebook)
        merged = merge_journals(notebook, [self._journal], _log)
        if self._keep_widgets(notebook) or merged.changed:
            write_over(path, notebook)
        merged.mark_saved()

    def _keep_widgets(self, notebook: dict[str, Any]) -> bool:
        """So that they are shown when the kernel is gone; whether there are any."""
        with self._journal.current() as fold:
            saved = fold.comms.saved()
        if saved is not None:
            notebook.setdefault("metadata", {}).setdefault("widgets", {})[_WIDGETS] = saved
        return saved is not None


def forget_past(path: str) -> None:
    """A file is written anew: what ended runtimes said of the cells that it had belongs to it no longer."""
    if not any(is_runtime_alive(about.runtime) for about in journals_of_notebook(path)):
        forget_notebook(path)

"""The processes of runtimes: which runtime owns which pid, according to the store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ownlab.config.loader import resolve_lab_options
from ownlab.errors import StoreError
from ownlab.instruments.top.records import Owner
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.locks_only import AnyStore, open_any
from ownlab.lab.store.rows import RuntimeRow
from ownlab.processes.procfs import process_started

__all__ = ["StoreOwners", "owners_of"]


def owners_of(rows: Iterable[RuntimeRow]) -> dict[int, Owner]:
    """The processes of these runtimes by pid, the kernel last. Processes that have ended are left out."""
    owners = {}
    for row in rows:
        for process in (row.keeper, row.supervisor, row.kernel):
            if process is not None and process_started(process.pid) == process.started:
                owners[process.pid] = Owner(row.id, row.notebook, row.person)
    return owners


class StoreOwners:
    """Reads the user's store if there is one; never creates it."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._store: AnyStore | None = None

    def __call__(self) -> dict[int, Owner]:
        """The processes of runtimes now; none if the store cannot be read."""
        try:
            if self._store is None or self._store.trouble or not self._store.is_current():
                self.close()
                self._store = _open(self._environ)
            return owners_of(self._store.runtimes()) if self._store is not None else {}
        except StoreError:
            return {}

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()
            self._store = None


def _open(environ: Mapping[str, str]) -> AnyStore | None:
    folder = choose_store(resolve_lab_options(environ=environ), environ).folder
    return open_any(folder, create=False) if os.path.exists(folder) else None

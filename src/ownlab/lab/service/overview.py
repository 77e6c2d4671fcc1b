"""Labs and their runtimes as the command line shows them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from ownlab.config.settings import LabOptions
from ownlab.errors import InputError, LabError, StoreError
from ownlab.lab.runtimes.inventory import living_runtimes, runtimes_with_a_folder
from ownlab.lab.service.http_client import is_answering
from ownlab.lab.service.labs import Holder, Lab, lab_id, labs, lock_holder, log_file
from ownlab.lab.service.records import LabState, RuntimeSummary, ServerState
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.locks_only import AnyStore, LocksOnly, open_any
from ownlab.lab.store.rows import RuntimeRow
from ownlab.text import sentence, sentences, text
from ownlab.units import format_seconds

__all__ = ["OwnRuntimes", "lab_folder", "lab_state", "open_own_store", "own_runtimes", "runtime_summary"]

# A server that works answers within milliseconds; on a machine that swaps, within a second or two.
_ANSWER_SECONDS = 3.0


class OwnRuntimes(NamedTuple):
    """The living runtimes of this user."""

    rows: list[RuntimeRow]
    trouble: str = ""  # why the store cannot be used: then they are known from their locks and folders

    def of_lab(self, lab: str) -> list[RuntimeRow]:
        """Return those that a lab (an id) started."""
        return [row for row in self.rows if row.lab == lab]

    def below(self, folder: str) -> list[RuntimeRow]:
        """Return those that the lab of a folder started, and others, such as runs, of notebooks in or below the folder."""
        real = os.path.realpath(os.path.expanduser(folder))
        inside = [
            row
            for row in self.rows
            if row.lab is None and os.path.realpath(row.notebook).startswith(os.path.join(real, "")) and row.notebook
        ]
        return [*self.of_lab(lab_id(real)), *inside]


def own_runtimes(options: LabOptions, environ: Mapping[str, str] = os.environ) -> OwnRuntimes:
    """Return the living runtimes of this user, whatever started them, and even if the store cannot be used."""
    try:
        with open_own_store(options, environ) as store:
            rows = [row for row in living_runtimes(store) if row.uid == os.geteuid()]
            return OwnRuntimes(rows, store.trouble)
    except StoreError as exc:
        return OwnRuntimes(runtimes_with_a_folder(()), sentences(sentence(exc.message), exc.hint))


def open_own_store(options: LabOptions, environ: Mapping[str, str] = os.environ) -> AnyStore:
    """Open the store of this user, without creating it. StoreError if there can be none."""
    folder = choose_store(options, environ).folder
    if not os.path.lexists(folder):
        return LocksOnly(folder, None)  # nothing has ever run here
    return open_any(folder, create=False)


def lab_state(lab: Lab, runtimes: OwnRuntimes, page: str = "lab") -> LabState:
    """Describe a lab that is running, or is being restarted."""
    server, watchdog = lock_holder(lab.folder), lock_holder(lab.folder, "watchdog")
    return LabState(
        url=lab.url,
        token=lab.token,
        address=lab.address(page),
        pid=server.pid if server and server.pid else None,
        watchdog=watchdog.pid if watchdog else None,
        folder=lab.folder,
        port=lab.port,
        started=lab.started,
        runtimes=len(runtimes.of_lab(lab.id)),
        log=str(log_file(lab.folder)),
        state=_server_state(lab, server),
        fingerprint=_fingerprint(lab),
    )


def _fingerprint(lab: Lab) -> str | None:
    if not lab.certificate:
        return None
    from ownlab.lab.service.network_host import certificate_fingerprint

    try:
        return certificate_fingerprint(lab.certificate)
    except InputError:
        return None  # it was deleted meanwhile


def _server_state(lab: Lab, server: Holder | None) -> ServerState:
    """Whether the server answers. The record is that of the last one which did: a new one needs some seconds."""
    if server is None or server.pid != lab.pid:
        return "restarting"
    if not server.here:
        return "ready"  # on another host: it cannot be asked
    try:
        if is_answering(lab, timeout=_ANSWER_SECONDS):
            return "ready"
    except LabError:  # another server has taken its port
        return "not answering"
    return "restarting" if lab.state == "starting" else "not answering"


def runtime_summary(row: RuntimeRow) -> RuntimeSummary:
    """Describe a runtime of a lab briefly."""
    since = format_seconds(max(1.0, round(time.time() - row.changed_at)))
    state = _activity(row, since) if row.state == "running" else row.state
    return RuntimeSummary(row.id, row.notebook, lab_folder(row), row.label, state)


def _activity(row: RuntimeRow, since: str) -> str:
    if row.busy:
        return text("busy for {duration}", duration=since)
    return text("idle for {duration}", duration=since)


def lab_folder(row: RuntimeRow) -> str | None:
    """Return the folder of the lab that started a runtime, if it is a lab of this user."""
    return next((lab.folder for lab in labs() if lab.id == row.lab), None)

"""Notebooks that were used last, and what happened to them: from their files, their histories and their runtimes' journals.

No notebook is read. Names and times come from folders; a journal is read once after it has changed, unless it is very large.
"""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from ownlab.errors import LabError
from ownlab.lab.journal.death import Death
from ownlab.lab.journal.state import JournalState
from ownlab.lab.journal.storage import all_journals, journal_folder
from ownlab.lab.notebooks.history.recorder import version_store
from ownlab.lab.notebooks.identity import NotebookIdentity, all_identities
from ownlab.lab.runtimes.journals import Journals
from ownlab.lab.start_page.records import RecentNotebook
from ownlab.text import Text, text

__all__ = ["Candidate", "Outcome", "RecentNotebooks"]

# A folder may contain millions of files: at most this many names are looked at, one level deep.
_NAMES = 5_000
# Larger journals are not read for the start page: the notebook shows what is in them.
_JOURNAL_BYTES = 64 << 20
_SUFFIX = ".ipynb"


class Candidate(NamedTuple):
    """A notebook, and when it or the output of its runtime changed."""

    file: str
    changed_at: float
    identity: str = ""  # of its history; "": it has none
    runtime: str = ""  # its newest one; "": none is known
    is_run: bool = False  # that runtime was of `ownlab run`


class Outcome(NamedTuple):
    """What happened in a runtime."""

    ran_at: float | None = None
    seconds: float | None = None
    failed: int = 0
    stopped: bool = False
    died_at: float | None = None
    died_of: str = ""


class RecentNotebooks:
    """The recent notebooks of a lab's folder."""

    def __init__(self, root: str, journals: Journals) -> None:
        self._root, self._journals = os.path.realpath(root), journals
        self._outcomes: dict[str, tuple[tuple[int, int], Outcome]] = {}  # by runtime: state of its journal, result

    def candidates(self, limit: int) -> list[Candidate]:
        """Return the notebooks that changed last, newest first."""
        identities = {each.path: each.id for each in self._identities()}
        found = {file: Candidate(file, _modified_at(file)) for file in (*identities, *self._files())}
        for info in all_journals():  # oldest first: the newest one of a notebook stays
            file = os.path.realpath(info.notebook) if info.notebook else ""
            if self._is_visible(file):
                written_at = _journal_stamp(info.runtime)[0] / 1e9
                changed_at = max(_modified_at(file), written_at)
                found[file] = Candidate(file, changed_at, runtime=info.runtime, is_run=not info.lab)
        there = [each for each in found.values() if each.changed_at and os.path.isfile(each.file)]
        there.sort(key=lambda each: (-each.changed_at, each.file))
        return [each._replace(identity=identities.get(each.file, "")) for each in there[:limit]]

    def describe(self, candidate: Candidate, outcome: Outcome) -> RecentNotebook:
        """Return what is known about a notebook."""
        edited_at, today = _edits(candidate.identity)
        owner = _other_owner(candidate.file)
        return RecentNotebook(
            path=os.path.relpath(candidate.file, self._root).replace(os.sep, "/"),
            file=candidate.file,
            changed_at=candidate.changed_at,
            edited_at=edited_at,
            versions_today=today,
            ran_at=outcome.ran_at,
            run_seconds=outcome.seconds if candidate.is_run else None,
            failed_cells=outcome.failed,
            stopped=outcome.stopped,
            died_at=outcome.died_at,
            died_of=outcome.died_of,
            owner=owner,
            read_only=not os.access(candidate.file, os.W_OK),
        )

    def outcome(self, runtime: str) -> Outcome:
        """Return what happened in a runtime. Its journal is read again only if it has changed."""
        if not runtime:
            return Outcome()
        stamp = _journal_stamp(runtime)
        known = self._outcomes.get(runtime)
        if known is not None and known[0] == stamp:
            return known[1]
        outcome = Outcome()
        if stamp[1] <= _JOURNAL_BYTES:
            with suppress(LabError), self._journals.journal(runtime).current() as state:  # or it was removed just now
                outcome = _outcome_of(state)
        self._outcomes[runtime] = (stamp, outcome)
        return outcome

    def known_outcome(self, runtime: str) -> Outcome:
        """Return what is known without reading anything."""
        known = self._outcomes.get(runtime)
        return known[1] if known is not None else Outcome()

    # -- names

    def _identities(self) -> Iterator[NotebookIdentity]:
        for identity in all_identities():
            if identity.deleted_at is None and self._is_visible(identity.path):
                yield identity

    def _files(self) -> Iterator[str]:
        """Yield the notebooks in the folder and in the folders in it."""
        folders = [self._root]
        names = _entries(self._root)
        folders += [entry.path for entry in names if not entry.name.startswith(".") and _is_folder(entry)]
        count = 0
        for folder in folders:
            for entry in names if folder == self._root else _entries(folder):
                count += 1
                if entry.name.endswith(_SUFFIX) and not entry.name.startswith("."):
                    yield os.path.realpath(entry.path)
            if count > _NAMES:
                return

    def _is_visible(self, file: str) -> bool:
        inside = os.path.join(self._root, "")
        if not file.startswith(inside) or not file.endswith(_SUFFIX):
            return False
        return not any(part.startswith(".") for part in file.removeprefix(inside).split(os.sep))


def _outcome_of(state: JournalState) -> Outcome:
    executions = [execution for execution in state.by_cell.values() if execution.launch == state.launch]
    ended = [execution.ended_at for execution in executions if execution.ended_at is not None]
    started = [execution.started_at for execution in executions if execution.started_at is not None]
    death = state.last_death
    return Outcome(
        ran_at=max(ended, default=None),
        seconds=max(ended) - min(started) if ended and started else None,
        failed=sum(execution.reply_content().get("status") == "error" for execution in executions),
        stopped=any(execution.state == "cut" for execution in executions),
        died_at=death.at if death is not None else None,
        died_of=short_cause(death.death) if death is not None else "",
    )


def short_cause(death: Death) -> Text | str:
    """Say in a few words why a kernel died; "" if that is not known."""
    if death.out_of_memory:
        return text("out of memory")
    if death.what == "limit":
        return death.reason
    if death.what == "machine":
        return text("the machine was restarted")
    if death.what == "kernel" and death.signal == signal.SIGSEGV:
        return text("segmentation fault")
    if death.what == "kernel" and death.signal is not None:
        return text("signal {number}", number=death.signal)
    if death.what == "kernel" and death.exit_code is not None:
        return text("exit code {code}", code=death.exit_code)
    return ""


def _edits(identity: str) -> tuple[float | None, int]:
    """Return when a notebook was edited last, and how many versions were recorded today."""
    versions = version_store(identity).versions() if identity else []
    edits = [version.at for version in versions if version.reason != "opened"]
    midnight = time.mktime((*time.localtime()[:3], 0, 0, 0, 0, 0, -1))
    return max(edits, default=None), sum(at >= midnight for at in edits)


def _other_owner(file: str) -> str:
    """Return the person whose file it is; "" if it is the user's own."""
    try:
        uid = os.stat(file).st_uid
    except OSError:
        return ""
    if uid == os.geteuid():
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a user without a name, as in containers
        return f"uid {uid}"


def _journal_stamp(runtime: str) -> tuple[int, int]:
    """Return when a journal was written to, in nanoseconds, and how large it is."""
    newest, size = 0, 0
    with suppress(OSError), os.scandir(journal_folder(runtime)) as entries:
        for entry in entries:
            if entry.name.endswith((".log", ".folded")):
                status = entry.stat()
                newest, size = max(newest, status.st_mtime_ns), size + status.st_size
    return newest, size


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(islice(_printable(entries), _NAMES))
    except OSError:  # a folder that cannot be read
        return []


def _printable(entries: Iterable[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
    """Leave out names that Jupyter cannot serve."""
    return (entry for entry in entries if entry.name.isprintable())


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _modified_at(file: str) -> float:
    try:
        return os.stat(file).st_mtime
    except OSError:
        return 0.0

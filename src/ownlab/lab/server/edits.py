"""Edits of open notebooks on the server: their logs in memory, and the tasks that write notebook files.

A file is written when editing rests. Files that another program changed are noticed, and merged with the edits.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from logging import Logger, LoggerAdapter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tornado.web import HTTPError

from ownlab.errors import OwnlabError
from ownlab.lab.notebooks.edits.base import outputs_in, read_base
from ownlab.lab.notebooks.edits.edit_log import EditLog, read_edit_log
from ownlab.lab.notebooks.edits.edited_notebook import EditedNotebook
from ownlab.lab.notebooks.identity import all_identities, find_identity, identity_folder, make_identity
from ownlab.lab.server.recent_writes import stamp

if TYPE_CHECKING:
    from ownlab.lab.server.contents import OwnlabContents

__all__ = ["EditLogs", "EditSaver"]

# Seconds without an edit after which the file is written, and seconds after which it is written in any case.
REST_SECONDS = 2.0
MOST_SECONDS = 10.0
# Writing takes at most this share of the time: large notebooks are written less often.
_SHARE = 0.1
_WATCH_INTERVAL = 1.0
_CLOSE_SECONDS = 15.0
FIRST_DELAY = 3.0
# Logs that nobody used for so long are dropped from memory.
_KEEP_SECONDS = 600.0


class EditLogs:
    """The edit logs of one server, by the real path of their notebook. Its methods block."""

    def __init__(self, lab: str) -> None:
        self.lab = lab
        # There must never be two logs of one file: each would overwrite what the other has written.
        self._lock = threading.RLock()
        self._logs: dict[str, EditLog] = {}
        self._used: dict[str, float] = {}
        self._names: dict[str, str] = {}  # the path by which a notebook was last opened: there may be links

    def open(self, os_path: str, notebook: dict[str, Any], file_stamp: tuple[int, int] | None) -> EditLog:
        """Return the log of a notebook that was just read from its file, merged with what is new in the file."""
        with self._lock:
            log = self.find(os_path)
            if log is None:
                base = read_base(notebook, file_stamp)
                # Versions are never used twice: a page may be older than this server.
                state = EditedNotebook.from_base(base, version=int(time.time() * 1000))
                log = self._logs[os.path.realpath(os_path)] = EditLog(Path(), state)
                return log
        if file_stamp != log.state.base.stamp:
            version = log.state.version
            log.state.rebase(read_base(notebook, file_stamp), time.time(), outputs_in(notebook))
            if log.on_disk or log.state.version != version:
                self._write_snapshot(os_path, log)
        return log

    def find(self, os_path: str) -> EditLog | None:
        """Return the log of a notebook, from memory or disk; None if there is none."""
        real = os.path.realpath(os_path)
        with self._lock:
            self._used[real], self._names[real] = time.monotonic(), os_path
            if real not in self._logs:
                identity = find_identity(real)
                log = EditLog.open(self._file(identity.id)) if identity is not None else None
                if log is None:
                    return None
                self._logs[real] = log
            return self._logs[real]

    def has(self, os_path: str) -> bool:
        """Return whether the log of a notebook is in memory."""
        return os.path.realpath(os_path) in self._logs

    def prepare(self, os_path: str, log: EditLog) -> None:
        """Make a log writable: a notebook gets its folder when it is first edited."""
        if not log.on_disk:
            self._write_snapshot(os_path, log)

    def save(self, log: EditLog, notebook: dict[str, Any], file_stamp: tuple[int, int] | None, version: int) -> None:
        """Record that the file was written with this notebook, which has the edits up to a version."""
        log.state.mark_saved(read_base(notebook, file_stamp), version)
        if log.on_disk:
            log.write_snapshot()

    def replace(self, os_path: str, log: EditLog, notebook: dict[str, Any]) -> None:
        """Record that a person put another version in place of the notebook."""
        log.state.replace(read_base(notebook, stamp(os_path)), time.time(), outputs_in(notebook))
        self._write_snapshot(os_path, log)

    def _write_snapshot(self, os_path: str, log: EditLog) -> None:
        log.path = self._file(make_identity(os_path).id)
        log.write_snapshot()

    def rename(self, old: str, new: str) -> None:
        """Follow the rename of a notebook or folder. `old` and `new` have no links."""
        with self._lock:
            for real in [name for name in self._logs if name == old or name.startswith(old + os.sep)]:
                log = self._logs.pop(real)
                moved = new + real[len(old) :]
                self._logs[moved], self._names[moved], self._used[moved] = log, moved, time.monotonic()

    def forget(self, path: str) -> None:
        """Forget a deleted notebook or folder; the logs stay on disk."""
        with self._lock:
            for real in [name for name in self._logs if name == path or name.startswith(path + os.sep)]:
                del self._logs[real]

    def unsaved(self) -> list[str]:
        """Return the notebooks whose files lack edits."""
        return [self._names[real] for real, log in list(self._logs.items()) if log.state.unsaved]

    def changed_elsewhere(self) -> list[str]:
        """Return the notebooks whose files another program has changed."""
        return [
            self._names[real]
            for real, log in list(self._logs.items())
            if (now := stamp(real)) is not None and now != log.state.base.stamp
        ]

    def drop_unused(self) -> None:
        """Drop logs that nobody used for a while from memory."""
        before = time.monotonic() - _KEEP_SECONDS
        with self._lock:
            for real, log in list(self._logs.items()):
                if self._used.get(real, 0.0) < before and not log.state.unsaved:
                    for table in (self._logs, self._used, self._names):
                        table.pop(real, None)

    def left_unsaved(self) -> list[str]:
        """Return the notebooks that an earlier server of this lab did not save."""
        return [
            identity.path
            for identity in all_identities()
            if identity.deleted_at is None and (state := read_edit_log(self._file(identity.id))) and state.unsaved
        ]

    def _file(self, identity: str) -> Path:
        return identity_folder(identity) / "edits" / f"{self.lab or 'server'}.log"


class EditSaver:
    """Writes the files of edited notebooks, and notices when another program has changed one."""

    def __init__(self, contents: OwnlabContents, log: Logger | LoggerAdapter[Any]) -> None:
        self._contents, self._logs, self._log = contents, contents.edits, log
        self._edited: dict[str, tuple[float, float]] = {}  # path -> first and last unsaved edit
        self._not_before: dict[str, float] = {}
        self._failed: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.has_pages: Callable[[], bool] = lambda: False  # as long as there are some, nothing is dropped
        # Called with a path whose notebook has a new version.
        self.listeners: list[Callable[[str, int], None]] = []

    def start(self) -> None:
        """Called once the server listens."""
        self._tasks = [asyncio.create_task(self._save_all()), asyncio.create_task(self._watch())]

    async def close(self) -> None:
        """Write what is unsaved. Called when the server stops."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*map(self.write, self._logs.unsaved())), _CLOSE_SECONDS)

    def on_edit(self, os_path: str, version: int) -> None:
        """Called when a notebook has a new version."""
        now = time.monotonic()
        self._edited[os_path] = (self._edited.get(os_path, (now, now))[0], now)
        self._wake.set()
        self.announce(os_path, version)

    def announce(self, os_path: str, version: int) -> None:
        """Tell all pages that a notebook has a new version."""
        for listener in list(self.listeners):
            listener(os_path, version)

    async def write(self, os_path: str) -> bool:
        """Write a notebook's file now. Return whether it contains everything; failures are logged."""
        started, edited = time.monotonic(), self._edited.get(os_path)
        try:
            done = await self._contents.update_file(os_path)
        except (HTTPError, OwnlabError, OSError) as exc:
            # The log is kept, and its edits are shown whenever the notebook is opened.
            if self._failed.get(os_path) != str(exc):
                self._log.warning("Cannot write %s: %s", os_path, exc)
            self._failed[os_path], done = str(exc), False
        except Exception:  # noqa: BLE001  # go on with the other notebooks
            self._log.exception("Cannot write %s.", os_path)
            done = False
        ended = time.monotonic()
        self._not_before[os_path] = ended + (ended - started) / _SHARE + (0 if done else MOST_SECONDS)
        if done:
            self._failed.pop(os_path, None)
            if self._edited.get(os_path) == edited:
                self._edited.pop(os_path, None)
        return done

    async def _save_all(self) -> None:
        await asyncio.sleep(FIRST_DELAY)
        try:
            for real in await asyncio.to_thread(self._logs.left_unsaved):
                await self.write(real)
        except (OwnlabError, OSError) as exc:
            self._log.warning("Cannot save the edits that an earlier server left: %s", exc)
        while True:
            if not self._edited:
                self._wake.clear()
                await self._wake.wait()
            await asyncio.sleep(REST_SECONDS / 4)
            for real, (first, last) in list(self._edited.items()):
                now = time.monotonic()
                rests = now - last >= REST_SECONDS or now - first >= MOST_SECONDS
                if rests and now >= self._not_before.get(real, 0.0):
                    await self.write(real)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_INTERVAL)
            for os_path in await asyncio.to_thread(self._logs.changed_elsewhere):
                await self._refresh(os_path)
            self._follow_logs()
            if not self.has_pages():
                await asyncio.to_thread(self._logs.drop_unused)

    def _follow_logs(self) -> None:
        """Notebooks with unsaved edits may have been renamed or deleted since: their logs are at their present path."""
        now = time.monotonic()
        for os_path in self._logs.unsaved():
            self._edited.setdefault(os_path, (now, now))
        for os_path in [path for path in self._edited if not self._logs.has(path)]:
            for table in (self._edited, self._not_before, self._failed):
                table.pop(os_path, None)
        if self._edited:
            self._wake.set()

    async def _refresh(self, os_path: str) -> None:
        try:
            await self._contents.refresh(os_path)
        except (HTTPError, OwnlabError, OSError) as exc:  # perhaps it is just being written: look again
            self._log.debug("%s was changed, but cannot be read: %s", os_path, exc)
        except Exception:  # noqa: BLE001  # go on with the other notebooks
            self._log.exception("Cannot read %s.", os_path)

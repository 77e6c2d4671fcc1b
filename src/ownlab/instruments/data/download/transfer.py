"""One file on its way, for the scheduler: what its workers can do next, and what their failures mean.

The scheduler (downloader.py) calls `piece`, `leave`, `postpone`, `restart` and `fail` with its lock held; a piece of work runs
without it. A worker that fails leaves the others alone; a file that changed on the server is started afresh when all have left.
"""

from __future__ import annotations

import errno
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

from ownlab.errors import InputError
from ownlab.instruments.data.download.connection import Client, Transient
from ownlab.instruments.data.download.file_download import FileDownload
from ownlab.instruments.data.download.records import RemoteFile
from ownlab.instruments.data.download.target import Target
from ownlab.text import text

__all__ = ["Transfer", "TransferOptions", "disk_error"]

_MOST_RESTARTS = 3
_LONGEST_PAUSE = 30.0


class TransferOptions(NamedTuple):
    """How to download."""

    connections: int = 8
    attempts: int = 5  # without a single byte
    backoff: float = 0.5  # seconds before the second attempt; doubled for each further one
    silence: float = 30.0  # seconds without a byte
    html: bool = False


class Transfer:
    """One file on its way."""

    def __init__(self, remote: RemoteFile, target: Target, options: TransferOptions, stop: threading.Event) -> None:
        self.remote, self._options, self._stop = remote, options, stop
        self.download = FileDownload(
            remote, target, connections=options.connections, html=options.html, stopped=self._is_stopped
        )
        self.error: InputError | None = None
        self.active = 0  # workers that are inside
        self.not_before = 0.0
        self._abandon: InputError | Literal["restart"] | None = None
        self._discard = False  # what has arrived is worth nothing
        self._failures = self._restarts = 0
        self._arrived_at_failure = -1

    def _is_stopped(self) -> bool:
        return self._stop.is_set() or self._abandon is not None

    def piece(self, workers: int) -> Callable[[Client], None] | None:
        """Return something for a worker to do; None if there is nothing at the moment."""
        if self._abandon is not None or time.monotonic() < self.not_before:
            return None
        download = self.download
        if download.phase == "new":
            download.phase = "opening"
            return download.open
        segments = download.segments
        if download.phase != "running" or segments is None or not download.ranged:
            return None
        run = segments.claim(workers)
        if run is not None:
            return partial(download.fetch, run)
        if self.active == 0 and segments.all_complete():
            download.phase = "finishing"
            return download.finish
        return None

    def leave(self) -> None:
        """A worker has left. The last one starts afresh, or gives up, if that was decided meanwhile."""
        if self.active or self._abandon is None:
            return
        abandon, self._abandon = self._abandon, None
        if abandon == "restart":
            self.download.pause(discard=self._discard)
        else:
            self.error = abandon
            self.download.give_up(abandon.message)
        self._discard = False

    def postpone(self, trouble: Transient) -> None:
        """Try again later; give up after some attempts without progress."""
        now = time.monotonic()
        if now < self.not_before:  # other workers failed for the same reason at the same time
            return
        if self.download.ranged and self.download.arrived > self._arrived_at_failure >= 0:
            self._failures = 0
        self._failures += 1
        self._arrived_at_failure = self.download.arrived
        attempts = self._options.attempts * (2 if self.download.transferred else 1)
        if self._failures > attempts:
            self.fail(_gave_up(trouble, attempts))
            return
        pause = min(_LONGEST_PAUSE, self._options.backoff * 2 ** (self._failures - 1)) * random.uniform(0.5, 1.0)  # noqa: S311
        self.not_before = now + (pause if trouble.retry_after is None else max(trouble.retry_after, 0.05))
        if self.download.phase == "opening" or not self.download.ranged:
            self._abandon = "restart"

    def restart(self) -> None:
        """Begin afresh: the file changed on the server."""
        if self._abandon is not None:  # another worker has noticed it too
            return
        self._restarts += 1
        self._discard = True
        if self._restarts > _MOST_RESTARTS:
            self.fail(
                InputError(
                    text("{address} changes again and again while it is downloaded.", address=self.remote.label),
                    hint=text("Its servers may have different versions. Try with one connection: --connections 1"),
                )
            )
            return
        self._abandon = "restart"

    def fail(self, error: InputError) -> None:
        """Give up."""
        if not isinstance(self._abandon, InputError):
            self._abandon = error


def _gave_up(trouble: Transient, attempts: int) -> InputError:
    return InputError(
        trouble.message,
        hint=text(
            "Gave up after {attempts} attempts without progress. What has arrived is kept: run the same command again to continue.",
            attempts=attempts,
        ),
    )


def disk_error(exc: OSError, folder: object) -> InputError:
    """The error for a disk that does not take what arrives."""
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(
            text("The disk of {folder} is full.", folder=folder),
            hint=text("Make room, then run the same command again: what has arrived is kept."),
        )
    return InputError(text("Cannot write into {folder}: {reason}.", folder=folder, reason=exc.strerror or exc))

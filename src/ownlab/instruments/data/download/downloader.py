"""Downloads many files with a few connections: the workers, and which of them does what next."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ownlab.errors import InputError
from ownlab.instruments.data.download.connection import Client, Credentials, Transient
from ownlab.instruments.data.download.records import FileReport, RemoteFile
from ownlab.instruments.data.download.segment_writer import Changed, Stopped
from ownlab.instruments.data.download.target import Target
from ownlab.instruments.data.download.transfer import Transfer, TransferOptions, disk_error

__all__ = ["Downloader", "Progress"]

Piece = Callable[[Client], None]
_POLL_SECONDS = 0.1


class Progress(NamedTuple):
    """Where a download stands."""

    files_done: int
    files: int
    arrived: int  # bytes, also those of earlier runs
    total: int | None  # None while the size of a file is unknown
    transferred: int  # bytes over the network in this run
    current: str  # a file on its way
    waiting: str = ""  # why nothing moves at the moment


class Downloader:
    """Downloads files into one folder. `run` may be called once."""

    def __init__(
        self, files: Sequence[RemoteFile], target: Target, credentials: Credentials, options: TransferOptions
    ) -> None:
        self._waiting = deque(files)
        self._target, self._credentials, self._options = target, credentials, options
        self._stop = threading.Event()
        self._open: list[Transfer] = []
        self._reports: list[FileReport] = []
        self._errors: list[InputError] = []
        self._ended_bytes = self.transferred = self.resumed = 0
        self._waiting_bytes = sum(file.size or 0 for file in files)
        self._waiting_unknown = sum(file.size is None for file in files)
        self._count = len(files)
        self._limit = options.connections  # workers that may be busy at once: servers may ask for fewer
        self._busy = 0
        self._changed = threading.Condition()
        self._trouble = ""
        self._crash: BaseException | None = None

    def run(self, report: Callable[[Progress], None]) -> tuple[list[FileReport], list[InputError]]:
        """Download everything; `report` is called ten times a second. Returns all files, and why some failed."""
        workers = max(1, self._options.connections)
        # Daemons: whatever moment an interruption comes at, what is on the disk can be resumed.
        threads = [threading.Thread(target=self._work, daemon=True, name=f"download-{n}") for n in range(workers)]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                report(self.progress())
                for thread in threads:
                    thread.join(_POLL_SECONDS / len(threads))
        except BaseException:
            self.stop()
            for thread in threads:
                thread.join(0.5)  # they note what has arrived
            raise
        if self._crash is not None:
            raise self._crash
        report(self.progress())
        return sorted(self._reports, key=lambda each: each.path), self._errors

    def stop(self) -> None:
        """Let the workers end."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def progress(self) -> Progress:
        """Return where the download stands."""
        with self._changed:
            running = list(self._open)
            sizes = [transfer.download.size for transfer in running]
            known = None not in sizes and not self._waiting_unknown
            return Progress(
                files_done=len(self._reports),
                files=self._count,
                arrived=self._ended_bytes + sum(transfer.download.arrived for transfer in running),
                total=self._ended_bytes + self._waiting_bytes + sum(size or 0 for size in sizes) if known else None,
                transferred=self.transferred + sum(transfer.download.transferred for transfer in running),
                current=next((transfer.remote.path or transfer.remote.label for transfer in running), ""),
                waiting=self._trouble
                if running and all(time.monotonic() < each.not_before for each in running)
                else "",
            )

    # --- workers ----------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        client = Client(self._credentials, self._options.silence)
        try:
            while (job := self._next()) is not None:
                transfer, piece = job
                try:
                    self._do(transfer, piece, client)
                finally:
                    with self._changed:
                        self._leave(transfer)
        except BaseException as exc:  # noqa: BLE001  # `run` raises it
            self._crash = exc
            self.stop()
        finally:
            client.close()

    def _do(self, transfer: Transfer, piece: Piece, client: Client) -> None:
        try:
            piece(client)
        except Stopped:
            pass
        except Transient as exc:
            with self._changed:
                self._trouble = exc.message
                if exc.busy:
                    self._limit = max(1, self._limit // 2)
                transfer.postpone(exc)
        except Changed:
            with self._changed:
                transfer.restart()
        except InputError as exc:
            with self._changed:
                transfer.fail(exc)
        except OSError as exc:
            with self._changed:
                transfer.fail(disk_error(exc, self._target.folder))

    def _next(self) -> tuple[Transfer, Piece] | None:
        """Return the next piece of work, and wait for one if necessary. None at the end."""
        with self._changed:
            while not self._stop.is_set():
                if self._busy < self._limit and (job := self._find()) is not None:
                    job[0].active += 1
                    self._busy += 1
                    return job
                if not self._open and not self._waiting:
                    self._changed.notify_all()
                    return None
                self._changed.wait(self._pause())
        return None

    def _find(self) -> tuple[Transfer, Piece] | None:
        for transfer in self._open:
            piece = transfer.piece(self._limit)
            if piece is not None:
                return transfer, piece
        if self._waiting and len(self._open) < 2 * self._options.connections:
            remote = self._waiting.popleft()
            self._waiting_bytes -= remote.size or 0
            self._waiting_unknown -= remote.size is None
            transfer = Transfer(remote, self._target, self._options, self._stop)
            self._open.append(transfer)
            piece = transfer.piece(self._limit)
            assert piece is not None
            return transfer, piece
        return None

    def _pause(self) -> float:
        """Return the seconds until a postponed file may be tried again; a beginning file offers work within milliseconds."""
        now = time.monotonic()
        waits = [transfer.not_before - now for transfer in self._open if transfer.not_before > now]
        if any(transfer.download.phase == "opening" for transfer in self._open):
            waits.append(0.005)
        return max(0.002, min([0.2, *waits]))

    def _leave(self, transfer: Transfer) -> None:
        transfer.active -= 1
        self._busy -= 1
        transfer.leave()
        if transfer.download.phase == "ended" and transfer in self._open:
            self._open.remove(transfer)
            self._settle(transfer)
        self._changed.notify_all()

    def _settle(self, transfer: Transfer) -> None:
        """Keep what is to be reported of a file that is done with."""
        assert transfer.download.report is not None
        self._reports.append(transfer.download.report)
        if transfer.error is not None:
            self._errors.append(transfer.error)
        else:
            self._ended_bytes += transfer.download.report.size or 0
        self.transferred += transfer.download.transferred
        self.resumed += transfer.download.resumed

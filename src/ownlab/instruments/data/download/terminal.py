"""`ownlab data get` for people: a progress bar on a terminal, plain lines elsewhere, and what became of the files."""

from __future__ import annotations

import sys
import time
from collections import deque
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ownlab.instruments.data.download.downloader import Progress
from ownlab.instruments.data.download.records import FileReport, GetReport
from ownlab.text import CONTROL_CHARACTERS, facts, plural, text
from ownlab.units import format_bytes, format_rate, format_seconds

__all__ = ["ProgressDisplay", "show_report"]

_LINE_SECONDS = 10.0  # between two lines where there is no terminal
_WINDOW_SECONDS = 8.0  # the rate is that of the last seconds
_MOST_LISTED = 20


class Rate:
    """Bytes per second, over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def update(self, transferred: int) -> float:
        """Add a reading and return the rate."""
        now = time.monotonic()
        self._seen.append((now, transferred))
        while now - self._seen[0][0] > _WINDOW_SECONDS:
            self._seen.popleft()
        seconds = now - self._seen[0][0]
        return (transferred - self._seen[0][1]) / seconds if seconds > 0.2 else 0.0


class ProgressDisplay:
    """Shows how a download goes, on stderr: results alone go to stdout."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr)
        self._live = (
            Live(console=self._console, refresh_per_second=8, transient=True) if self._console.is_terminal else None
        )
        self._rate = Rate()
        self._next_line = time.monotonic() + _LINE_SECONDS

    def __enter__(self) -> ProgressDisplay:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show where the download stands."""
        rate = self._rate.update(progress.transferred)
        if self._live is not None:
            self._live.update(_bar(progress, rate))
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            sys.stderr.write(f"{_line(progress, rate)}\n")
            sys.stderr.flush()


def _bar(progress: Progress, rate: float) -> Table:
    grid = Table.grid(padding=(0, 1))
    total = progress.total or None
    grid.add_row(
        ProgressBar(total=total, completed=min(progress.arrived, total) if total else 0, width=30, pulse=total is None),
        Text(_line(progress, rate)),
    )
    note = progress.waiting or progress.current
    return Table.grid() if not progress.files else _with_note(grid, note)


def _with_note(grid: Table, note: str) -> Table:
    outer = Table.grid()
    outer.add_row(grid)
    outer.add_row(Text(note.translate(CONTROL_CHARACTERS), style="dim", no_wrap=True, overflow="ellipsis"))
    return outer


def _line(progress: Progress, rate: float) -> str:
    size = (
        text("{arrived} of {total}", arrived=format_bytes(progress.arrived), total=format_bytes(progress.total))
        if progress.total is not None
        else format_bytes(progress.arrived)
    )
    files = (
        text("{done} of {files} files", done=progress.files_done, files=progress.files) if progress.files > 1 else ""
    )
    left = ""
    if progress.total is not None and rate > 0 and progress.total > progress.arrived:
        left = text("{time} left", time=format_seconds((progress.total - progress.arrived) / rate))
    return facts(size, files, format_rate(rate, "B/s") if rate > 0 else "", left)


def show_report(report: GetReport, console: Console) -> None:
    """Print what became of the files."""
    listed = [file for file in report.files if file.state == "failed"] or list(report.files)
    for file in listed[:_MOST_LISTED]:
        console.print(Text(_file_line(file)))
    if len(listed) > _MOST_LISTED:
        console.print(Text(text("… and {n} more (all of them: --json)", n=len(listed) - _MOST_LISTED)))
    new = sum(file.state in ("downloaded", "updated") for file in report.files)
    rate = report.transferred / report.seconds if report.seconds > 0 else 0.0
    console.print(
        Text(
            facts(
                plural(new, "one file downloaded", "{n} files downloaded"),
                text("{n} unchanged", n=len(report.files) - new - len(_failed(report)))
                if new < len(report.files)
                else "",
                text("{n} failed", n=len(_failed(report))) if _failed(report) else "",
                text("{size} resumed", size=format_bytes(report.resumed)) if report.resumed else "",
                text(
                    "{size} in {time} ({rate})",
                    size=format_bytes(report.transferred),
                    time=format_seconds(report.seconds),
                    rate=format_rate(rate, "B/s"),
                )
                if report.transferred
                else "",
            )
        )
    )


def _failed(report: GetReport) -> list[FileReport]:
    return [file for file in report.files if file.state == "failed"]


def _file_line(file: FileReport) -> str:
    name = file.path or file.source
    if file.state == "failed":
        return text("{name}: {message}", name=name, message=file.message)
    checked = {
        "sha256": text("SHA-256 as announced"),
        "md5": text("MD5 as announced"),
        "git": text("git SHA-1 as announced"),
        "size": text("size as announced"),
        "none": text("nothing to compare with"),
    }[file.verified]
    state = {"downloaded": text("downloaded"), "updated": text("updated"), "unchanged": text("unchanged")}[file.state]
    return text(
        "{name}: {facts}",
        name=name,
        facts=facts(state, format_bytes(file.size or 0), checked, f"sha256 {file.sha256[:12]}…"),
    )

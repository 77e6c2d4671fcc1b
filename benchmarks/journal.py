"""The cost of the journal compared with plain JupyterLab in one run: prints, pictures, reopening a notebook, idling.

Both are driven by the same client (`channel.py`). Jupyter's limit of 1000 messages a second is off on its side: with it, it
drops what it is measured by.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil  # type: ignore[import-untyped]
from benchmarks.channel import Channel
from benchmarks.lab import OURS, THEIRS, Server, _supervises, ours, plain, server_of
from benchmarks.rows import row

__all__ = ["journal_rows"]

PRINTS = "for number in range(100_000):\n    print('line', number)"
FLUSHED = "for number in range(10_000):\n    print('line', number, flush=True)"
PICTURES = """
import os
from IPython.display import Image, display
for _ in range({count}):
    display(Image(os.urandom(750_000), format="png"))
"""
IDLE_RUNTIMES, IDLE_SECONDS = 5, 60.0


class Side(NamedTuple):
    """A server, its folder, and how a page connects there."""

    server: Server
    folder: Path
    kernel: str
    after: str | None

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        answer = httpx.request(method, self.server.url + path, headers=self.server.headers, timeout=120, **more)
        return answer.raise_for_status()

    def open(self, name: str) -> str:
        """The kernel of a notebook, started where it has none."""
        body = {"path": name, "name": name, "type": "notebook", "kernel": {"name": self.kernel}}
        kernel: str = self.ask("POST", "/api/sessions", json=body).json()["kernel"]["id"]
        return kernel

    def channel(self, kernel: str, after: str | None = None) -> Channel:
        return Channel(self.server, kernel, after or self.after)


def journal_rows(rounds: int) -> list[dict[str, Any]]:
    """Every pair of the journal."""
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        _without_limit(folders[1])
        mine = Side(stack.enter_context(ours(folders[0])), folders[0], OURS, "now")
        other = Side(stack.enter_context(plain(folders[1])), folders[1], THEIRS, None)
        both = (mine, other)
        rows = [
            row("100,000 prints to the page / plain", _timed(both, PRINTS, rounds), "1.1"),
            row("10,000 prints with flush / plain", _timed(both, FLUSHED, max(1, rounds // 3)), "1.1"),
            row("200 MB of pictures to the page / plain", _timed(both, PICTURES.format(count=200), rounds), "1.15"),
        ]
        first, again, saved = _reopened(both, rounds)
        rows.append(row("reopen a notebook with 50 MB of outputs, saved / plain", saved, "1.2"))
        rows.append(row("the same, unsaved, its journal read before / plain, saved", again, "1.2"))
        rows.append(row("the same, unsaved, for the first time / plain, saved", first, "1.2"))
        rows.append(row("idle with 5 open notebooks, all but kernels, % of a core / plain", [_idle(both)], "", "%"))
    return rows


def _without_limit(folder: Path) -> None:
    (folder / "config").mkdir()
    settings = {"ZMQChannelsWebsocketConnection": {"limit_rate": False}}
    (folder / "config" / "jupyter_server_config.json").write_text(json.dumps(settings))


def _timed(both: tuple[Side, Side], code: str, rounds: int) -> list[tuple[float, float]]:
    """Seconds from the request to the last message, on each side in turn."""
    with ExitStack() as stack:
        channels = []
        for side in both:
            kernel = side.open("timed.ipynb")
            channels.append(stack.enter_context(closing(side.channel(kernel))))
        for channel in channels:
            channel.run("print('warm')")
        pairs = [(_seconds(channels[0], code), _seconds(channels[1], code)) for _ in range(rounds)]
    if abs(channels[0].received / channels[1].received - 1) > 0.05:
        raise SystemExit(f"not the same was received: {[channel.received for channel in channels]} bytes")
    return pairs


def _seconds(channel: Channel, code: str) -> float:
    began = time.perf_counter()
    channel.run(code)
    return time.perf_counter() - began


def _reopened(both: tuple[Side, Side], rounds: int) -> list[list[tuple[float, float]]]:
    """GET, session, attach and socket: of outputs that no server has read yet, that one has, and that are in the file.

    Kernels are there on both sides before anything is timed, and plain's notebook has been opened once.
    """
    mine, other = both
    first, again, saved = [], [], []
    for number in range(rounds):
        name = f"outputs-{number}.ipynb"
        for side in both:
            _write(side, name)
            with closing(side.channel(side.open(name))) as channel:
                channel.run("print('warm')", "none")
        with closing(mine.channel(mine.open(name))) as channel:
            for at in range(50):
                channel.run(PICTURES.format(count=1), f"cell-{at}")
            unread = _reopen(mine, name)  # the journal is folded now; the files are in the system's cache
            _put(other, name, unread)
            _reopen(other, name)
            first.append((unread, _reopen(other, name)))
            again.append((_reopen(mine, name), _reopen(other, name)))
            _put(mine, name, unread)
            _reopen(mine, name)
            saved.append((_reopen(mine, name), _reopen(other, name)))
    return [[(ours.seconds, theirs.seconds) for ours, theirs in pairs] for pairs in (first, again, saved)]


def _write(side: Side, name: str) -> None:
    cell: dict[str, Any] = {"cell_type": "code", "metadata": {}, "source": "", "execution_count": None, "outputs": []}
    cells = [{**cell, "id": f"cell-{at}"} for at in range(50)]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (side.folder / name).write_text(json.dumps(notebook), encoding="utf-8")


class Reopened(NamedTuple):
    """How long it took, and what was there."""

    seconds: float
    content: dict[str, Any]
    position: str


def _reopen(side: Side, name: str) -> Reopened:
    began = time.perf_counter()
    contents = side.ask("GET", f"/api/contents/{name}?type=notebook&content=1")
    kernel = side.open(name)
    position, after = contents.headers.get("X-Ownlab-Position", ""), None
    if side.after is not None:
        number = position.partition("/")[2] or "0"
        after = str(side.ask("GET", f"/ownlab/api/runtimes/{kernel}/attach?after={number}").json()["position"])
    side.channel(kernel, after).close()
    took = time.perf_counter() - began
    if len(contents.content) < 50_000_000:
        raise SystemExit(f"only {len(contents.content)} bytes of 50 MB came back")
    return Reopened(took, contents.json()["content"], position)


def _put(side: Side, name: str, reopened: Reopened) -> None:
    body = {"type": "notebook", "format": "json", "content": reopened.content}
    seen = {"X-Ownlab-Seen": reopened.position} if side.after is not None else {}
    headers = {**side.server.headers, **seen}
    httpx.put(f"{side.server.url}/api/contents/{name}", json=body, headers=headers, timeout=120).raise_for_status()


def _idle(both: tuple[Side, Side]) -> tuple[float, float]:
    """Percent of a core of all processes but the kernels, with notebooks open in a page."""
    with ExitStack() as stack:
        for side in both:
            for number in range(IDLE_RUNTIMES):
                channel = stack.enter_context(closing(side.channel(side.open(f"idle-{number}.ipynb"))))
                channel.run("print('warm')")
        time.sleep(5)  # what starting them still costs is not idling
        families = [_family(side) for side in both]
        before = [_spent(family) for family in families]
        time.sleep(IDLE_SECONDS)
        one, other = (
            100 * (_spent(family) - began) / IDLE_SECONDS for family, began in zip(families, before, strict=True)
        )
    return one, other


def _family(side: Side) -> list[psutil.Process]:
    return [
        server_of(side.server),
        *filter(lambda process: _supervises(process, str(side.folder)), psutil.process_iter()),
    ]


def _spent(family: list[psutil.Process]) -> float:
    times = [process.cpu_times() for process in family]
    return float(sum(spent.user + spent.system for spent in times))


if __name__ == "__main__":
    print(json.dumps(journal_rows(int(sys.argv[1]) if len(sys.argv) > 1 else 5), indent=1))

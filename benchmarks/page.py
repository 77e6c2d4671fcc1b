"""What somebody waits for in the browser beside plain JupyterLab, in one Chromium with a warm cache.

The page alone, a notebook until its first cell can be edited, and from the address to the first result: plain JupyterLab
starts a kernel when the notebook is opened, and drops a cell that is run before the kernel answers, so it is run as soon as
it does; ours starts the runtime when the cell is run.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from benchmarks.forms import find_chromium, without_ownlab
from benchmarks.lab import OURS, THEIRS, Server, ours, plain
from benchmarks.rows import row
from playwright.sync_api import BrowserContext, sync_playwright

__all__ = ["page_rows"]

CELLS = 50
NAME = "first.ipynb"
_STARTED = "#main .lm-Widget.jp-Launcher:visible, #main .ownlab-Start:visible"


def page_rows(rounds: int) -> list[dict[str, Any]]:
    """Seconds until the page is there, the notebook can be edited, and its first cell has a result."""
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(3)]
        without_ownlab(folders[1])
        servers = []
        for folder, start, kernel in ((folders[0], ours, OURS), (folders[1], plain, THEIRS)):
            (folder / NAME).write_text(json.dumps(_notebook(kernel)), encoding="utf-8")
            servers.append(stack.enter_context(start(folder)))
        playwright = stack.enter_context(sync_playwright())
        context = playwright.chromium.launch_persistent_context(
            folders[2], executable_path=find_chromium(), args=["--no-sandbox"], viewport={"width": 1600, "height": 900}
        )
        stack.callback(context.close)
        _round(context, servers)  # it fills caches
        taken = [_round(context, servers) for _ in range(rounds)]
    whats = (
        "the page / plain",
        f"a notebook of {CELLS} cells, until it can be edited / plain",
        "the same, to the first result / plain",
    )
    return [
        row(f"Chromium: {what}", [(mine[number], peer[number]) for mine, peer in taken], "1.2")
        for number, what in enumerate(whats)
    ]


def _round(context: BrowserContext, servers: list[Server]) -> list[tuple[float, float, float]]:
    return [
        (_lab(context, server), *_notebook_to_result(context, server, wait_for_kernel=number == 1))
        for number, server in enumerate(servers)
    ]


def _lab(context: BrowserContext, server: Server) -> float:
    """Seconds from the address of the lab to its launcher or start page."""
    page = context.new_page()
    began = time.perf_counter()
    page.goto(f"{server.url}/lab?reset&token={server.token}")
    page.wait_for_selector(_STARTED)
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    took = time.perf_counter() - began
    page.close()
    return took


def _notebook_to_result(context: BrowserContext, server: Server, *, wait_for_kernel: bool) -> tuple[float, float]:
    """Seconds to the first cell, and to its result; then the kernel ends, so that the next visit starts one again."""
    page = context.new_page()
    page.set_default_timeout(60_000)
    began = time.perf_counter()
    page.goto(f"{server.url}/lab/tree/{NAME}?reset&token={server.token}")
    cell = page.locator(".jp-Notebook .jp-CodeCell").first
    cell.locator(".cm-content").wait_for()
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    shown = time.perf_counter() - began
    if wait_for_kernel:
        page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
    cell.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    cell.locator(".jp-OutputArea-output", has_text="42").wait_for()
    result = time.perf_counter() - began
    page.close()
    for session in httpx.get(f"{server.url}/api/sessions", headers=server.headers).json():
        httpx.delete(
            f"{server.url}/api/sessions/{session['id']}", headers=server.headers, timeout=60
        ).raise_for_status()
    return shown, result


def _notebook(kernel: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [
        {**cell, "id": f"cell-{number}", "source": "print(6 * 7)" if number == 0 else f"value = {number}\nvalue"}
        for number in range(CELLS)
    ]
    spec = {"name": kernel, "display_name": kernel, "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}


if __name__ == "__main__":
    print(json.dumps(page_rows(int(sys.argv[1]) if len(sys.argv) > 1 else 5), indent=1))

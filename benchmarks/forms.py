"""Forms beside plain JupyterLab, in one Chromium: a notebook of 500 cells, 100 of them with two fields, opened and scrolled.

Both pages get the same notebook; in plain JupyterLab, where our extension is switched off, a form is a comment.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.lab import OURS, THEIRS, Server, ours, plain
from benchmarks.rows import row
from playwright.sync_api import Browser, Page, sync_playwright

__all__ = ["find_chromium", "forms_rows", "without_ownlab"]

CELLS, EACH = 500, 5
FORM = """\
#@title Step {number}
#@markdown What **this** is for.
name = "step {number}" #@param {{type:"string"}}
rate = 0.{number} #@param {{type:"slider", min:0, max:1, step:0.001}}
print(name, rate)"""
CODE = "for number in range({number}):\n    print(number, {number})\n"

# Cells are drawn while nobody does anything, a few at a time.
_DRAWN = "count => document.querySelectorAll('.jp-Notebook-cell .cm-content').length === count"
_SCROLL = """async () => {
  const frame = () => new Promise(resolve => requestAnimationFrame(resolve));
  const cells = [...document.querySelectorAll('.jp-Notebook-cell')];
  const began = performance.now();
  for (const way of [cells, [...cells].reverse()]) {
    for (let at = 0; at < way.length; at += 5) {
      way[at].scrollIntoView();
      await frame();
      await frame();
    }
  }
  return (performance.now() - began) / 1000;
}"""


def forms_rows(rounds: int) -> list[dict[str, Any]]:
    """Every pair of the forms: a round of these takes as long as three of others."""
    rounds = max(1, rounds // 3)
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        without_ownlab(folders[1])
        servers = []
        for folder, start, kernel in ((folders[0], ours, OURS), (folders[1], plain, THEIRS)):
            (folder / "many.ipynb").write_text(json.dumps(_notebook(kernel)), encoding="utf-8")
            servers.append(stack.enter_context(start(folder)))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        stack.callback(browser.close)
        _pair(browser, servers)  # it fills caches
        taken = [_pair(browser, servers) for _ in range(rounds)]
        # A page's start varies most, and takes least.
        firsts = [
            [times[0] for times in pair] for pair in taken + [_pair(browser, servers, False) for _ in range(2 * rounds)]
        ]
    what = "500 cells with 200 fields / plain"
    return [
        row(f"first cell shown: {what}", [(mine, peer) for mine, peer in firsts], "1.2"),
        row(f"all 500 cells drawn: {what}", [(mine[1], peer[1]) for mine, peer in taken], "1.2"),
        row(f"scrolled through and back: {what}", [(mine[2], peer[2]) for mine, peer in taken], "1.2"),
    ]


def _pair(browser: Browser, servers: list[Server], whole: bool = True) -> list[tuple[float, float, float]]:
    return [_visit(browser, server, forms=number == 0, whole=whole) for number, server in enumerate(servers)]


def _visit(browser: Browser, server: Server, *, forms: bool, whole: bool) -> tuple[float, float, float]:
    """Seconds to the first cell (with its form), to all of them, and for scrolling; the last two only of a whole visit."""
    context = browser.new_context(viewport={"width": 1600, "height": 900})
    page = context.new_page()
    page.set_default_timeout(180_000)
    began = time.perf_counter()
    page.goto(f"{server.url}/lab/tree/many.ipynb?reset&token={server.token}")
    page.wait_for_selector(".jp-Notebook-cell .cm-content" if not forms else ".ownlab-Form-entry")
    first = time.perf_counter() - began
    if not whole:
        context.close()
        return first, 0.0, 0.0
    page.wait_for_function(_DRAWN, arg=CELLS)
    drawn = time.perf_counter() - began
    if forms != (page.locator(".ownlab-Form-entry").count() == 2 * CELLS // EACH):
        raise SystemExit(f"{server.url} shows {page.locator('.ownlab-Form-entry').count()} fields")
    scrolled = _scrolled(page)
    context.close()
    return first, drawn, scrolled


def _scrolled(page: Page) -> float:
    took: float = page.evaluate(_SCROLL)
    return took


def _notebook(kernel: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [
        {**cell, "id": f"cell-{number}", "source": (CODE if number % EACH else FORM).format(number=number)}
        for number in range(CELLS)
    ]
    spec = {"name": kernel, "display_name": kernel, "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}


def without_ownlab(folder: Path) -> None:
    """Switch our extension off for a plain server of this folder, if its environment has it."""
    (folder / "config" / "labconfig").mkdir(parents=True)
    disabled = {"disabledExtensions": {"ownlab": True}}
    (folder / "config" / "labconfig" / "page_config.json").write_text(json.dumps(disabled))


def find_chromium() -> str:
    """Return the path of the system's Chromium."""
    path = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if path is None:
        raise SystemExit("Chromium is not installed")
    return path


if __name__ == "__main__":
    print(json.dumps(forms_rows(int(sys.argv[1]) if len(sys.argv) > 1 else 5), indent=1))

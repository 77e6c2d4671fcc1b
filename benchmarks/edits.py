"""The cost of saving one keystroke in a notebook with 50 MB of outputs: a patch of ours, the whole notebook in JupyterLab.

Ours is acknowledged once it is on the disk; the file itself is written when editing rests.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from benchmarks.journal import Side
from benchmarks.lab import OURS, THEIRS, ours, plain
from benchmarks.rows import row

__all__ = ["edits_rows"]

NAME = "edited.ipynb"
CELLS = 50
LIMIT = "0.01"


def edits_rows(rounds: int) -> list[dict[str, Any]]:
    """Bytes that the page sends, and seconds until the server has acknowledged."""
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2)]
        mine = Side(stack.enter_context(ours(folders[0])), folders[0], OURS, "now")
        other = Side(stack.enter_context(plain(folders[1])), folders[1], THEIRS, None)
        notebook = _notebook()
        for side in (mine, other):
            (side.folder / NAME).write_text(json.dumps(notebook), encoding="utf-8")
        patches, saves = _Patches(mine), _Saves(other)
        patches.type("="), saves.type("=")  # the first edit of ours starts the log
        pairs = [(patches.type(letter), saves.type(letter)) for letter in "learning rate, and so on"[:rounds]]
    return [
        row(
            "one keystroke in a notebook with 50 MB of outputs, sent / plain",
            [(one[0] / 1000, two[0] / 1000) for one, two in pairs],
            LIMIT,
            "kB",
        ),
        row(
            "the same, until it is saved / plain",
            [(one[1], two[1]) for one, two in pairs],
            LIMIT,
        ),
    ]


def _notebook() -> dict[str, Any]:
    cells = []
    for number in range(CELLS):
        picture = {"image/png": base64.b64encode(os.urandom(750_000)).decode(), "text/plain": "<Image>"}
        output = {"output_type": "display_data", "data": picture, "metadata": {}}
        cell = {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "source": "x", "execution_count": 1}
        cells.append({**cell, "outputs": [output]})
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def _client(side: Side) -> httpx.Client:
    """One connection that stays open, as a page has."""
    return httpx.Client(base_url=side.server.url, headers=side.server.headers, timeout=120, trust_env=False)


class _Patches:
    """A page of ours."""

    def __init__(self, side: Side) -> None:
        self._client, self._page, self._number, self._text = _client(side), uuid.uuid4().hex, 0, "x"
        opened = self._client.get(f"/api/contents/{NAME}?type=notebook&content=1").raise_for_status()
        self._version = int(opened.headers["X-Ownlab-Version"])

    def type(self, letter: str) -> tuple[int, float]:
        """Type a letter into a cell. Return bytes and seconds."""
        before, self._text, self._number = self._text, self._text + letter, self._number + 1
        cell = {"id": "cell-7", "type": "code", "source": {"base": before, "text": self._text}}
        body = {"notebook": NAME, "page": self._page, "number": self._number, "version": self._version, "seen": None}
        body |= {"cells": [cell], "deleted": {}, "order": None, "metadata": None}
        data = json.dumps(body).encode()
        began = time.perf_counter()
        answer = self._client.post("/ownlab/api/notebooks/edits", content=data).raise_for_status()
        took = time.perf_counter() - began
        self._version = answer.json()["version"]
        return len(data), took


class _Saves:
    """A page of JupyterLab: it sends everything."""

    def __init__(self, side: Side) -> None:
        self._client = _client(side)
        opened = self._client.get(f"/api/contents/{NAME}?type=notebook&content=1").raise_for_status()
        self._content = opened.json()["content"]

    def type(self, letter: str) -> tuple[int, float]:
        """Type a letter into a cell, and save. Return bytes and seconds."""
        self._content["cells"][7]["source"] += letter
        data = json.dumps({"type": "notebook", "format": "json", "content": self._content}).encode()
        began = time.perf_counter()
        self._client.put(f"/api/contents/{NAME}", content=data).raise_for_status()
        return len(data), time.perf_counter() - began


if __name__ == "__main__":
    print(json.dumps(edits_rows(int(sys.argv[1]) if len(sys.argv) > 1 else 5), indent=1))

"""Notebooks to run, in a lab of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lab.runtimes.conftest import lab, row  # noqa: F401  # fixtures

Write = Callable[..., Path]


def code(source: str | list[str], *tags: str, **more: Any) -> dict[str, Any]:
    """Return a code cell that was run before."""
    old = {"output_type": "stream", "name": "stdout", "text": "from an earlier run"}
    metadata = {"tags": list(tags)} if tags else {}
    return {
        "cell_type": "code", "metadata": metadata, "source": source, "outputs": [old], "execution_count": 7, **more,
    }  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a notebook and return its path. A string is a code cell."""

    def make(name: str, *cells: str | dict[str, Any], **metadata: Any) -> Path:
        path = tmp_path / "work" / name
        path.parent.mkdir(exist_ok=True)
        made = [code(cell) if isinstance(cell, str) else cell for cell in cells]
        path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": metadata, "cells": made}))
        return path

    return make


def printed(path: Path | str) -> list[str]:
    """Return what each code cell of a notebook shows."""
    cells = json.loads(Path(path).read_text())["cells"]
    return [_shown(cell["outputs"]) for cell in cells if cell["cell_type"] == "code"]


def _shown(outputs: list[dict[str, Any]]) -> str:
    found = []
    for output in outputs:
        text = output.get("text") or output.get("data", {}).get("text/plain") or output.get("ename", "")
        found.append("".join(text))
    return "".join(found)

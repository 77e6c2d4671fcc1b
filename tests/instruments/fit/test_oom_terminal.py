"""Explanations of out-of-memory messages in the terminal, as golden files. `make golden` rewrites them."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from ownlab.instruments.fit.oom import explain_oom
from ownlab.instruments.fit.oom_terminal import show_oom

TESTS = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["torch-1.3-optimizer", "torch-2.1-fragmented", "torch-2.2-full", "linux-oom-killer"])
def test_golden_oom(name: str) -> None:
    sheet = io.StringIO()
    text = (TESTS / "oom" / f"{name}.txt").read_text().partition("\n\n")[2]
    show_oom(explain_oom(text), Console(file=sheet, width=100, highlight=False, color_system=None))
    shown = "".join(f"{line.rstrip()}\n" for line in sheet.getvalue().splitlines())
    path = TESTS / "golden" / f"oom-{name}.txt"
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        path.write_text(shown)
    assert shown == path.read_text()

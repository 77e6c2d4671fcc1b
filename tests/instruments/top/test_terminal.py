"""The output of `ownlab top --once`, kept as a file: read it as a newcomer would. `make golden` rewrites it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console
from tests.instruments.top.scenes import scene

from ownlab.instruments.top.records import TopReading
from ownlab.instruments.top.terminal import show_reading
from ownlab.instruments.top.verdict_window import Window

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "top"


@pytest.mark.parametrize("width", [80, 10_000])
@pytest.mark.parametrize("kinds", [("product", "small"), ("old", "idle"), ()])
def test_golden_table(kinds: tuple[str, ...], width: int) -> None:
    window = Window(30.0)
    samples = scene(40, *kinds)
    for each in samples:
        window.add(each)
    sheet = io.StringIO()
    show_reading(
        TopReading(samples[-1], window.verdicts()), Console(file=sheet, width=width, highlight=False, color_system=None)
    )
    shown = "".join(f"{line.rstrip()}\n" for line in sheet.getvalue().splitlines())
    path = GOLDEN / f"{'-'.join(kinds) or 'no-gpu'}-{'pipe' if width > 1000 else width}.txt"
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown)
    assert shown == path.read_text()

"""The terminal's console: what is printed is text, whatever it says."""

from __future__ import annotations

import pytest
from rich.text import Text

from ownlab.render.console import console, labelled


def test_no_name_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    out = console()
    out.print(Text("a\x1b[2Jb\x9bc\nd ½", style="bold"))
    labelled(out, "held by", "pid 7 (\x1b]0;x\x07)")
    sign = "\N{REPLACEMENT CHARACTER}"
    assert capsys.readouterr().out == f"a{sign}[2Jb{sign}c\nd ½\n  held by   pid 7 ({sign}]0;x)\n"

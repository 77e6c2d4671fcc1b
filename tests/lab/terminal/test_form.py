"""Forms in the terminal, compared with a golden file; `make golden` rewrites it."""

from __future__ import annotations

import io
import os
from pathlib import Path

from rich.console import Console

from ownlab.lab.forms.notebook_forms import find_forms
from ownlab.lab.terminal.form import show_forms

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "forms" / "narrow.txt"

STRINGS = """#@title ## Strings { display-mode: "form" }
text = "value" #@param {type:"string"}
model_name_or_path = "gpt2" #@param ["gpt2", "distilgpt2", "EleutherAI/gpt-neo-125m", "microsoft/phi-2"] {allow-input: true}
nothing = #@param {type:"string"}
"""
NUMBERS = """#@title Numbers
a_name_that_is_longer_than_any_column_should_be = 1 #@param {type:"integer", min:1}
rate = 3e-4 #@param {type:"number"}
size = 0 #@param {type:"slider", min:-1, max:1, step:0.1}
raw = None #@param
day = "2018-03-22" #@param {type:"date"}
ready = True #@param {type:"boolean"}
"""


def test_golden_forms() -> None:
    sheet = io.StringIO()
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in (STRINGS, "1", NUMBERS)]
    show_forms(
        "train.ipynb", find_forms({"cells": cells}), Console(file=sheet, width=72, highlight=False, color_system=None)
    )
    shown = "".join(f"{line.rstrip()}\n" for line in sheet.getvalue().splitlines())
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(shown)
    assert shown == GOLDEN.read_text()

"""The last numbers that a run has printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ownlab.lab.sweeps.metrics import last_metrics, printed_by_notebook, printed_to_file


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("epoch 1: loss=0.5\nepoch 2: loss=0.25 val/acc: 91.5%\nsaved\n", {"loss": 0.25, "val/acc": 91.5}),
        ("\x1b[32mloss\x1b[0m = 1e-3", {"loss": 0.001}),
        (" 10%| loss=3\r100%|######| loss=.5", {"loss": 0.5}),
        ("loss=nan\n", {}),
        ("at 12:30:01 host:8080/x v1.2=3a\n", {}),
        ("https://host:80/x=y", {}),
        ("", {}),
    ],
)
def test_the_last_line_with_numbers_counts(printed: str, expected: dict[str, float]) -> None:
    assert last_metrics(printed) == expected


def test_a_notebook_has_what_its_cells_printed(tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["loss=2\n", "loss=1\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "accuracy: 0.5"}},
        {"output_type": "display_data", "data": {"image/png": "AAAA"}},
    ]
    cells = [{"cell_type": "markdown", "source": "x=1"}, {"cell_type": "code", "outputs": outputs}]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    assert last_metrics(printed_by_notebook(str(path))) == {"accuracy": 0.5}
    path.write_text("{")
    assert printed_by_notebook(str(path)) == printed_by_notebook("/nothing") == printed_to_file("/nothing") == ""

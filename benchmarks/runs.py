"""`ownlab run` beside `jupyter execute`: the same notebook of 100 cells, from the command to its end, outputs written."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.lab import environment
from benchmarks.rows import row

CELLS = 100


def runs_rows(rounds: int) -> list[dict[str, Any]]:
    """One pair."""
    with tempfile.TemporaryDirectory() as folder:
        return [_hundred_cells(Path(folder), rounds)]


def _hundred_cells(folder: Path, rounds: int) -> dict[str, Any]:
    notebook = folder / "hundred.ipynb"
    notebook.write_text(json.dumps(_notebook()))
    env = {**environment(folder), "OWNLAB_KERNELS": str(folder / "kernels")}
    ours = [sys.executable, "-m", "ownlab", "run", str(notebook), "-o", str(folder / "ours.ipynb"), "--force"]
    theirs = [sys.executable, "-m", "jupyter", "execute", "--kernel_name=python3", "--output=theirs", str(notebook)]
    _seconds(ours, env), _seconds(theirs, env)  # caches warm for both; the list of runtime types is written
    pairs = [(_seconds(ours, env), _seconds(theirs, env)) for _ in range(rounds)]
    for name in ("ours", "theirs"):
        _check(folder / f"{name}.ipynb")
    return row(f"`ownlab run` of {CELLS} cells / `jupyter execute`", pairs, "1.1")


def _notebook() -> dict[str, Any]:
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "source": f"print({number})\n{number} * 2",
            "outputs": [],
            "execution_count": None,
        }
        for number in range(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def _seconds(command: list[str], env: dict[str, str]) -> float:
    began = time.perf_counter()
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if ran.returncode:
        raise SystemExit(f"{command} ended with {ran.returncode}:\n{ran.stderr}")
    return took


def _check(path: Path) -> None:
    """Nobody is quick by leaving something out."""
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        printed = "".join(part for output in cell["outputs"] for part in output.get("text", ()))
        results = ["".join(output["data"]["text/plain"]) for output in cell["outputs"] if "data" in output]
        if printed != f"{number}\n" or results != [str(number * 2)]:
            raise SystemExit(f"{path} does not hold what its cell {number} shows: {cell['outputs']}")

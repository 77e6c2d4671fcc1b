"""`jupyter execute`, papermill and nbclient use runtimes as any kernel, on fake cards, and leave nothing behind."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat as untyped
import pytest
from nbclient import NotebookClient

nbformat: Any = untyped

PRINTS = "import os; print('sees', os.environ['CUDA_VISIBLE_DEVICES'])"
SLEEPS = "print('at work', flush=True); import time; time.sleep(600)"


@pytest.fixture
def notebook(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, *cells: str, kernel: str = "ownlab-cpu") -> Path:
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        made.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
        nbformat.write(made, tmp_path / name)
        return tmp_path / name

    return write


def outputs(path: Path) -> str:
    read = nbformat.read(path, as_version=4)
    return "".join(output.get("text", "") for cell in read.cells for output in cell.get("outputs", ()))


def papermill(lab: Any, source: Path, target: Path, kernel: str) -> list[str]:
    return [sys.executable, "-m", "papermill", "-k", kernel, "--no-progress-bar", str(source), str(target)]


def test_jupyter_execute_runs_on_a_card(lab: Any, notebook: Callable[..., Path]) -> None:
    path = notebook("a.ipynb", PRINTS, kernel=lab.card)
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", str(path)]
    subprocess.run(command, check=True, env=lab.environ, timeout=300, capture_output=True)
    assert outputs(path) == "sees 0\n"
    assert lab.left() == {}


def test_papermill_runs_on_a_card(lab: Any, notebook: Callable[..., Path], tmp_path: Path) -> None:
    command = papermill(lab, notebook("a.ipynb", PRINTS), tmp_path / "b.ipynb", lab.card)
    subprocess.run(command, check=True, env=lab.environ, timeout=300, capture_output=True)
    assert outputs(tmp_path / "b.ipynb") == "sees 0\n"
    assert lab.left() == {}


def test_the_runtime_of_a_killed_papermill_ends(
    lab: Any, notebook: Callable[..., Path], tmp_path: Path, until: Callable[..., Any]
) -> None:
    command = papermill(lab, notebook("a.ipynb", SLEEPS), tmp_path / "b.ipynb", lab.card)
    ran = subprocess.Popen(command, env=lab.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: lab.leases() and [row for row in lab.rows() if row.busy])
    finally:
        ran.send_signal(signal.SIGKILL)
        ran.wait()
    until(lambda: lab.left() == {})


def test_papermill_reports_who_holds_the_cards(lab: Any, notebook: Callable[..., Path], tmp_path: Path) -> None:
    holder = NotebookClient(nbformat.read(notebook("a.ipynb", PRINTS), as_version=4), kernel_name=lab.all)
    with holder.setup_kernel():
        (row,) = lab.rows()
        command = papermill(lab, notebook("b.ipynb", PRINTS), tmp_path / "c.ipynb", lab.card)
        ran = subprocess.run(command, check=False, env=lab.environ, timeout=300, capture_output=True, text=True)
    assert ran.returncode != 0
    assert "CardsTaken" in ran.stderr
    for card in range(4):
        assert f"card {card}" in ran.stderr
    assert f"{row.person}, {row.label}, since" in ran.stderr
    assert lab.left() == {}


def test_two_at_once_get_different_cards(lab: Any, tmp_path: Path) -> None:
    meet = """
import os, pathlib, time
pathlib.Path(os.environ["OWNLAB_RUNTIME"] + ".here").touch()
deadline = time.monotonic() + 180
while len(list(pathlib.Path(".").glob("*.here"))) < 2 and time.monotonic() < deadline:
    time.sleep(0.02)
print(os.environ["CUDA_VISIBLE_DEVICES"])
"""

    async def run() -> str:
        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(meet)])
        client = NotebookClient(made, kernel_name=lab.card, resources={"metadata": {"path": str(tmp_path)}})
        await client.async_execute()
        return str(made.cells[0].outputs[0].text).strip()

    async def both() -> list[str]:
        return list(await asyncio.gather(run(), run()))

    assert sorted(asyncio.run(both())) == ["0", "1"]
    assert lab.left() == {}

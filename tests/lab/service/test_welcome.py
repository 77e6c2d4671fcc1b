"""The welcome notebook: where it is created, and that it runs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from ownlab.lab.runtimes.runtime_types import refresh_specs
from ownlab.lab.service.welcome import WELCOME, has_notebooks, place_welcome

MACHINES = Path(__file__).resolve().parents[2] / "machines"


def test_it_is_created_in_a_folder_without_notebooks(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("")
    assert place_welcome(str(tmp_path))
    assert not place_welcome(str(tmp_path))


@pytest.mark.parametrize("place", ["a.ipynb", "notebooks/a.ipynb", WELCOME])
def test_it_is_not_created_next_to_other_notebooks(tmp_path: Path, place: str) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / place).write_text("theirs")
    assert has_notebooks(str(tmp_path))
    assert not place_welcome(str(tmp_path))
    assert (tmp_path / place).read_text() == "theirs"


def test_it_is_a_valid_notebook_without_outputs(tmp_path: Path) -> None:
    place_welcome(str(tmp_path))
    written = json.loads((tmp_path / WELCOME).read_text())
    nbformat.validate(written)
    assert (written["nbformat"], written["nbformat_minor"]) == (4, 5)
    assert written["metadata"]["kernelspec"]["name"] == "python3"
    assert len({cell["id"] for cell in written["cells"]}) == len(written["cells"])
    assert [cell["outputs"] for cell in written["cells"] if cell["cell_type"] == "code"] == [[], []]


def test_it_runs_on_an_ownlab_runtime(tmp_path: Path) -> None:
    place_welcome(str(tmp_path))
    named = {"OWNLAB_HOME": "home", "OWNLAB_STORE": "store", "OWNLAB_CONFIG": "config.toml"}
    named |= {"OWNLAB_KERNELS": "share/jupyter/kernels", "JUPYTER_PATH": "share/jupyter", "IPYTHONDIR": "ipython"}
    environ = {**os.environ, **{name: str(tmp_path / place) for name, place in named.items()}}
    environ["OWNLAB_MACHINE"] = str(MACHINES / "gtx1080ti-x4.json")
    refresh_specs(environ)
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", "--kernel_name=ownlab-cpu", WELCOME]
    ran = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    cells = {cell["id"]: cell for cell in json.loads((tmp_path / WELCOME).read_text())["cells"]}
    found, timed = (
        "".join(*(out["text"] for out in cells[name]["outputs"])) for name in ("find-device", "time-product")
    )
    assert "This is a CPU runtime. If this machine has a GPU, choose another" in found
    if importlib.util.find_spec("torch") is None:
        assert "%pip install torch" in found
        assert "ownlab env add NAME --python PATH" in found
    assert "**Runtimes and cards.** This tab on the left" in "".join(cells["what-next"]["source"])
    assert "billion operations per second" in timed

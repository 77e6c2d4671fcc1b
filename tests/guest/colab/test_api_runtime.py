"""google.colab.runtime.unassign without a page, in a real runtime: `ownlab run` of a notebook that ends itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MACHINES = Path(__file__).parents[2] / "machines"


def test_a_notebook_ends_its_own_runtime(tmp_path: Path) -> None:
    places = {
        "OWNLAB_HOME": tmp_path / "home",
        "OWNLAB_STORE": tmp_path / "store",
        "OWNLAB_CONFIG": tmp_path / "config.toml",
        "OWNLAB_KERNELS": tmp_path / "share" / "kernels",
        "OWNLAB_MACHINE": MACHINES / "gtx1080ti-x4.json",
        "JUPYTER_PATH": tmp_path / "share",
        "IPYTHONDIR": tmp_path / "ipython",
    }
    environ = {**os.environ, **{name: str(path) for name, path in places.items()}}

    def ownlab(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ownlab", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=300
        )

    after = tmp_path / "after"
    sources = [
        (
            "from google.colab import runtime\nimport ownlab\nownlab.on_end(print, 'at its end')\n"
            f"print('saved'); runtime.unassign(); open({str(after)!r}, 'w')"
        ),
        f"open({str(after)!r}, 'w')",
    ]
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "source": each,
            "outputs": [],
            "execution_count": None,
        }
        for number, each in enumerate(sources)
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "ends.ipynb").write_text(json.dumps(notebook))
    ran = ownlab("run", "ends.ipynb", "--type", "ownlab-cpu")
    assert ran.returncode == 0, ran.stderr
    assert "The notebook ended its runtime: 1 of 2 cells was not run.\n" in ran.stderr
    assert "Done: 1 cell in" in ran.stdout
    assert not after.exists(), "nothing runs after it"
    answer = json.loads((tmp_path / "ends-run.ipynb").read_text())["cells"][0]["outputs"]
    assert answer[0]["text"] == ["saved\n", "at its end\n"]
    assert json.loads(ownlab("runtimes", "--json").stdout)["runtimes"] == []

"""`ownlab.watch` in a script, in a cell, and where ownlab is in another environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ownlab
from ownlab.errors import UsageError

TESTS = Path(__file__).resolve().parents[2]
GUEST = TESTS.parent / "src" / "ownlab_guest"
STREAM = {"OWNLAB_STREAM": str(TESTS / "streams" / "h200-bf16.ndjson")}

SCRIPT = """
import time, ownlab
with ownlab.watch(every=0.15) as w:
    print("inside")
    time.sleep(0.5)
w.report()
print(len(w.samples) >= 3, isinstance(w.samples[0], dict))
"""
# As the kernel's launcher leaves it in an environment without ownlab.
WITHOUT = """
import importlib.util, sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path and not path.endswith("src")]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in repr(finder).lower()]
spec = importlib.util.spec_from_file_location("ownlab_guest", {guest!r} + "/__init__.py", submodule_search_locations=[{guest!r}])
package = importlib.util.module_from_spec(spec)
sys.modules["ownlab_guest"] = package
spec.loader.exec_module(package)
sys.path.append({guest!r} + "/facade")
"""


def run(code: str, **environ: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environ},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_script_gets_the_verdict_of_its_block() -> None:
    said = run(SCRIPT, **STREAM)
    assert said.startswith("inside\n")
    assert "NVIDIA H200" in said
    assert "verdict" in said
    assert "tensor" in said
    assert said.endswith("True False\n")


def test_an_environment_without_ownlab_asks_the_host() -> None:
    said = run(WITHOUT.format(guest=str(GUEST)) + SCRIPT, OWNLAB_HOST=sys.executable, **STREAM)
    assert "NVIDIA H200" in said
    assert "verdict" in said
    assert said.endswith("True True\n")


def test_where_nobody_can_be_asked_it_is_said() -> None:
    code = WITHOUT.format(guest=str(GUEST)) + (
        "import ownlab\ntry:\n    with ownlab.watch(): pass\nexcept ownlab.OwnlabError as exc: print(exc)\n"
    )
    environ = {**os.environ, **STREAM}
    environ.pop("OWNLAB_HOST", None)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True)
    assert "needs ownlab in this environment" in ran.stdout


def test_a_machine_without_a_card_tells_of_its_host() -> None:
    with ownlab.watch(every=0.15) as watched:
        sum(range(10**6))
    assert watched.samples
    assert watched.summary().host.means["cpu"] >= 0


def test_a_cell_prints_text_and_one_that_ends_with_it_gets_a_drawing(tmp_path: Path) -> None:
    sources = ["import ownlab\nwith ownlab.watch() as w: pass\nw.report()", "w"]
    empty: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**empty, "id": str(number), "source": source} for number, source in enumerate(sources)]
    path = tmp_path / "watched.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    run(f"from nbclient.cli import main\nmain(['--inplace', '--kernel_name=python3', {str(path)!r}])", **STREAM)
    first, second = (cell["outputs"] for cell in json.loads(path.read_text())["cells"])
    assert {output["output_type"] for output in first} == {"stream"}
    assert "NVIDIA H200" in "".join(line for output in first for line in output["text"])
    (drawn,) = second
    assert "".join(drawn["data"]["text/plain"]).startswith("0: NVIDIA H200: ")
    assert drawn["data"]["application/vnd.vegalite.v5+json"]["$schema"]


def test_a_block_that_fails_is_watched_all_the_same() -> None:
    watched = ownlab.watch()
    with pytest.raises(ZeroDivisionError), watched:
        _ = 1 / 0
    assert len(watched.samples) == 1
    assert watched.samples[0].seconds is not None
    assert watched.samples[0].seconds > 0.1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="at least"):
        ownlab.watch(every=0.01)
    with pytest.raises(UsageError, match="nothing has been watched"):
        ownlab.watch().report()
    with ownlab.watch() as watched, pytest.raises(UsageError, match="already"):
        watched.__enter__()

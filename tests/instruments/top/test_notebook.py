"""`ownlab.watch` in a script and in a cell, with ownlab in the same environment and in another one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
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
    end = time.monotonic() + 180
    while len(w.samples) < 3 and time.monotonic() < end:
        time.sleep(0.05)
w.report()
print(len(w.samples) >= 3)
"""
# Everything that a notebook can see of `ownlab.watch`, without values that differ from run to run.
COMPARED = """
import json, time, ownlab
seen = {"errors": []}

def fails(call):
    try:
        call()
    except Exception as exc:
        names = [f"{kind.__module__}.{kind.__name__}" for kind in type(exc).__mro__]
        known = {name: repr(value) for name, value in vars(exc).items()}
        seen["errors"].append([names, str(exc), known, exc.exit_code, isinstance(exc, ownlab.OwnlabError)])

def shape(value):
    if hasattr(value, "__struct_fields__"):
        fields = {name: shape(getattr(value, name)) for name in value.__struct_fields__}
        return [f"{type(value).__module__}.{type(value).__name__}", fields]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, shape(value[0]) if value else None]
    return "str" if isinstance(value, str) else type(value).__name__

w = ownlab.watch(every=0.15)
seen["type"] = f"{type(w).__module__}.{type(w).__name__}"
seen["attributes"] = sorted(name for name in dir(w) if not name.startswith("_"))
seen["unused"] = [w.samples, list(w._repr_mimebundle_())]
fails(w.report)
fails(w.summary)
fails(lambda: ownlab.watch(every=0.01))
fails(lambda: ownlab.watch(0.01))
with w:
    fails(w.__enter__)
    end = time.monotonic() + 180
    while len(w.samples) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    seen["inside"] = [type(w.samples).__name__, type(w.summary()).__name__]
seen["report"] = w.report()
seen["samples"] = shape(w.samples)
seen["summary"] = shape(w.summary())
seen["owner"] = repr([process.owner for process in w.samples[-1].processes if process.owner])
seen["name"] = w.summary().cards[0].name
seen["verdicts"] = [span.code for span in w.summary().cards[0].spans]
bundle = w._repr_mimebundle_()
seen["bundle"] = {kind: type(value).__name__ for kind, value in bundle.items()}
seen["headline"] = bundle["text/plain"].split(" for ")[0]
seen["chart"] = [part["encoding"]["color"]["field"] for part in bundle["application/vnd.vegalite.v5+json"]["vconcat"]]
try:
    w.samples[0].at = 3
except AttributeError as exc:
    seen["immutable"] = str(exc)
try:
    with w:
        raise KeyError("inside")
except KeyError as exc:
    seen["raised"] = repr(exc)
seen["help"] = ownlab.watch.__doc__
print("SEEN" + json.dumps(seen))
"""
# An invalid recording is found when the block begins.
INVALID = """
import json, ownlab
try:
    with ownlab.watch(): pass
except ownlab.OwnlabError as exc:
    print("SEEN" + json.dumps([type(exc).__name__, exc.message, exc.hint, exc.exit_code]))
"""
# The path of a kernel whose environment has no ownlab, as the launcher sets it.
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
        timeout=300,
        env={**os.environ, **environ},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def run_without_ownlab(code: str, **environ: str) -> str:
    return run(WITHOUT.format(guest=str(GUEST)) + code, OWNLAB_HOST=sys.executable, **environ)


def split(output: str) -> tuple[str, Any]:
    printed, _, seen = output.rpartition("SEEN")
    return re.sub(r"[\d.:/]+( ([KMGT]i)?B)?", "0", printed), json.loads(seen)


@pytest.mark.parametrize("run_script", [run, run_without_ownlab])
def test_a_script_gets_the_verdict_on_its_block(run_script: Callable[..., str]) -> None:
    output = run_script(SCRIPT, **STREAM)
    assert output.startswith("inside\n")
    assert "NVIDIA H200" in output
    assert "verdict" in output
    assert "tensor" in output
    assert output.endswith("True\n")


def test_both_kinds_of_environment_give_the_same_types_displays_and_errors() -> None:
    printed, seen = split(run(COMPARED, **STREAM))
    assert (printed, seen) == split(run_without_ownlab(COMPARED, **STREAM))
    assert "NVIDIA H" in printed
    assert seen["type"] == "ownlab_guest.kernel.watch.Watch"
    assert seen["attributes"] == ["report", "samples", "summary"]
    assert {error[0][0] for error in seen["errors"]} == {"ownlab.errors.UsageError"}
    assert len(seen["errors"]) == 5
    assert seen["samples"][1][0] == "ownlab.instruments.top.records.Sample"
    assert seen["verdicts"] == ["tensor"]


def test_an_invalid_recording_is_the_same_error_in_both_kinds_of_environment(tmp_path: Path) -> None:
    (tmp_path / "notes.ndjson").write_text("notes")
    invalid = {"OWNLAB_STREAM": str(tmp_path / "notes.ndjson")}
    _, seen = split(run(INVALID, **invalid))
    assert seen[0] == "InputError"
    assert split(run_without_ownlab(INVALID, **invalid))[1] == seen


def test_without_ownlab_and_without_a_host_there_is_an_error() -> None:
    code = WITHOUT.format(guest=str(GUEST)) + (
        "import ownlab\ntry:\n    with ownlab.watch(): pass\nexcept ownlab.OwnlabError as exc: print(exc)\n"
    )
    environ = {**os.environ, **STREAM}
    environ.pop("OWNLAB_HOST", None)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True)
    assert "needs ownlab in this environment" in ran.stdout


def test_a_host_that_dies_is_reported_after_the_block() -> None:
    code = (
        "import ownlab\n"
        "with ownlab.watch() as w: w._sampling._child.kill()\n"
        "try: w.report()\n"
        "except ownlab.OwnlabError as exc: print(exc)\n"
    )
    assert run_without_ownlab(code, **STREAM) == "ownlab.watch: it ended with exit code -9\n"


def test_a_machine_without_a_card_reports_its_host() -> None:
    with ownlab.watch(every=0.15) as watched:
        sum(range(10**6))
    assert watched.samples
    assert watched.summary().host.means["cpu"] >= 0


def test_a_cell_prints_the_report_and_displays_a_chart(tmp_path: Path) -> None:
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


def test_a_block_that_fails_is_still_watched() -> None:
    watched = ownlab.watch()
    with pytest.raises(ZeroDivisionError), watched:
        _ = 1 / 0
    assert len(watched.samples) == 1
    assert watched.samples[0].seconds is not None
    assert watched.samples[0].seconds > 0.1


def test_wrong_use_is_refused() -> None:
    with pytest.raises(UsageError, match="at least"):
        ownlab.watch(every=0.01)
    with pytest.raises(UsageError, match="nothing has been watched"):
        ownlab.watch().report()
    with ownlab.watch() as watched, pytest.raises(UsageError, match="already"):
        watched.__enter__()

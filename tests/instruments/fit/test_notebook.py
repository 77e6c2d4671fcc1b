"""`ownlab.fit` and the magics in a process that has torch: with ownlab beside it, and where that is in another environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ownlab
from ownlab.errors import OwnlabError
from ownlab_guest.kernel.magics import _parse, register

ROOT = Path(__file__).resolve().parents[3]
KERNEL = ROOT / "src" / "ownlab_guest" / "kernel"
# As the kernel's launcher leaves it.
PREPARED = f"""
import sys
sys.path.insert(0, {str(KERNEL)!r})
import launch
launch.prepare_path()
"""
# Our own libraries last, as where everything is in one environment.
BESIDE = f"sys.path += {[str(ROOT / 'src'), *(one for one in sys.path if one.endswith('site-packages'))]!r}\n"
SCRIPT = """
import json, ownlab, torch
from torch import nn

net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10))
found = ownlab.fit(net, (512, 1024), nn.CrossEntropyLoss(), targets=(512, torch.long), batch="512..1024", cards="T4")
said = {"repr": repr(found), "bundle": found._repr_mimebundle_()}
found.report()
failed = []
for model, inputs, options in ((net, (8, 7), {}), (net, None, {}), (net, (8, 1024), {"cards": "nosuch"}), (net, (8, 1024), {"batch": 0})):
    try:
        ownlab.fit(model, inputs, **options)
    except Exception as exc:
        failed.append(str(exc))
record = found.record if isinstance(found.record, dict) else {"parameters": {"total": found.record.parameters.total}}
said.update(failed=failed, total=record["parameters"]["total"])
print("SAID" + json.dumps(said))
"""


@pytest.fixture(scope="module")
def torch_python() -> str:
    python = ROOT / ".venv-torch" / "bin" / "python"
    if not python.exists():
        pytest.skip("no .venv-torch: `scripts/setup test` makes it")
    return str(python)


def run(python: str, code: str, **environ: str) -> str:
    ran = subprocess.run(
        [python, "-c", PREPARED + code],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **environ},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def check(said: str) -> None:
    printed, _, last = said.rpartition("SAID")
    seen: dict[str, Any] = json.loads(last)
    assert printed.startswith(seen["repr"])
    assert "batch up to 1024" in printed
    assert "▲ peak" in printed
    assert seen["repr"].startswith("A step of training takes")
    assert seen["bundle"]["text/plain"] == printed
    chart = seen["bundle"]["application/vnd.vegalite.v5+json"]
    assert chart["title"]["text"] == "Sequential: memory over one step"
    assert seen["total"] == 1024 * 4096 + 4096 + 4096 * 10 + 10
    shape, inputs, card, batch = seen["failed"]
    assert "[8, 7] X [1024, 4096]" in shape
    assert "Give tensors or shapes" in inputs
    assert "nosuch" in card
    assert "neither a number nor a range" in batch


def test_an_environment_without_ownlab_asks_the_host(torch_python: str) -> None:
    check(run(torch_python, SCRIPT, OWNLAB_HOST=sys.executable))


def test_an_environment_with_ownlab_asks_nobody(torch_python: str) -> None:
    version = run(torch_python, "print('%d.%d' % sys.version_info[:2])").strip()
    if version != f"{sys.version_info[0]}.{sys.version_info[1]}":
        pytest.skip("its Python cannot load our libraries")
    check(run(torch_python, BESIDE + "sys.path = [one for one in sys.path if 'facade' not in one]\n" + SCRIPT))


def test_where_nobody_can_be_asked_it_is_said(torch_python: str) -> None:
    code = "import os, ownlab\nos.environ.pop('OWNLAB_HOST', None)\ntry: ownlab.fit(3)\nexcept RuntimeError as exc: print(exc)"
    assert "needs ownlab in this environment" in run(torch_python, code)


def test_a_kernel_without_torch_says_so() -> None:
    with pytest.raises(OwnlabError, match="no torch"):
        ownlab.fit(object(), (2, 4))
    with pytest.raises(ValueError, match="steps=1"):
        ownlab.fit(object(), (2, 4), steps=1)
    with pytest.raises(TypeError, match="bogus"):
        ownlab.fit(object(), bogus=1)


@pytest.mark.parametrize(
    ("line", "expressions", "options"),
    [
        ("net", ["net"], {}),
        ("net x", ["net", "x"], {}),
        ("net (8, 4)", ["net", "(8, 4)"], {}),
        ("nets[0] batch['x'] --infer", ["nets[0]", "batch['x']"], {"train": False}),
        ("make(3, 4) (8, 4)", ["make(3, 4)", "(8, 4)"], {}),
        ("make(3, 4)", ["make(3, 4)"], {}),
        ("net, (8, 4), loss --batch max", ["net", "(8, 4)", "loss"], {"batch": "max"}),
        ("net {'a': (8, 4)} --cards 'T4, h200'", ["net", "{'a': (8, 4)}"], {"cards": "T4, h200"}),
        ("net x --no-foreach --seq 64", ["net", "x"], {"foreach": False, "seq": 64}),
    ],
)
def test_a_line_of_the_magic(line: str, expressions: list[str], options: dict[str, Any]) -> None:
    assert _parse(line) == (expressions, options)


CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell, sys.stderr = InteractiveShell(), sys.stdout
for line in ("%load_ext ownlab", "%fit 3 (2, 4)", "%fit", "%fit a b c", "%fit 3 --bogus", "%fit nobody", "%doctor --explain no-accelerator"):
    print(">>>", line)
    shell.run_cell(line)
"""


def test_magics_say_what_is_wrong_in_a_line() -> None:
    said = run(sys.executable, CELLS, IPYTHONDIR=os.devnull)
    assert "no torch" in said
    assert "which model is meant" in said
    assert "neither a model nor a model and its inputs" in said
    assert "unrecognized arguments: --bogus" in said
    assert "name 'nobody' is not defined" in said
    assert "no-accelerator" in said.rpartition(">>>")[2].split("\n", 1)[1]
    assert said.count("Traceback") == 1  # of the name, which is the notebook's own


def test_the_magic_gives_what_the_notebook_has() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    make: Any = InteractiveShell
    shell, given = make(), []
    register(shell, lambda *args, **named: given.append((args, named)), ())
    shell.run_cell("a, b = 3, (4, 5)\n%fit a b --loss str --optimizer sgd")
    assert given == [((3, (4, 5)), {"loss": str, "optimizer": "sgd"})]

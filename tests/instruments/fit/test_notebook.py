"""`ownlab.fit` and the magics in a process that has torch, with and without ownlab in its environment."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.prepared_python import BESIDE, run

import ownlab
from ownlab.errors import OwnlabError
from ownlab.instruments.fit.calibration import Calibration, Context, save_calibration
from ownlab.instruments.fit.records import Device
from ownlab.units import GIB, MIB
from ownlab_guest.kernel.magics import _parse, register

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import json, ownlab, torch
from torch import nn

net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 10))
prediction = ownlab.fit(net, (512, 1024), nn.CrossEntropyLoss(), targets=(512, torch.long), batch="512..1024", cards="T4")
prediction.report()
record = prediction.record
seen = {
    "types": [f"{type(value).__module__}.{type(value).__name__}" for value in (prediction, record, record.cards[0], record.cards, record.timeline.held)],
    "attributes": [sorted(name for name in dir(value) if not name.startswith("_")) for value in (prediction, record.peak)],
    "fields": record.__struct_fields__,
    "record": repr(record),
    "property": record.flops.total,
    "repr": repr(prediction),
    "bundle": prediction._repr_mimebundle_(),
    "calibrated": record.cards[0].calibrated,
    "errors": [],
}
try:
    record.batch = 3
except AttributeError as exc:
    seen["immutable"] = str(exc)
for inputs, options in (((8, 7), {}), (None, {}), ((8, 1024), {"cards": "nosuch"}), ((8, 1024), {"batch": 0}), ((8, 1024), {"steps": 1}), ((8, 1024), {"bogus": 1})):
    try:
        ownlab.fit(net, inputs, **options)
    except Exception as exc:
        names = [f"{kind.__module__}.{kind.__name__}" for kind in type(exc).__mro__]
        known = {name: repr(value) for name, value in vars(exc).items()}
        seen["errors"].append([names, str(exc), known, getattr(exc, "exit_code", None), isinstance(exc, ownlab.OwnlabError)])
print("SEEN" + json.dumps(seen))
"""


SHORT = """
import json, ownlab
from torch import nn

net, errors = nn.Linear(64, 64), []
for inputs, options in ((None, {}), ((8, 7), {}), ((8, 64), {"cards": "nosuch"}), ((8, 64), {"batch": 0})):
    try:
        ownlab.fit(net, inputs, **options)
    except Exception as exc:
        errors.append(str(exc))
prediction = ownlab.fit(net, (8, 64), cards="T4")
bundle = prediction._repr_mimebundle_()
chart = bundle["application/vnd.vegalite.v5+json"]
print("SEEN" + json.dumps([errors, repr(prediction), bundle["text/plain"], chart["title"]["text"], repr(prediction.record)]))
"""


@pytest.fixture(scope="module")
def torch_python() -> str:
    python = ROOT / ".venv-torch" / "bin" / "python"
    if not python.exists():
        pytest.skip("no .venv-torch: `scripts/setup test` makes it")
    return str(python)


def run_script(python: str, beside: str = "", **environ: str) -> dict[str, Any]:
    printed, _, last = run(python, beside + SCRIPT, **environ).rpartition("SEEN")
    seen: dict[str, Any] = json.loads(last)
    return {**seen, "printed": printed}


@pytest.fixture(scope="module")
def calibrated_home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A state folder with a calibration of a T4, as `ownlab fit --calibrate` stores it."""
    home = tmp_path_factory.mktemp("home")
    device = Device(
        kind="cuda", name="Tesla T4", multiprocessors=40, memory_bytes=15 * GIB, capability=7.5, threads=1024
    )
    context = Context(start=100 * MIB, matmul=MIB, matmul_backward=MIB, more_kernels=MIB)
    calibration = Calibration(device, "2.11.0", "13.0", 91900, "2026-11-16", context, workspace_bytes=17 * MIB)
    save_calibration(calibration, {"OWNLAB_HOME": str(home)})
    return str(home)


@pytest.fixture(scope="module")
def without_ownlab(torch_python: str, calibrated_home: str) -> dict[str, Any]:
    return run_script(torch_python, OWNLAB_HOST=sys.executable, OWNLAB_HOME=calibrated_home)


def skip_another_version(python: str) -> None:
    version = run(python, "print('%d.%d' % sys.version_info[:2])").strip()
    if version != f"{sys.version_info[0]}.{sys.version_info[1]}":
        pytest.skip("its Python cannot load our libraries")


@pytest.fixture(scope="module")
def with_ownlab(torch_python: str, calibrated_home: str) -> dict[str, Any]:
    skip_another_version(torch_python)
    return run_script(torch_python, BESIDE, OWNLAB_HOME=calibrated_home)


def test_a_prediction_in_an_environment_without_ownlab(without_ownlab: dict[str, Any]) -> None:
    printed = without_ownlab["printed"]
    assert printed.startswith(without_ownlab["repr"])
    assert "batch up to 1024" in printed
    assert "▲ peak" in printed
    assert without_ownlab["repr"].startswith("The biggest batch that fits is")
    assert without_ownlab["bundle"]["text/plain"] == printed
    chart = without_ownlab["bundle"]["application/vnd.vegalite.v5+json"]
    assert chart["title"]["text"] == "Sequential: memory over one step"
    parameters = 1024 * 4096 + 4096 + 4096 * 10 + 10
    assert f"parameters=Parameters(total={parameters}," in without_ownlab["record"]
    assert without_ownlab["immutable"] == "immutable type: 'Fit'"
    shape, inputs, card, batch, steps, option = without_ownlab["errors"]
    assert "[8, 7] X [1024, 4096]" in shape[1]
    assert "Give tensors or shapes" in inputs[1]
    assert "nosuch" in card[1]
    assert "neither a number nor a range" in batch[1]
    assert (batch[0][0], batch[3], batch[4]) == ("ownlab.errors.UsageError", 2, True)
    assert steps[1] == "steps must be an integer of at least 2, not 1"
    assert "bogus" in option[1]


def test_both_kinds_of_environment_give_the_same_types_displays_and_errors(
    with_ownlab: dict[str, Any], without_ownlab: dict[str, Any]
) -> None:
    assert with_ownlab == without_ownlab


def test_a_notebook_reads_chinese_in_both_kinds_of_environment(torch_python: str) -> None:
    skip_another_version(torch_python)
    shown = [
        json.loads(
            run(torch_python, beside + SHORT, OWNLAB_LANG="zh_CN", OWNLAB_HOST=sys.executable).rpartition("SEEN")[2]
        )
        for beside in ("", BESIDE)
    ]
    assert shown[0] == shown[1]
    errors, sentence, printed, title, _ = shown[0]
    assert [error for error in errors if not re.search("[\u4e00-\u9fff]", error)] == []
    assert sentence.startswith("训练一步占用显存")
    assert "放得下" in printed
    assert title == "Linear：一步中的显存"


def test_a_notebook_uses_calibrations_as_the_command_line_does(
    torch_python: str, without_ownlab: dict[str, Any], tmp_path: Path
) -> None:
    assert without_ownlab["calibrated"] is True
    code = "import ownlab\nfrom torch import nn\nprint(ownlab.fit(nn.Linear(8, 8), (2, 8), cards='T4').record.cards[0].calibrated)"
    assert run(torch_python, code, OWNLAB_HOST=sys.executable, OWNLAB_HOME=str(tmp_path)).strip() == "False"


def test_without_a_host_the_error_names_what_is_missing(torch_python: str) -> None:
    code = "import os, ownlab\nos.environ.pop('OWNLAB_HOST', None)\ntry: ownlab.fit(3)\nexcept ownlab.OwnlabError as exc: print(exc)"
    assert "needs ownlab in this environment" in run(torch_python, code)


def test_a_kernel_without_torch_is_reported() -> None:
    with pytest.raises(OwnlabError, match="no torch"):
        ownlab.fit(object(), (2, 4))
    with pytest.raises(ValueError, match="steps must be an integer of at least 2, not 1"):
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


def test_magics_report_mistakes_in_one_line() -> None:
    answer = run(sys.executable, CELLS, IPYTHONDIR=os.devnull)
    assert "no torch" in answer
    assert "missing argument: the model" in answer
    assert "neither a model nor a model and its inputs" in answer
    assert "unrecognized arguments: --bogus" in answer
    assert "name 'nobody' is not defined" in answer
    assert "no-accelerator" in answer.rpartition(">>>")[2].split("\n", 1)[1]
    assert answer.count("Traceback") == 1  # of the name, which is the notebook's own


def test_the_magic_evaluates_expressions_of_the_notebook() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    make: Any = InteractiveShell
    shell, given = make(), []
    register(shell, lambda *args, **named: given.append((args, named)), ())
    shell.run_cell("a, b = 3, (4, 5)\n%fit a b --loss str --optimizer sgd")
    assert given == [((3, (4, 5)), {"loss": str, "optimizer": "sgd"})]

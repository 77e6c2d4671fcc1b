"""`ownlab fit` as a person starts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Ownlab

ROOT = Path(__file__).resolve().parents[2]

MODEL = """
import torch
from torch import nn

def build(batch=64):
    layers = [layer for _ in range(4) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(*layers), (torch.randn(batch, 1024),)

def broken():
    open("weights.pt")

def hangs():
    while True:
        pass
"""


@pytest.fixture(scope="module")
def torch_python() -> str:
    python = ROOT / ".venv-torch" / "bin" / "python"
    if not python.exists():
        pytest.skip("no .venv-torch: `scripts/setup test` makes it")
    return str(python)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(MODEL)
    return tmp_path / "net.py"


def test_a_prediction(
    ownlab: Ownlab, model: Path, torch_python: str, valid: Callable[[str, str], Any], tmp_path: Path
) -> None:
    drawn = tmp_path / "step.svg"
    ran = ownlab(
        "fit", f"{model}:build", "--batch", "128", "--cards", "h200,1GiB", "--python", torch_python, "--json",
        "--save", str(drawn),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    fit = valid(ran.stdout, "fit")
    assert fit["parameters"]["total"] == 4 * (1024 * 1024 + 1024)
    assert fit["flops"]["forward"] == 2 * 4 * 128 * 1024 * 1024
    assert fit["parts"]["weights"] >= 4 * fit["parameters"]["total"]
    assert fit["parts"]["optimizer"] >= 2 * fit["parts"]["weights"]
    assert fit["peak"]["allocated_bytes"] <= fit["peak"]["reserved_bytes"] <= fit["peak"]["device_bytes"]
    assert [card["name"] for card in fit["cards"]] == ["H200 SXM", "any with 1 GiB"]
    assert fit["cards"][0]["fits"] == "yes"
    assert "peak" in drawn.read_text()


def test_the_biggest_batch(ownlab: Ownlab, model: Path, torch_python: str) -> None:
    ran = ownlab("fit", f"{model}:build", "--batch", "512..1024", "--cards", "h200", "--python", torch_python)
    assert ran.returncode == 0, ran.stderr
    assert "batch up to 1024" in ran.stdout


def test_none_of_the_cards_holds_it(ownlab: Ownlab, model: Path, torch_python: str) -> None:
    ran = ownlab("fit", f"{model}:build", "--batch", "400000", "--cards", "2GiB", "--python", torch_python)
    assert ran.returncode == 1, ran.stderr
    assert "more than any of these cards has" in ran.stdout
    assert "short" in ran.stdout


def test_a_build_that_fails(ownlab: Ownlab, model: Path, torch_python: str) -> None:
    ran = ownlab("fit", f"{model}:broken", "--python", torch_python)
    assert ran.returncode == 3
    line = MODEL.splitlines().index('    open("weights.pt")') + 1
    assert f"{model}, line {line}: " in ran.stderr
    assert "weights.pt" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_build_that_hangs(ownlab: Ownlab, model: Path, torch_python: str) -> None:
    ran = ownlab("fit", f"{model}:hangs", "--python", torch_python, "--deadline", "2")
    assert ran.returncode == 5
    assert "--deadline" in ran.stderr


def test_a_python_without_torch(ownlab: Ownlab, model: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    ran = ownlab("fit", f"{model}:build", "--json", env={"PYTHONPATH": str(tmp_path), "OWNLAB_PYTHON": ""})
    assert ran.returncode == 4, ran.stderr
    assert json.loads(ran.stdout)["error"]["kind"] == "InterpreterError"
    assert "--python" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "Name a model"),
        (["net.py"], 2, "names no function"),
        (["nowhere/net.py:build"], 3, "there is no file"),
        (["hf:nowhere.json"], 3, "there is no file"),
        (["package.net:build", "--batch", "9..3"], 2, "neither a number nor a range"),
        (["package.net:build", "--cards", "h900"], 2, "H200"),
        (["package.net:build", "--allocator", "backend:cudaMallocAsync"], 2, "not modelled"),
        (["package.net:build", "--steps", "1"], 2, "--steps"),
    ],
)
def test_what_cannot_work_is_said_at_once(ownlab: Ownlab, arguments: list[str], code: int, said: str) -> None:
    ran = ownlab("fit", *arguments)
    assert ran.returncode == code
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_message_that_memory_ran_out_is_explained(ownlab: Ownlab) -> None:
    message = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of "
        "which 1.00 GiB is free. Including non-PyTorch memory, this process has 22.60 GiB memory in use. Of the allocated "
        "memory 21.70 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."
    )
    ran = ownlab("fit", "--explain-oom", "-", stdin=message)
    assert ran.returncode == 0, ran.stderr
    assert "GiB" in ran.stdout
    assert json.loads(ownlab("fit", "--explain-oom", message, "--json").stdout)["cause"]

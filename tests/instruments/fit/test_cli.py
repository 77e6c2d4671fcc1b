"""`ownlab fit` as a person starts it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab

ROOT = Path(__file__).resolve().parents[3]

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


@pytest.fixture
def stand_in(tmp_path: Path) -> str:
    """A Python that answers as the guest does where there is a card."""
    python = tmp_path / "python"
    fake = ROOT / "tests" / "instruments" / "fit" / "fake_torch.py"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake}" "$@"\n')
    python.chmod(0o755)
    return str(python)


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


def test_the_biggest_batch(ownlab: Ownlab, model: Path, stand_in: str) -> None:
    ran = ownlab("fit", f"{model}:build", "--batch", "512..1024", "--cards", "h200", "--python", stand_in)
    assert ran.returncode == 0, ran.stderr
    assert "batch up to 1024" in ran.stdout


def test_none_of_the_cards_holds_it(ownlab: Ownlab, model: Path, stand_in: str) -> None:
    ran = ownlab("fit", f"{model}:build", "--batch", "4000", "--cards", "2GiB", "--python", stand_in)
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
    error = json.loads(ran.stdout)["error"]
    assert error["kind"] == "LibraryMissing"
    assert error["meaning"] == "That Python works, but the library is not installed in it, or its import fails."
    assert "a CPU build is enough: pip install torch --index-url https://download.pytorch.org/whl/cpu" in error["hint"]
    assert "--python" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "answer"),
    [
        ([], 2, "Missing argument: the model to fit"),
        (["net.py"], 2, "does not name a function"),
        (["nowhere/net.py:build"], 3, "There is no file"),
        (["hf:nowhere.json"], 3, "There is no file"),
        (["package.net:build", "--batch", "9..3"], 2, "neither a number nor a range"),
        (["package.net:build", "--cards", "h900"], 2, "H200"),
        (["package.net:build", "--allocator", "backend:cudaMallocAsync"], 2, "not modelled"),
        (["package.net:build", "--steps", "1"], 2, "--steps"),
    ],
)
def test_wrong_usage_fails_at_once(ownlab: Ownlab, arguments: list[str], code: int, answer: str) -> None:
    ran = ownlab("fit", *arguments)
    assert ran.returncode == code
    assert answer in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_out_of_memory_message_is_explained(ownlab: Ownlab, valid: Callable[[str, str], Any]) -> None:
    message = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of "
        "which 1.00 GiB is free. Including non-PyTorch memory, this process has 22.60 GiB memory in use. Of the allocated "
        "memory 21.70 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."
    )
    ran = ownlab("fit", "--explain-oom", "-", stdin=message)
    assert ran.returncode == 0, ran.stderr
    assert "GiB" in ran.stdout
    assert valid(ownlab("fit", "--explain-oom", message, "--json").stdout, "fit-oom")["cause"]


def test_the_real_step_on_a_processor(
    ownlab: Ownlab, model: Path, torch_python: str, valid: Callable[[str, str], Any]
) -> None:
    ran = ownlab(
        "fit", f"{model}:build", "--measure", "--infer", "--cards", "h200", "--python", torch_python, "--json",
        env={"CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    measured = valid(ran.stdout, "fit")["measured"]
    assert measured["device"]["kind"] == "cpu"
    assert measured["memory"] is None
    assert measured["alone"]["least"] <= measured["alone"]["median"] <= measured["alone"]["p99"]


def test_measurement_on_a_fake_card(
    ownlab: Ownlab, model: Path, tmp_path: Path, stand_in: str, valid: Callable[[str, str], Any]
) -> None:
    """Options, words and exit codes; what torch says of a card comes from a program that answers as the guest does."""
    here = ("--cards", "t4", "--python", stand_in)
    env = {"OWNLAB_HOME": str(tmp_path / "home")}
    ran = ownlab("fit", f"{model}:build", "--batch", "max", "--measure", *here, env=env)
    assert ran.returncode == 0, ran.stderr
    assert "The biggest batch that ran" in ran.stdout
    assert "Measured on Tesla T4" in ran.stdout
    full = ownlab("fit", f"{model}:build", "--batch", "4000", "--measure", *here, env=env)
    assert full.returncode == 1
    assert "out of memory in the backward phase of step 1" in full.stdout
    decoded = ownlab("fit", f"{model}:build", "--infer", "--decode", "28", *here, "--json", env=env)
    assert valid(decoded.stdout, "fit")["decoding"]["cache_bytes"] == 128 * 1024
    assert ownlab("fit", f"{model}:build", "--decode", "28", *here).returncode == 2
    made = ownlab("fit", "--calibrate", "--python", stand_in, "--json", env=env)
    assert valid(made.stdout, "fit-calibration")["device"]["name"] == "Tesla T4"
    again = ownlab("fit", f"{model}:build", *here, "--json", env=env)
    assert valid(again.stdout, "fit")["cards"][0]["calibrated"] is True

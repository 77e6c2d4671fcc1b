"""Processes that really run, seen by py-spy from outside."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab

pytestmark = pytest.mark.skipif(
    not Path(sysconfig.get_path("scripts"), "py-spy").exists(), reason="no py-spy: `pip install 'ownlab[attach]'`"
)

SCRIPT = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self): return 10_000_000
    def __getitem__(self, index):
        time.sleep(0.05)
        return torch.randn(16), index % 4

def train():
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(DataLoader(Samples(), batch_size=8)):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if number == 1:
            open(sys.argv[1], "w").close()

train()
"""


@pytest.fixture
def training(torch_python: str, tmp_path: Path, until: Callable[..., Any]) -> Iterator[subprocess.Popen[bytes]]:
    """A script that trains, and has made its first steps."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    child = subprocess.Popen([torch_python, str(script), str(tmp_path / "trains")])
    try:
        until((tmp_path / "trains").exists)
        yield child
    finally:
        child.kill()
        child.wait()


def test_a_process_that_trains(
    ownlab: Ownlab, training: subprocess.Popen[bytes], valid: Callable[[str, str], Any]
) -> None:
    ran = ownlab("why", "--json", "--pid", str(training.pid), "--seconds", "4")
    assert ran.returncode == 0, ran.stderr
    explanation = valid(ran.stdout, "why")
    finding = explanation["findings"][0]
    assert (finding["code"], finding["where"]["function"]) == ("no-workers", "Samples.__getitem__")
    assert explanation["observed"]["shares"]["data"] > 0.5
    assert training.poll() is None  # it runs on


def test_a_process_that_is_no_python(ownlab: Ownlab) -> None:
    child = subprocess.Popen(["sleep", "600"])
    try:
        ran = ownlab("why", "--pid", str(child.pid), "--seconds", "1")
    finally:
        child.kill()
        child.wait()
    assert ran.returncode == 3
    assert "is no Python program" in ran.stderr


def test_no_such_process_and_what_makes_no_sense_together(ownlab: Ownlab) -> None:
    assert "There is no process 4194303" in ownlab("why", "--pid", "4194303").stderr
    assert ownlab("why", "--pid", "1", "python", "train.py").returncode == 2
    assert ownlab("why", "--pid", "1", "--trace", "trace.json").returncode == 2
    assert ownlab("why", "--pid", "1", "--chart", "step.svg").returncode == 2

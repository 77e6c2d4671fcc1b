"""Traces that torch.profiler itself writes here, of the CPU."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab

SCRIPT = """
import sys, time, torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self): return 64
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.randn(16), index % 4

torch.set_num_threads(1)
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for x, y in DataLoader(Samples(), batch_size=8):
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        profiler.step()
profiler.export_chrome_trace(sys.argv[1])
"""


@pytest.fixture(scope="module")
def trace(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    subprocess.run([torch_python, "-c", SCRIPT, str(path)], check=True, capture_output=True, timeout=300)
    return path


def test_a_trace_of_the_cpu(ownlab: Ownlab, trace: Path, valid: Callable[[str, str], Any]) -> None:
    explanation = valid(ownlab("why", "--json", "--trace", str(trace)).stdout, "why")
    finding = explanation["findings"][0]
    assert finding["code"] == "trace-data-wait"
    assert "num_workers is 0" in explanation["sentence"]
    assert finding["share"] > 0.5
    assert explanation["trace"]["steps_by"] == "optimizer"  # without a schedule the profiler marks no steps
    assert explanation["trace"]["complete"]
    assert {"data", "forward", "backward", "optimizer"} <= set(explanation["step"]["parts_ms"])
    assert "aten::randn" in {each["name"] for each in explanation["trace"]["operators"]}


def test_packed_shown_and_drawn(ownlab: Ownlab, trace: Path, tmp_path: Path) -> None:
    packed, chart = tmp_path / "trace.json.gz", tmp_path / "step.svg"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    shown = ownlab("why", "--trace", str(packed), "--chart", str(chart))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "The longest operators" in shown.stdout
    assert "<svg" in chart.read_text()


def test_what_makes_no_sense_together(ownlab: Ownlab, trace: Path) -> None:
    assert ownlab("why", "--trace", str(trace), "python", "train.py").returncode == 2
    assert ownlab("why", "--trace", str(trace), "--steps", "5").returncode == 2
    assert ownlab("why", "--trace", str(trace), "--nccl", "nccl.log").returncode == 2
    assert "is no trace" in ownlab("why", "--trace", __file__).stderr

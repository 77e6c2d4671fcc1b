"""Machines from public bug reports, diagnosed.

tests/pastes/reports.json holds the facts of each report (what collect_env printed, and the decisive words), with its source
and a person's judgement of what is wrong. Here they are written out again in collect_env's layout and read as a paste.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste

REPORTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[2] / "pastes" / "reports.json").read_text()
)


def collect_env(facts: dict[str, Any]) -> Iterator[str]:
    """The facts as `python -m torch.utils.collect_env` prints them."""
    gpus = facts.get("gpus", "Could not collect")
    yield "Collecting environment information..."
    if "torch" in facts:  # a report may have lost its first lines
        yield f"PyTorch version: {facts['torch']}"
        yield "Is debug build: False"
        yield f"CUDA used to build PyTorch: {facts.get('cuda_build', 'N/A')}"
    yield f"ROCM used to build PyTorch: {facts.get('rocm_build', 'N/A')}"
    yield ""
    yield f"OS: {facts.get('os', 'Could not collect')}"
    yield ""
    yield f"Python version: {facts.get('python', 'N/A')} (64-bit runtime)"
    yield f"Python platform: {facts.get('platform', 'N/A')}"
    yield f"Is CUDA available: {facts.get('cuda_available', 'N/A')}"
    yield f"CUDA runtime version: {facts.get('nvcc', 'Could not collect')}"
    if isinstance(gpus, str):
        yield f"GPU models and configuration: {gpus}"
    else:
        yield "GPU models and configuration: "
        for number, name in enumerate(gpus):
            yield f"GPU {number}: {name}"
            if number == len(gpus) - 1:
                yield from (f"  MIG {profile}     Device  {slot}:" for slot, profile in enumerate(facts.get("mig", ())))
        yield ""
    yield f"Nvidia driver version: {facts.get('driver', 'Could not collect')}"
    yield f"cuDNN version: {'Probably one of the following:' if 'cudnn' in facts else 'Could not collect'}"
    yield from (f"/usr/lib/x86_64-linux-gnu/libcudnn.so.{version}" for version in facts.get("cudnn", ()))
    yield f"Is XPU available: {facts.get('xpu', False)}"
    yield "Is XNNPACK available: True"
    yield ""
    yield "Versions of relevant libraries:"
    yield from (f"[pip3] {name}=={version}" for name, version in facts.get("packages", {}).items())
    yield ""
    yield from (f"{name}={value}" for name, value in facts.get("variables", {}).items())
    yield from facts.get("said", ())


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report["name"])
def test_a_public_report_is_diagnosed(report: dict[str, Any]) -> None:
    diagnosis = diagnose(read_paste("\n".join(collect_env(report["facts"]))))
    codes = {finding.code for finding in diagnosis.findings}
    assert set(report["expect"]) <= codes
    assert diagnosis.verdict.gpu_work == report["gpu_work"]
    unexpected = {finding.code for finding in diagnosis.findings if finding.severity == "error"} - set(report["expect"])
    assert unexpected == set()


def test_there_are_enough_reports_of_every_kind() -> None:
    assert len(REPORTS) >= 20
    assert {report["gpu_work"] for report in REPORTS} == {"yes", "no", "unknown"}
    assert sum(not report["expect"] for report in REPORTS) >= 10  # machines on which nothing is wrong

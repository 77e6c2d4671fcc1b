"""The facts of public bug reports (tests/pastes/reports.json), written in vLLM's layout, are read back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.machine.facts import value_of

REPORTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[3] / "pastes" / "reports.json").read_text(encoding="utf-8")
)
_LINES = {
    "os": "OS",
    "torch": "PyTorch version",
    "cuda_build": "CUDA used to build PyTorch",
    "rocm_build": "ROCM used to build PyTorch",
    "python": "Python version",
    "platform": "Python platform",
    "cuda_available": "Is CUDA available",
    "nvcc": "CUDA runtime version",
    "driver": "Nvidia driver version",
    "xpu": "Is XPU available",
}


def vllm_report(facts: dict[str, Any]) -> Iterator[str]:
    rule = "=" * 30
    yield from (rule, "        System Info", rule)
    yield from (f"{label:<28} : {facts[key]}" for key, label in _LINES.items() if key in facts)
    gpus = facts.get("gpus", "Could not collect")
    yield f"{'GPU models and configuration':<28} : {gpus if isinstance(gpus, str) else ''}"
    yield from (f"GPU {index}: {name}" for index, name in enumerate(gpus if isinstance(gpus, list) else ()))
    yield ""
    if "cudnn" in facts:
        yield f"{'cuDNN version':<28} : Probably one of the following:"
        yield from (f"/usr/lib/libcudnn.so.{version}" for version in facts["cudnn"])
    yield from (rule, "Versions of relevant libraries", rule)
    yield from (f"[pip3] {name}=={version}" for name, version in facts.get("packages", {}).items())
    yield from (rule, "     Environment Variables", rule)
    yield from (f"{name}={value}" for name, value in facts.get("variables", {}).items())
    yield ""
    yield from facts.get("said", ())


def version_in(text: str | None) -> str | None:
    return text if text and text[0].isdigit() else None


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report["name"])
def test_reported_facts_are_read_back(report: dict[str, Any]) -> None:
    facts = report["facts"]
    case = read_paste("\n".join(vllm_report(facts)))
    machine = case.machine
    frameworks = value_of(machine.interpreter.frameworks) or ()
    assert value_of(machine.nvidia.driver) == version_in(facts.get("driver"))
    assert value_of(machine.toolkits.nvcc) == version_in(facts.get("nvcc"))
    assert value_of(machine.interpreter.version) == facts.get("python")
    if facts.get("torch") not in (None, "N/A"):
        (torch,) = frameworks
        assert value_of(torch.version) == facts["torch"]
        assert value_of(torch.cuda) == version_in(facts.get("cuda_build"))
        assert value_of(torch.rocm) == version_in(facts.get("rocm_build"))
    if isinstance(facts.get("gpus"), list):
        assert [value_of(card.name) for card in value_of(machine.cards) or ()] == facts["gpus"]
    kernel = re.match(r"Linux-(.*?)-(?:x86_64|aarch64)-with", facts.get("platform", ""))
    assert value_of(machine.host.kernel) == (kernel[1] if kernel else None)
    system = [install for install in value_of(machine.toolkits.cudnn) or () if install.origin == "system"]
    assert [value_of(install.version) for install in system] == facts.get("cudnn", [])
    listed = {package.name: package.version for package in value_of(machine.interpreter.packages) or ()}
    assert listed.items() <= facts.get("packages", {}).items()
    assert ("torch" in listed) == ("torch" in facts.get("packages", {}))
    answer = "\n".join(message.text for message in case.messages)
    for line in facts.get("said", ()):
        assert line.strip()[:60] in answer or line in (value_of(machine.host.kernel_log) or ())

"""Short messages that people paste alone, and texts of healthy machines that look alike.

tests/pastes/common_messages.json has messages by the code of the finding that answers them: they were written from the sources
and manuals of the programs that print them. healthy_messages.json has successful logs and unrelated errors: near misses.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ownlab.errors import NotRecognised
from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.instruments.doctor.records import Finding

FOLDER = Path(__file__).resolve().parents[3] / "pastes"
COMMON: dict[str, list[str]] = json.loads((FOLDER / "common_messages.json").read_text())
HEALTHY: dict[str, str] = json.loads((FOLDER / "healthy_messages.json").read_text())


def findings_of(content: str) -> tuple[Finding, ...]:
    try:
        return diagnose(read_paste(content)).findings
    except NotRecognised:
        return ()


@pytest.mark.parametrize(("code", "message"), [(code, each) for code, messages in COMMON.items() for each in messages])
def test_a_message_alone_is_answered(code: str, message: str) -> None:
    first = findings_of(message)[0]
    assert (first.code, bool(first.fix), bool(first.meaning)) == (code, True, True)


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_texts_and_unrelated_errors_are_no_problem(name: str) -> None:
    assert [finding for finding in findings_of(HEALTHY[name]) if finding.severity != "note"] == []


# In order: the rule, a message of it, and one that looks alike but is another's.
NEAR_MISSES = [
    ("container-daemon", "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock", "docker: permission denied: ./run.sh (GPU)"),
    ("hybrid", "[ERROR]You've no permission to communicate with the Bumblebee daemon. Try adding yourself to the 'bumblebee' group", "bumblebeed[812]: Initialization completed - now handling client requests on the nvidia card"),
    ("nvml-query", "pynvml.NVMLError_FunctionNotFound: Function Not Found", "pynvml 11.5.0 installed, nvmlInit returned 0"),
    ("vgpu", "nvidia-gridd: Failed to acquire license from license server", "nvidia-gridd: License acquired successfully. (Info: NVIDIA RTX Virtual Workstation)"),
    ("api-version", "AttributeError: module 'tensorflow' has no attribute 'Session'", "AttributeError: module 'mymodel' has no attribute 'Session' (torch)"),
    ("smi-refused", "The following GPUs could not be reset:\n  GPU 00000000:01:00.0: In use by another client", "GPU 00000000:01:00.0 was successfully reset."),
    ("launcher", "RuntimeError: Distributed package doesn't have NCCL built in", "torch.distributed is available with NCCL 2.21.5"),
    ("unfit-library", "ImportError: /opt/env/lib/_planet.so: undefined symbol: _Z5orbitv (torch extension)", "CUDA program ended without an undefined value"),
    ("pcie-topology", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNODE\t0-63\nGPU1\tNODE\t X \t0-63", "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-63\nGPU1\tNV12\t X \t0-63"),
    ("runtime-failure", "RuntimeError: CUDA error: too many resources requested for launch", "2 GPU kernels requested for launch"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "message", "other"), NEAR_MISSES, ids=[code for code, _, _ in NEAR_MISSES])
def test_a_message_that_looks_alike_is_not_taken_for_it(code: str, message: str, other: str) -> None:
    assert findings_of(message)[0].code == code
    assert code not in {finding.code for finding in findings_of(other)}


RULES_OF_THIS_FILE = {"container-daemon", "hybrid", "nvml-query", "vgpu", "api-version", "smi-refused", "launcher", "runtime-failure", "unfit-library"}  # pcie-topology: "pcie-topology" has one form  # fmt: skip


def test_each_of_these_rules_answers_several_messages() -> None:
    assert all(len(COMMON[code]) >= 2 for code in RULES_OF_THIS_FILE)

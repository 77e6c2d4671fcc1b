"""From a machine to its case, its findings and its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ownlab.instruments.doctor.diagnosis import case_of, diagnose
from ownlab.instruments.doctor.records import Case, Message, ProductCheck
from ownlab.machine.facts import Known, Unknown
from ownlab.machine.machine_file import load_machine
from ownlab.machine.records import Framework, FrameworkDevice, Interpreter, Machine

MACHINES = Path(__file__).resolve().parents[2] / "machines"


@pytest.fixture
def cpu() -> Machine:
    return load_machine(MACHINES / "cpu.json")


@pytest.fixture
def h200() -> Machine:
    return load_machine(MACHINES / "h200.json")


def with_frameworks(machine: Machine, *frameworks: Framework) -> Machine:
    return replace(machine, interpreter=replace(machine.interpreter, frameworks=Known(frameworks, "test")))


def check(framework: str, **fields: Any) -> ProductCheck:
    return ProductCheck(framework=framework, device="cuda:0", name="NVIDIA H200", **fields)


INSUFFICIENT = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"


def test_a_missing_driver_without_a_card_is_no_error(cpu: Machine) -> None:
    cupy = Framework("cupy", build=Known("cuda", "cupy"), devices=Known((), "cupy"), error=INSUFFICIENT)
    diagnosis = diagnose(case_of(with_frameworks(cpu, cupy)))
    assert [finding.code for finding in diagnosis.findings if finding.severity == "error"] == []
    assert diagnosis.verdict.sentence.startswith("This machine has no accelerator; work runs on the CPU")


def test_the_same_message_with_a_card_is_an_error(h200: Machine) -> None:
    cupy = Framework("cupy", build=Known("cuda", "cupy"), devices=Known((), "cupy"), error=INSUFFICIENT)
    diagnosis = diagnose(case_of(with_frameworks(h200, cupy)))
    assert diagnosis.verdict.gpu_work == "no"
    assert diagnosis.findings[0].code == "driver-old"


def test_messages_are_collected_from_every_source(h200: Machine) -> None:
    torch = Framework("torch", error="a warning")
    machine = with_frameworks(h200, torch)
    machine = replace(machine, nvidia=replace(machine.nvidia, nvml=Unknown("Failed to initialize NVML: Unknown Error")))
    messages = {(message.where, message.text) for message in case_of(machine).messages}
    assert ("torch", "a warning") in messages
    assert ("NVML", "Failed to initialize NVML: Unknown Error") in messages
    assert any(where == "kernel log" for where, _ in messages)


def test_the_verdict_without_a_framework_is_unknown(h200: Machine) -> None:
    diagnosis = diagnose(case_of(with_frameworks(h200)))
    assert diagnosis.verdict.gpu_work == "unknown"
    assert diagnosis.verdict.sentence.startswith("This machine has 1 × NVIDIA H200, but ")


def test_a_card_that_no_framework_sees_is_a_no_without_a_known_cause(h200: Machine) -> None:
    torch = Framework("torch", build=Known("cuda", "torch"), devices=Known((), "torch"))
    diagnosis = diagnose(case_of(with_frameworks(h200, torch)))
    assert diagnosis.verdict.gpu_work == "no"
    assert "no rule explains why" in diagnosis.verdict.sentence


def test_a_wrong_product_makes_the_verdict_no(h200: Machine) -> None:
    diagnosis = diagnose(
        case_of(h200),
        (check("torch", passed=False, wrong=True, error="the product differs"), check("jax", passed=True)),
    )
    assert diagnosis.verdict.gpu_work == "no"
    assert "torch computed a wrong result on NVIDIA H200 (cuda:0)" in diagnosis.verdict.sentence


def test_one_failing_framework_does_not_change_the_verdict(h200: Machine) -> None:
    diagnosis = diagnose(case_of(h200), (check("torch", passed=True), check("numba", passed=False, error="row_stack")))
    assert diagnosis.verdict.gpu_work == "yes"
    assert diagnosis.verdict.sentence.endswith(". However, numba failed to compute.")
    assert "numba 0" not in diagnosis.verdict.sentence


def test_one_failing_device_does_not_change_the_verdict(h200: Machine) -> None:
    checks = (check("torch", passed=True), ProductCheck("torch", "cuda:1", "NVIDIA H200", passed=False, error="lost"))
    diagnosis = diagnose(case_of(h200), checks)
    assert diagnosis.verdict.gpu_work == "yes"
    assert diagnosis.verdict.sentence.endswith(". However, torch failed to compute on cuda:1.")


def test_the_verdict_is_no_if_all_frameworks_fail(h200: Machine) -> None:
    torch = Framework("torch", devices=Known((FrameworkDevice("NVIDIA H200"),), "torch"))
    diagnosis = diagnose(case_of(with_frameworks(h200, torch)), (check("torch", passed=False, error="out of memory"),))
    assert diagnosis.verdict.gpu_work == "no"


def test_the_verdict_without_facts_is_unknown() -> None:
    assert diagnose(case_of(Machine(interpreter=Interpreter()))).verdict.gpu_work == "unknown"


def test_unrecognised_messages_are_reported_as_such() -> None:
    diagnosis = diagnose(Case(Machine(), (Message("KeyError: 'label'", "pasted text"),)))
    assert diagnosis.verdict.sentence.startswith("No rule recognises these messages")


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "RuntimeError: Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.",
            "GPU work will not run. A card no longer",
        ),
        (
            'docker: could not select device driver "" with capabilities: [[gpu]].',
            "GPU work will not run. Docker does not know",
        ),
    ],
)
def test_the_verdict_names_the_blocking_finding(message: str, sentence: str) -> None:
    assert sentence in diagnose(Case(Machine(origin="pasted"), (Message(message, "kernel log"),))).verdict.sentence


def test_an_unknown_verdict_starts_with_the_first_problem() -> None:
    message = Message("RuntimeError: CUDA error: device-side assert triggered", "pasted text")
    diagnosis = diagnose(Case(Machine(origin="pasted"), (message,)))
    assert diagnosis.verdict.gpu_work == "unknown"
    assert diagnosis.verdict.sentence.startswith(
        f"{diagnosis.findings[0].title}. The available facts do not show whether GPU work will run"
    )

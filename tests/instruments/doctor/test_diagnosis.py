"""From a machine to its case, its findings and its sentence."""

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


def test_a_framework_that_finds_no_driver_where_there_is_no_card_is_no_trouble(cpu: Machine) -> None:
    cupy = Framework("cupy", build=Known("cuda", "cupy"), devices=Known((), "cupy"), error=INSUFFICIENT)
    found = diagnose(case_of(with_frameworks(cpu, cupy)))
    assert [finding.code for finding in found.findings if finding.severity == "error"] == []
    assert found.verdict.sentence.startswith("This machine has no accelerator; work runs on the CPU")


def test_the_same_words_beside_a_card_are_trouble(h200: Machine) -> None:
    cupy = Framework("cupy", build=Known("cuda", "cupy"), devices=Known((), "cupy"), error=INSUFFICIENT)
    found = diagnose(case_of(with_frameworks(h200, cupy)))
    assert found.verdict.gpu_work == "no"
    assert found.findings[0].code == "driver-old"


def test_all_that_was_said_is_listened_to(h200: Machine) -> None:
    torch = Framework("torch", error="a warning")
    machine = with_frameworks(h200, torch)
    machine = replace(machine, nvidia=replace(machine.nvidia, nvml=Unknown("Failed to initialize NVML: Unknown Error")))
    said = {(message.where, message.text) for message in case_of(machine).messages}
    assert ("torch", "a warning") in said
    assert ("NVML", "Failed to initialize NVML: Unknown Error") in said
    assert any(where == "kernel log" for where, _ in said)


def test_no_framework_is_neither_yes_nor_no(h200: Machine) -> None:
    found = diagnose(case_of(with_frameworks(h200)))
    assert found.verdict.gpu_work == "unknown"
    assert found.verdict.sentence.startswith("This machine has 1 × NVIDIA H200, but ")


def test_a_card_that_no_framework_sees_is_a_no_though_no_rule_knows_why(h200: Machine) -> None:
    torch = Framework("torch", build=Known("cuda", "torch"), devices=Known((), "torch"))
    found = diagnose(case_of(with_frameworks(h200, torch)))
    assert found.verdict.gpu_work == "no"
    assert "no rule explains why" in found.verdict.sentence


def test_a_wrong_product_is_a_no(h200: Machine) -> None:
    found = diagnose(
        case_of(h200),
        (check("torch", passed=False, wrong=True, error="the product differs"), check("jax", passed=True)),
    )
    assert found.verdict.gpu_work == "no"
    assert "torch computed a wrong result on NVIDIA H200 (cuda:0)" in found.verdict.sentence


def test_one_framework_that_fails_does_not_speak_for_the_others(h200: Machine) -> None:
    found = diagnose(case_of(h200), (check("torch", passed=True), check("numba", passed=False, error="row_stack")))
    assert found.verdict.gpu_work == "yes"
    assert found.verdict.sentence.endswith(". However, numba failed to compute.")
    assert "numba 0" not in found.verdict.sentence


def test_one_device_that_fails_does_not_speak_for_the_others(h200: Machine) -> None:
    checks = (check("torch", passed=True), ProductCheck("torch", "cuda:1", "NVIDIA H200", passed=False, error="lost"))
    found = diagnose(case_of(h200), checks)
    assert found.verdict.gpu_work == "yes"
    assert found.verdict.sentence.endswith(". However, torch failed to compute on cuda:1.")


def test_all_frameworks_failing_is_a_no(h200: Machine) -> None:
    torch = Framework("torch", devices=Known((FrameworkDevice("NVIDIA H200"),), "torch"))
    found = diagnose(case_of(with_frameworks(h200, torch)), (check("torch", passed=False, error="out of memory"),))
    assert found.verdict.gpu_work == "no"


def test_nothing_known_is_unknown() -> None:
    assert diagnose(case_of(Machine(interpreter=Interpreter()))).verdict.gpu_work == "unknown"


def test_words_that_no_rule_knows_are_said_to_be_unknown() -> None:
    found = diagnose(Case(Machine(), (Message("KeyError: 'label'", "pasted text"),)))
    assert found.verdict.sentence.startswith("No rule recognises these messages")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "RuntimeError: Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.",
            "GPU work will not run. A card no longer",
        ),
        (
            'docker: could not select device driver "" with capabilities: [[gpu]].',
            "GPU work will not run. Docker cannot",
        ),
    ],
)
def test_a_title_stands_rightly_inside_a_sentence(words: str, sentence: str) -> None:
    assert sentence in diagnose(Case(Machine(origin="pasted"), (Message(words, "kernel log"),))).verdict.sentence


def test_what_was_asked_about_comes_first() -> None:
    words = Message("RuntimeError: CUDA error: device-side assert triggered", "pasted text")
    found = diagnose(Case(Machine(origin="pasted"), (words,)))
    assert found.verdict.gpu_work == "unknown"
    assert found.verdict.sentence.startswith(
        f"{found.findings[0].title}. The available facts do not show whether GPU work will run"
    )

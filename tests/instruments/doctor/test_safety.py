"""Fixes do no harm: nothing of another platform, and drastic steps only after the checks."""

from __future__ import annotations

import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste


def steps_of(content: str) -> list[str]:
    return [step for finding in diagnose(read_paste(content)).findings for step in finding.fix]


# A text that shows its platform, and what must not be advised there.
FOREIGN = [
    ("# R35 (release), REVISION: 4.1\nJetson Orin: RuntimeError: The NVIDIA driver on your system is too old (found version 11040)", "driver-installation-guide"),
    ("RuntimeError: Found no NVIDIA driver on your system.\nAMD Radeon RX 7900 XTX, gfx1100", "driver-installation-guide"),
    ("E:\\ComfyUI-Zluda> OSError: [WinError 126] The specified module could not be found. Error loading \"caffe2_nvrtc.dll\"", "force-reinstall torch"),
    ("TPU v4-8, jax[tpu]: RuntimeError: Unable to initialize backend 'cuda': INVALID_ARGUMENT", "jax[cuda"),
    ("/nix/store/abc-nvidia\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "dkms autoinstall"),
    ("Talos v1.7: error of a pod\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "dkms autoinstall"),
    ("/content/train.py\nRuntimeError: The NVIDIA driver on your system is too old (found version 11040)", "driver-installation-guide"),
    ("macOS 14, Apple M2: RuntimeError: Found no NVIDIA driver on your system.", "driver-installation-guide"),
    ("torch_npu 2.1\nRuntimeError: Found no NVIDIA driver on your system.", "driver-installation-guide"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "foreign"), FOREIGN)
def test_nothing_of_another_platform_is_advised(content: str, foreign: str) -> None:
    steps = steps_of(content)
    assert steps
    assert [step for step in steps if foreign in step] == []


def test_the_same_steps_are_advised_where_the_platform_fits() -> None:
    assert any(
        "driver-installation-guide" in step
        for step in steps_of("RuntimeError: The NVIDIA driver on your system is too old (found version 11040)")
    )
    assert any(
        "dkms autoinstall" in step
        for step in steps_of("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    )


# Messages that have many causes, and a step that would do harm for most of them.
DRASTIC = [
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040)", "driver-installation-guide"),
    ("CUDA driver version is insufficient for CUDA runtime version", "driver-installation-guide"),
    ("NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x24:0x72:1568)", "Above 4G"),
]


@pytest.mark.parametrize(("content", "drastic"), DRASTIC)
def test_a_drastic_step_waits_for_the_checks(content: str, drastic: str) -> None:
    first = diagnose(read_paste(content)).findings[0]
    (place,) = [number for number, step in enumerate(first.fix) if drastic in step]
    assert first.fix[place].startswith(("Only if the checks", "If "))
    assert not any(step.startswith(("export", "nvidia-smi", "Look", "Check")) for step in first.fix[place:])


def test_a_step_is_not_conditional_where_a_report_establishes_the_cause() -> None:
    table = (
        "| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |\n"
        "|   0  Tesla T4            Off  | 00000000:00:04.0 Off |                    0 |\n"
        "RuntimeError: The NVIDIA driver on your system is too old (found version 10010)."
    )
    first = diagnose(read_paste(table)).findings[0]
    assert first.code == "driver-old"
    assert not any(step.startswith("Only if the checks") for step in first.fix)

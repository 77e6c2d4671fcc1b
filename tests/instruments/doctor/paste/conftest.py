"""Fixtures that read pasted texts, and the summary of a report in golden.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.instruments.doctor.records import Case
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Machine

PASTES = Path(__file__).resolve().parents[3] / "pastes"

LINUX = """\
Collecting environment information...
PyTorch version: 2.4.0+cu121
Is debug build: False
CUDA used to build PyTorch: 12.1
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.4 LTS (x86_64)
GCC version: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
Clang version: Could not collect
CMake version: version 3.30.2
Libc version: glibc-2.35

Python version: 3.10.12 (main, Jul 29 2024, 16:56:48) [GCC 11.4.0] (64-bit runtime)
Python platform: Linux-5.15.0-107-generic-x86_64-with-glibc2.35
Is CUDA available: True
CUDA runtime version: 12.4.131
CUDA_MODULE_LOADING set to: LAZY
GPU models and configuration:
GPU 0: NVIDIA A100-SXM4-80GB
GPU 1: NVIDIA A100-SXM4-80GB
  MIG 3g.40gb     Device  0:
  MIG 2g.20gb     Device  1:

Nvidia driver version: 535.104.05
cuDNN version: Probably one of the following:
/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7
/usr/lib/x86_64-linux-gnu/libcudnn_adv_infer.so.8.9.7
/usr/local/cuda-9.0/lib64/libcudnn.so.7
HIP runtime version: N/A
MIOpen runtime version: N/A
Is XNNPACK available: True

CPU:
Architecture:                    x86_64
CPU op-mode(s):                  32-bit, 64-bit
CPU(s):                          80
On-line CPU(s) list:             0-79
Model name:                      Intel Xeon Processor (Icelake)
Thread(s) per core:              2
Core(s) per socket:              20
Socket(s):                       2
Hypervisor vendor:               KVM
Virtualization type:             full
Vulnerability Mds:               Not affected

Versions of relevant libraries:
[pip3] numpy==1.26.4
[pip3] nvidia-cudnn-cu12==9.1.0.70
[pip3] nvidia-nccl-cu12==2.20.5
[pip3] torch==2.4.0
[pip3] some-other-package==1.0
[conda] Could not collect
"""


@pytest.fixture
def linux() -> str:
    """collect_env of a Linux machine with two cards, one of them cut by MIG."""
    return LINUX


@pytest.fixture
def read() -> Callable[[str], Machine]:
    """The machine of a text."""
    return lambda text: read_paste(text).machine


@pytest.fixture
def pastes() -> Path:
    return PASTES


@pytest.fixture
def torch_of() -> Callable[[Machine], Framework]:
    def only(machine: Machine) -> Framework:
        (torch,) = value_of(machine.interpreter.frameworks) or ()
        return torch

    return only


@pytest.fixture
def cards_of() -> Callable[[Machine], tuple[Card, ...]]:
    def known(machine: Machine) -> tuple[Card, ...]:
        assert isinstance(machine.cards, Known)
        return machine.cards.value

    return known


@pytest.fixture
def summary() -> Callable[[Case], dict[str, Any]]:
    """The summary that was checked by eye against the text, and is kept in golden.json."""
    return _summary


def _summary(case: Case) -> dict[str, Any]:
    machine = case.machine
    facts: dict[str, Any] = {
        "recognised": list(case.recognised),
        "missing": [line.split("`")[1] for line in case.missing],
        "driver": value_of(machine.nvidia.driver),
        "driver serves CUDA": value_of(machine.nvidia.cuda),
        "nvidia-smi": machine.nvidia.smi.reason
        if isinstance(machine.nvidia.smi, Unknown)
        else machine.nvidia.smi.value,
        "cards": _cards(machine),
        "frameworks": [_framework(framework) for framework in value_of(machine.interpreter.frameworks) or ()],
        "python": value_of(machine.interpreter.version),
        "packages": len(value_of(machine.interpreter.packages) or ()),
        "system": value_of(machine.host.system),
        "kernel": value_of(machine.host.kernel),
        "inside": [value_of(machine.host.container), value_of(machine.host.virtualisation)],
        "cpu": [value_of(machine.host.cpu.model), value_of(machine.host.cpu.logical_cores)],
        "nvcc": value_of(machine.toolkits.nvcc),
        "cudnn": [value_of(install.version) for install in value_of(machine.toolkits.cudnn) or ()],
        "rocm": value_of(machine.amd.rocm),
        "variables": [variable.name for variable in value_of(machine.environment) or ()],
        "kernel log": len(value_of(machine.host.kernel_log) or ()),
        "said": [f"{message.where}: {message.text[:70]}" for message in case.messages if message.where != "kernel log"],
    }
    return {name: value for name, value in facts.items() if value not in (None, "not read", 0, [], [None, None])}


def _cards(machine: Machine) -> list[str] | str:
    if isinstance(machine.cards, Unknown):
        return machine.cards.reason
    counted = Counter(
        " ".join(
            str(part)
            for part in (
                card.vendor,
                value_of(card.name),
                value_of(card.architecture),
                f"cc {value_of(card.compute_capability)}" if value_of(card.compute_capability) else None,
                f"{value_of(card.memory_total)} B" if value_of(card.memory_total) else None,
                f"health {value_of(card.health)}" if value_of(card.health) not in (None, "OK") else None,
                f"MIG {len(value_of(card.mig_instances) or ())}" if value_of(card.mig) else None,
                f"throttled {value_of(card.throttle_reasons)}" if value_of(card.throttle_reasons) else None,
                f"{len(value_of(card.processes) or ())} processes" if value_of(card.processes) else None,
            )
            if part is not None
        )
        for card in machine.cards.value
    )
    return [f"{count} × {text}" for text, count in counted.items()]


def _framework(framework: Framework) -> str:
    devices = value_of(framework.devices)
    seen = framework.devices.reason if isinstance(framework.devices, Unknown) else f"sees {len(devices or ())}"
    built = value_of(framework.cuda) or value_of(framework.rocm)
    parts = (
        framework.name,
        value_of(framework.version),
        value_of(framework.build),
        built,
        f"cuDNN {value_of(framework.cudnn)}",
        seen,
        framework.failure,
    )
    return ", ".join(str(part) for part in parts if part and part != "cuDNN None")

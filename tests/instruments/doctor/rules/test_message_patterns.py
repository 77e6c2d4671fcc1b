"""Messages of well-known programs, and similar messages that must not match."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rule import MessageRule
from ownlab.instruments.doctor.rules.environment.containers import ImageNeedsNewerDriver
from ownlab.instruments.doctor.rules.environment.host_resources import HostOutOfMemory
from ownlab.instruments.doctor.rules.software.cuda_toolkit import HostCompilerTooNew, PtxTooNew
from ownlab.instruments.doctor.rules.software.program_errors import (
    BitsandbytesWithoutCuda,
    CudaAfterFork,
    FlashAttentionUnsupported,
    KvCacheTooSmall,
)
from ownlab.instruments.doctor.rules.software.python_environment import PythonModuleMissing

MESSAGES: list[tuple[type[MessageRule], str, str]] = [
    (
        PtxTooNew,
        "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
        "Update the driver",
    ),
    (
        CudaAfterFork,
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA, use the 'spawn' start method",
        "set_start_method('spawn')",
    ),
    (
        KvCacheTooSmall,
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
        "--max-model-len",
    ),
    (
        FlashAttentionUnsupported,
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
        "attn_implementation='sdpa'",
    ),
    (
        HostCompilerTooNew,
        "error: #error -- unsupported GNU version! gcc versions later than 12 are not supported!",
        "CC=gcc-12",
    ),
    (PythonModuleMissing, "ModuleNotFoundError: No module named 'torch'", "python -m pip install 'torch"),
    (
        ImageNeedsNewerDriver,
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4, please update your driver",
        "update the host's driver",
    ),
    (
        BitsandbytesWithoutCuda,
        "The installed version of bitsandbytes was compiled without GPU support.",
        "pip install -U bitsandbytes",
    ),
    (
        HostOutOfMemory,
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory",
        "mmap=True",
    ),
]


@pytest.mark.parametrize(("rule", "message", "advice"), MESSAGES, ids=[rule.code for rule, _, _ in MESSAGES])
def test_known_messages_are_explained(case: Any, find: Any, rule: type[MessageRule], message: str, advice: str) -> None:
    (finding,) = find(rule, case(None, message))
    assert message.split()[-1] in finding.evidence[0]
    assert any(advice in step for step in finding.fix)


NEAR_MISSES: list[tuple[type[MessageRule], str]] = [
    (PtxTooNew, "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
    (CudaAfterFork, "RuntimeError: CUDA error: initialization error"),
    (KvCacheTooSmall, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    (FlashAttentionUnsupported, "FlashAttention2 is available and used"),
    (HostCompilerTooNew, "gcc (Ubuntu 13.3.0) 13.3.0"),
    (PythonModuleMissing, "ModuleNotFoundError: No module named 'my_torch_helpers'"),
    (ImageNeedsNewerDriver, 'docker: could not select device driver "" with capabilities: [[gpu]].'),
    (BitsandbytesWithoutCuda, "bitsandbytes 0.45.0"),
    (HostOutOfMemory, "torch.OutOfMemoryError: CUDA out of memory."),
]


@pytest.mark.parametrize(("rule", "message"), NEAR_MISSES, ids=[rule.code for rule, _ in NEAR_MISSES])
def test_similar_messages_are_ignored(h200: Any, case: Any, find: Any, rule: type[MessageRule], message: str) -> None:
    assert find(rule, case(None, message)) == []
    assert find(rule, case(h200)) == []


def test_a_host_without_a_driver_is_distinguished(case: Any, find: Any) -> None:
    message = "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file"
    (finding,) = find(ImageNeedsNewerDriver, case(None, message))
    assert finding.title == "The container runtime finds no NVIDIA driver on the host"


def test_a_new_compiler_without_its_number(case: Any, find: Any) -> None:
    (finding,) = find(
        HostCompilerTooNew, case(None, "error -- unsupported clang version! clang version must be less than 18")
    )
    assert "gcc-N" in finding.fix[0]

"""Errors of programs, as people paste them."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rules.software.launch_failures import IllegalMemoryAccess
from ownlab.instruments.doctor.rules.software.program_errors import (
    CheckpointDeviceMissing,
    CublasError,
    DeviceAssert,
    MixedDevices,
    NcclError,
)
from ownlab.machine.records import Host, Machine, Memory
from ownlab.units import MIB

RULES = [CheckpointDeviceMissing, CublasError, DeviceAssert, MixedDevices, IllegalMemoryAccess, NcclError]

MESSAGES = {
    DeviceAssert: (
        "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported",
        "nll_loss.cu:104: block: [0,0,0], thread: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.",
    ),
    IllegalMemoryAccess: (
        "CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: misaligned address",
        "CUDA error: unspecified launch failure",
        "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
    ),
    CublasError: (
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`",
    ),
    NcclError: (
        "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled cuda error",
        (
            "[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout:"
            " WorkNCCL(SeqNum=808, OpType=ALLREDUCE) ran for 600020 milliseconds before timing out."
        ),
    ),
    MixedDevices: (
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    ),
    CheckpointDeviceMissing: (
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
        "RuntimeError: Attempting to deserialize object on CUDA device 2 but torch.cuda.device_count() is 1.",
    ),
}


@pytest.mark.parametrize(
    ("rule", "message"), [(rule, message) for rule, messages in MESSAGES.items() for message in messages]
)
def test_each_error_matches_only_its_own_rule(rule: Any, message: str, case: Any, find: Any) -> None:
    findings_of = {each: find(each, case(None, message)) for each in RULES}
    assert {each for each, findings in findings_of.items() if findings} == {rule}
    (finding,) = findings_of[rule]
    assert (finding.severity, finding.blocks) == ("error", False)
    assert finding.fix


@pytest.mark.parametrize("rule", RULES)
def test_a_healthy_machine_and_other_messages_have_no_finding(rule: Any, h200: Machine, case: Any, find: Any) -> None:
    message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 23.69 GiB in total"
    assert (
        find(rule, case(h200, message, "NCCL version 2.28.9+cuda13.0", "torch.load(path, map_location=device)")) == []
    )


def test_the_xid_of_the_same_event_is_named(case: Any, find: Any) -> None:
    xid = (
        "NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=python, Ch 00000008, intr 10000000. MMU Fault: ENGINE GRAPHICS"
    )
    (finding,) = find(IllegalMemoryAccess, case(None, MESSAGES[IllegalMemoryAccess][0], xid))
    assert finding.evidence[-1] == f"kernel log: {xid}"
    assert "same event" in finding.meaning
    (other,) = find(
        IllegalMemoryAccess,
        case(None, MESSAGES[IllegalMemoryAccess][0], "NVRM: Xid (PCI:0000:01:00): 79, fallen off the bus"),
    )
    assert "same event" not in other.meaning


def test_cublas_without_memory_is_distinguished_from_a_failure(case: Any, find: Any) -> None:
    (no_room,) = find(CublasError, case(None, MESSAGES[CublasError][0]))
    (failed,) = find(CublasError, case(None, MESSAGES[CublasError][1]))
    assert "memory was full" in no_room.title
    assert failed.title == "cuBLAS failed"


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        (MESSAGES[NcclError][0], "network or shared memory"),
        (MESSAGES[NcclError][1], "NCCL passes on a CUDA error"),
        (MESSAGES[NcclError][2], "Another rank died"),
        (
            "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
            "NCCL prints details with NCCL_DEBUG=INFO",
        ),
    ],
)
def test_nccl_meanings(message: str, meaning: str, case: Any, find: Any) -> None:
    (finding,) = find(NcclError, case(None, message))
    assert meaning in finding.meaning
    assert finding.fix[0].startswith("export NCCL_DEBUG=INFO")


def test_a_small_shm_is_evidence(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, host=of(Host, container="docker", memory=of(Memory, shm_total=64 * MIB)))
    (finding,) = find(NcclError, case(machine, MESSAGES[NcclError][0]))
    assert "size of the shared memory: 64 MiB" in finding.evidence
    assert "--ipc=host" in finding.fix[1]


def test_variables_are_set_for_windows(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, host=of(Host, family="windows"))
    (finding,) = find(DeviceAssert, case(machine, MESSAGES[DeviceAssert][0]))
    assert finding.fix[1].startswith("set CUDA_LAUNCH_BLOCKING=1")


def test_repeated_errors_are_quoted_three_times(case: Any, find: Any) -> None:
    texts = [f"[rank{rank}] Watchdog caught collective operation timeout" for rank in range(8)]
    (finding,) = find(NcclError, case(None, *texts))
    assert len(finding.evidence) == 3

"""A card's memory: in use, or not enough."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rules.devices.card_memory import CardMemoryInUse, OutOfMemory
from ownlab.machine.facts import Unknown
from ownlab.machine.records import Card, CardProcess, Host, Machine
from ownlab.units import GIB, MIB

# vllm-project/vllm#8432
WHILE_COUNTING = (
    "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before "
    "calling NumCudaDevices() that might have already set an error? Error 2: out of memory (Triggered internally at "
    "CUDAFunctions.cpp:108.)"
)


def machine_with(of: Any, used: int, processes: Any, **host: Any) -> Machine:
    card = of(
        Card, vendor="nvidia", index=0, name="NVIDIA L40S", memory_total=45 * GIB, memory_used=used, processes=processes
    )
    machine: Machine = of(Machine, host=of(Host, **host), cards=(card,))
    return machine


def test_processes_that_use_the_memory_are_named(of: Any, case: Any, find: Any) -> None:
    worker = of(CardProcess, pid=4711, kind="compute", memory=42 * GIB, command="python serve.py", user="ada")
    (finding,) = find(CardMemoryInUse, case(machine_with(of, 43 * GIB, (worker,))))
    assert finding.severity == "warning"
    assert not finding.blocks
    assert finding.evidence == (
        "card 0 (NVIDIA L40S): 43 GiB of 45 GiB used by python serve.py (pid 4711, ada, 42 GiB)",
    )
    (finding,) = find(CardMemoryInUse, case(machine_with(of, 20 * GIB, (worker,))))
    assert finding.severity == "note"


def test_memory_in_use_by_an_invisible_process(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(CardMemoryInUse, case(machine_with(of, 30 * GIB, (), pid_namespace=True)))
    assert "not visible from here" in finding.title
    assert "a separate PID namespace" in finding.evidence[1]
    assert "--pid=host" in finding.fix[0]
    (finding,) = find(CardMemoryInUse, case(machine_with(of, 30 * GIB, (), pid_namespace=False)))
    assert "died without releasing the memory" in finding.meaning


def test_memory_in_use_by_unknown_processes(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(
        CardMemoryInUse, case(machine_with(of, 30 * GIB, Unknown("WSL does not tell"), virtualisation="wsl2"))
    )
    assert "WSL does not tell" in finding.evidence[0]


def test_a_desktop_or_an_idle_card_is_no_finding(of: Any, case: Any, find: Any, h200: Machine) -> None:
    desktop = of(CardProcess, pid=1, kind="graphics", memory=2 * GIB)
    assert find(CardMemoryInUse, case(machine_with(of, 2 * GIB, (desktop,)))) == []
    assert find(CardMemoryInUse, case(machine_with(of, 600 * MIB, ()))) == []
    assert find(CardMemoryInUse, case(h200)) == []


def test_out_of_memory_with_other_processes_on_the_card(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(OutOfMemory, case(None, paste("../oom/torch-2.6-two-processes.txt")))
    assert "Other processes use memory of the card: process " in finding.meaning
    assert any("--query-compute-apps" in step for step in finding.fix)


def test_the_program_itself_is_not_another_process(case: Any, find: Any, paste: Any) -> None:
    # Process 4711 has 78.16 GiB, and torch itself says that it holds 76.71 of them.
    (finding,) = find(OutOfMemory, case(None, paste("errors/oom-new-wording.txt")))
    assert not finding.blocks
    assert "requested 2.5 GiB, size of the card 79.2 GiB, free 1 GiB" in finding.meaning
    assert "Other processes" not in finding.meaning
    assert not any("expandable_segments" in step for step in finding.fix)  # 1.4 GiB in pieces, 2.5 wanted


def test_cached_memory_before_torch_1_4_is_reserved_memory(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(OutOfMemory, case(None, paste("../oom/torch-1.2-small-card.txt")))
    assert "in torch's tensors 436 MiB, reserved but unused by torch 26.4 MiB" in finding.meaning


def test_out_of_memory_by_fragmentation(case: Any, find: Any, paste: Any) -> None:
    # The old message gives allocated (13.13) and reserved (14.80): 1.67 GiB in pieces, 512 MiB wanted.
    (finding,) = find(OutOfMemory, case(None, paste("errors/oom-old-wording.txt")))
    assert "fragmented" in finding.meaning
    assert finding.fix[0].startswith("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")
    (finding,) = find(OutOfMemory, case(None, paste("errors/oom-mid-wording-2024.txt")))
    assert "reserved but unused by torch 195 MiB" in finding.meaning


@pytest.mark.parametrize(("unused", "fragmented"), [("90.00 MiB", False), ("3.10 GiB", True)])
def test_a_little_unused_memory_of_a_full_card_is_no_fragmentation(
    case: Any, find: Any, unused: str, fragmented: bool
) -> None:
    message = (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has a total capacity of 11.76 GiB of"
        " which 12.00 MiB is free. Including non-PyTorch memory, this process has 11.70 GiB memory in use. Of the allocated memory"
        f" 8.00 GiB is allocated by PyTorch, and {unused} is reserved by PyTorch but unallocated."
    )
    (finding,) = find(OutOfMemory, case(None, message))
    assert ("fragmented" in finding.meaning) is fragmented
    assert ("expandable_segments" in finding.fix[0]) is fragmented


def test_out_of_memory_although_enough_was_free(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(OutOfMemory, case(None, paste("errors/oom-with-free-memory-cached.txt")))
    assert "More memory was free than requested" in finding.meaning


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        # TensorFlow's and XLA's own messages.
        ("ResourceExhaustedError: OOM when allocating tensor with shape[64,512]", "TF_FORCE_GPU_ALLOW_GROWTH=true"),
        (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
            "XLA_PYTHON_CLIENT_PREALLOCATE=false",
        ),
    ],
)
def test_out_of_memory_in_other_frameworks(case: Any, find: Any, message: str, advice: str) -> None:
    (finding,) = find(OutOfMemory, case(None, message))
    assert any(advice in step for step in finding.fix)


def test_out_of_memory_while_the_cards_are_counted(of: Any, case: Any, find: Any, paste: Any) -> None:
    wsl = of(Machine, host=of(Host, virtualisation="wsl2"))
    (finding,) = find(OutOfMemory, case(wsl, WHILE_COUNTING))
    assert finding.blocks
    assert "WSL with many cards is known to fail" in finding.meaning


def test_host_memory_is_another_rule(case: Any, find: Any, paste: Any) -> None:
    assert find(OutOfMemory, case(None, "Out of memory: Killed process 4711 (python)")) == []
    assert find(OutOfMemory, case(None, paste("errors/shm-dataloader-bus-error.txt"))) == []


@pytest.mark.parametrize("size", ["1.2.3 GiB", ". GiB", "1..5 GiB", "GiB"])
def test_an_invalid_size_is_left_out(size: str, case: Any, find: Any) -> None:
    (finding,) = find(
        OutOfMemory, case(None, f"CUDA out of memory. Tried to allocate {size} (GPU 0; 15.78 GiB total capacity)")
    )
    assert finding.meaning.startswith("The card works, but the request did not fit: size of the card 15.8 GiB")

"""The differential of pasted messages: complete tables, their order by what the text shows, and messages that no rule knows."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import pytest

from ownlab.instruments.doctor.diagnosis import case_of, diagnose
from ownlab.instruments.doctor.differential import FAMILIES, Family
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.instruments.doctor.records import Finding
from ownlab.instruments.doctor.rules import find_rule
from ownlab.machine.machine_file import load_machine

MACHINES = Path(__file__).resolve().parents[2] / "machines"


def first_of(content: str) -> Finding:
    return diagnose(read_paste(content)).findings[0]


def causes_of(content: str) -> list[str]:
    return [other.cause for other in first_of(content).other_causes]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.title)
def test_a_family_is_complete(family: Family) -> None:
    assert len(family.mechanisms) >= 4
    for code in family.codes:
        find_rule(code)
    assert [cause for cause, count in Counter(each.cause for each in family.mechanisms).items() if count > 1] == []
    for each in family.mechanisms:
        for pattern in (each.sign, each.against, each.only):
            re.compile(pattern)
        for code in each.codes:
            assert code == "rocm-container" or find_rule(code)
        assert len(each.cause) < 260
        assert each.check[0] != " "


# No check removes, purges or reinstalls anything, or changes how the machine starts.
DRASTIC = re.compile(
    r"\bpurge\b|apt(?:-get)? remove|\brm -rf|GRUB_CMDLINE|setpci|uninstall -y|--disable-validation|mkfs|\bdd if"
)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.title)
def test_checks_do_no_harm(family: Family) -> None:
    assert [each.check for each in family.mechanisms if DRASTIC.search(each.check)] == []


# A message alone, and a part of a cause that it can have.
NAMED = [
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "Secure Boot"),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "not on the bus"),
    ("Failed to initialize NVML: Driver/library version mismatch", "container"),
    ("RuntimeError: No CUDA GPUs are available", "CUDA_VISIBLE_DEVICES"),
    ("RuntimeError: No CUDA GPUs are available", "AMD, Intel or Apple"),
    ("RuntimeError: CUDA error: unspecified launch failure", "not stable"),
    ("RuntimeError: CUDA error: device-side assert triggered", "NaN or infinity"),
    ("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "Other programs or users"),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "memory is full"),
    ("docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].", "not configured or not restarted"),
    ("ImportError: libfoo.so.3: cannot open shared object file: No such file or directory", "major version"),
    ("[rank0]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2006, unhandled system error", "network interface"),
    ("ROCk module is NOT loaded, possibly no GPU devices", "may not open /dev/kfd"),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_89'", "too new for an old card"),
    ("NVRM: Xid (PCI:0000:02:00): 31, pid=77, name=python, MMU Fault", "Clocks, voltage or heat"),
    ("NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.", "faulty"),
    ("clEnqueueNDRangeKernel failed: CL_OUT_OF_RESOURCES", "more registers"),
    ("nvidia 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0021 address=0xd0000000]", "firmware (BIOS)"),
    ("RuntimeError: Found no NVIDIA driver on your system.", "hosted notebook"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "cause"), NAMED)
def test_the_other_causes_of_a_message_are_named(message: str, cause: str) -> None:
    assert any(cause in each for each in causes_of(message))


# A message, a second line with a sign, and the part of the cause that then comes first.
ORDERED = [
    ("RuntimeError: No CUDA GPUs are available", "kernel: device 0000:01:00.0 back from suspend", "The driver does not work"),
    ("CUDA error: out of memory", "OS: Windows 11, 12 cards, miner 3.1", "paging file"),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", "import flash_attn", "An extension"),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "the card is in an eGPU case (Thunderbolt)", "not on the bus"),
    ("Failed to initialize NVML: Driver/library version mismatch", "NVIDIA-Linux-x86_64-550.54.run beside cuda-drivers", "Two installations"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "sign", "cause"), ORDERED)
def test_what_the_text_shows_comes_first(message: str, sign: str, cause: str) -> None:
    with_sign = causes_of(f"{message}\n{sign}")
    assert cause in with_sign[0] or cause in with_sign[1]
    without = next((place for place, each in enumerate(causes_of(message)) if cause in each), 99)
    assert next(place for place, each in enumerate(with_sign) if cause in each) < max(without, 1)


def test_what_the_text_excludes_is_left_out() -> None:
    windows = "CUDA error: out of memory\nC:\\miner> OS: Windows 10"
    assert any("paging file" in cause for cause in causes_of(windows))
    assert not any("paging file" in cause for cause in causes_of("/home/me/train.py: CUDA error: out of memory"))


# Messages of tools that no rule names, by their grammar.
UNKNOWN_TOOLS = [
    ("ImportError: libquux_runtime.so.7: cannot open shared object file: No such file or directory", "library is not found"),
    ("fluxsim: error: no suitable graphics adapter found", "finds no GPU"),
    ("nouveau 0000:01:00.0: gr: firmware unavailable", "kernel log"),
    ("vfio-pci 0000:01:00.0: not ready 65535ms after FLR; giving up", "virtual machine"),
    ("Unknown OpenCL Error (221)", "graphics interface"),
    ("solver: FATAL: engine was not compiled with CUDA", "without GPU support"),
    ("Error: failed to create CUDA context (Invalid context)", "CUDA does not start"),
    ("renderd: NVENC unavailable: no capable devices", "video engine"),
    ("java.lang.UnsatisfiedLinkError: libcudf.so", "library is not found"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "title"), UNKNOWN_TOOLS)
def test_a_message_of_an_unknown_tool_is_answered_by_its_grammar(message: str, title: str) -> None:
    finding = first_of(message)
    assert title in finding.title or finding.code != "several-causes"
    assert finding.fix
    assert len(finding.other_causes) >= 3


def test_a_line_that_is_marked_as_a_warning_may_be_only_a_notice() -> None:
    marked = first_of("libEGL warning: egl: failed to create dri2 screen")
    assert "only a notice" in marked.other_causes[0].cause
    assert first_of("RuntimeError: No CUDA GPUs are available").other_causes[0].cause != marked.other_causes[0].cause


@pytest.mark.parametrize(
    "content",
    [
        "step 12: GPU memory 4.1 GiB, validation error 0.12\nNCCL version 2.21.5+cuda12.4",
        "loaded libcudart.so.12 and libcudnn.so.9; device cuda:0; 0 errors",
        "docker: 3 containers, nvidia runtime, 0 warnings",
    ],
)
def test_logs_of_good_runs_get_no_family(content: str) -> None:
    assert [finding.code for finding in diagnose(read_paste(content)).findings if finding.severity != "note"] == []


def test_a_family_of_one_program_is_not_shown_for_another() -> None:
    assert not any(
        "cuDNN 8 from PyPI" in cause or "1.18" in cause
        for cause in causes_of("lightgbm.basic.LightGBMError: GPU Tree Learner was not enabled in this build.")
    )
    assert any(
        "1.18" in cause
        for cause in causes_of(
            "Specified provider 'CUDAExecutionProvider' is not in available provider names. onnxruntime"
        )
    )


def test_what_a_message_alone_does_not_prove_is_said() -> None:
    assert "does not prove" in first_of("RuntimeError: CUDA error: device-side assert triggered").meaning
    assert "does not prove" in first_of("NVRM: Xid (PCI:0000:02:00): 31, pid=77, name=python").meaning
    assert "does not prove" not in first_of("No space left on device: '/dev/shm/torch_1'").meaning


def test_rules_of_one_line_are_not_told_twice() -> None:
    findings = diagnose(read_paste("RuntimeError: No CUDA GPUs are available")).findings
    assert [finding.code for finding in findings] == ["no-visible-gpu"]


def test_a_machine_that_was_read_has_no_differential() -> None:
    machines = [
        machine for path in sorted(MACHINES.glob("*.json")) if (machine := load_machine(path)).origin != "pasted"
    ]
    findings = [finding for machine in machines for finding in diagnose(case_of(machine)).findings]
    assert findings
    assert all(not finding.other_causes for finding in findings)


def test_a_long_text_is_answered_fast() -> None:
    lines = [
        f"worker {number} could not connect to GPU {number % 8}, retrying; /usr/lib/libfoo.so.{number % 9}"
        for number in range(30_000)
    ]
    started = time.process_time()
    assert diagnose(read_paste("\n".join(lines))) is not None
    assert time.process_time() - started < 20

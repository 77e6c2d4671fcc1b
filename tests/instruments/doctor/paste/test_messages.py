"""Text outside of every report: errors, the kernel log, answers at a prompt, variables; and its cleaning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.messages import program_lines
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.machine.facts import NOT_READ, Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Machine

Read = Callable[[str], Machine]
TorchOf = Callable[[Machine], Framework]
CardsOf = Callable[[Machine], tuple[Card, ...]]


def test_an_error_alone_requests_further_reports() -> None:
    case = read_paste("AssertionError: Torch not compiled with CUDA enabled\n")
    assert [(message.where, message.text) for message in case.messages] == [
        ("pasted text", "AssertionError: Torch not compiled with CUDA enabled")
    ]
    assert case.recognised == ("error text",)
    assert [line.split("`")[1] for line in case.missing] == ["nvidia-smi", "python -m torch.utils.collect_env"]
    assert case.machine.cards == NOT_READ


def test_blocks_are_messages_and_borders_are_not() -> None:
    case = read_paste(
        'Traceback (most recent call last):\n  File "x"\nValueError: CUDA\n\n+-----+\n$ nvidia-smi -L\n\nRuntimeError: second\n'
    )
    assert [message.text.splitlines()[-1] for message in case.messages] == ["ValueError: CUDA", "RuntimeError: second"]


def test_the_kernels_lines() -> None:
    lines = (
        "[Sun Feb 23 16:24:18 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting",
        "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001",
        "[74889.542044] pcieport 0000:00:02.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
    )
    case = read_paste("\n".join(lines))
    assert case.machine.host.kernel_log == Known(lines, "pasted kernel log")
    assert [(message.where, message.text) for message in case.messages] == [("kernel log", line) for line in lines]
    assert case.recognised == ("kernel log",)


def test_lines_wrapped_by_a_console_are_joined() -> None:
    case = read_paste(
        "RuntimeError: Detected that PyTorch and torchvision were compiled with different\n"
        "CUDA versions. PyTorch has CUDA Version=11.7 and torchvision has CUDA\nVersion=11.8. Please reinstall.\n"
    )
    assert "compiled with different CUDA versions. PyTorch" in case.messages[0].text
    apart = (
        "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported\n"
    )
    assert read_paste(apart).messages[0].text == apart.strip()


@pytest.mark.parametrize(
    "text",
    [
        ">>> import torch\n>>> torch.__version__\n'2.1.0+cu121'\n>>> torch.cuda.is_available()\nFalse\n",
        "In [1]: torch.__version__\nOut[1]: '2.1.0+cu121'\nIn [2]: torch.cuda.is_available()\nOut[2]: False\n",
        "$ python -c 'import torch; print(torch.__version__, torch.cuda.is_available())'\n2.1.0+cu121 False\n",
        "torch.__version__: 2.1.0+cu121\ntorch.cuda.is_available() = False\n",
        "2.1.0+cu121\nFalse\n",
        ">>> torch.cuda.is_available()\n/x/torch/cuda/__init__.py:52: UserWarning: CUDA initialization: x\n  return y\nFalse\n2.1.0+cu121\n",
    ],
)
def test_answers_at_a_python_prompt(text: str, read: Read, torch_of: TorchOf) -> None:
    torch = torch_of(read(text))
    assert (value_of(torch.version), value_of(torch.build), value_of(torch.cuda)) == ("2.1.0+cu121", "cuda", "12.1")
    assert value_of(torch.devices) == ()


def test_more_answers(read: Read, torch_of: TorchOf) -> None:
    cpu = torch_of(read(">>> torch.version.cuda\nNone\n>>> torch.__version__\n'2.1.0'\n"))
    assert (value_of(cpu.build), value_of(cpu.version)) == ("cpu", "2.1.0")
    seen = torch_of(
        read(">>> torch.cuda.get_device_name(0)\n'NVIDIA GeForce RTX 3060'\n>>> torch.version.cuda\n'11.8'\n")
    )
    assert [device.name for device in value_of(seen.devices) or ()] == ["NVIDIA GeForce RTX 3060"]
    assert value_of(seen.cuda) == "11.8"
    arches = torch_of(read(">>> torch.cuda.get_arch_list()\n['sm_50', 'sm_90', 'compute_90']\n"))
    assert value_of(arches.arch_list) == ("sm_50", "sm_90", "compute_90")


def test_cards_in_a_warning_of_torch(linux: str, read: Read, torch_of: TorchOf, cards_of: CardsOf) -> None:
    warning = (
        "    Found GPU0 NVIDIA GeForce GTX 1080 Ti which is of cuda capability 6.1.\n"
        "    Found GPU1 Tesla P100-PCIE-16GB which is of cuda capability 6.0.\n"
        "NVIDIA GeForce GTX 1080 Ti with CUDA capability sm_61 is not compatible with the current PyTorch installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_75 sm_80 sm_120 compute_120.\n"
    )
    machine = read(warning)
    named = [(value_of(card.name), value_of(card.compute_capability)) for card in cards_of(machine)]
    assert named == [("NVIDIA GeForce GTX 1080 Ti", "6.1"), ("Tesla P100-PCIE-16GB", "6.0")]
    assert value_of(torch_of(machine).arch_list) == ("sm_75", "sm_80", "sm_120", "compute_120")
    both = read(f"{warning}\n{linux}")  # where the cards are known, the warning's numbers would only confuse
    assert [value_of(card.compute_capability) for card in cards_of(both)] == [None, None]
    assert value_of(torch_of(both).arch_list) == ("sm_75", "sm_80", "sm_120", "compute_120")


def test_variables(read: Read) -> None:
    machine = read(
        "export CUDA_VISIBLE_DEVICES=1,0\nos.environ[\"CUDA_DEVICE_ORDER\"] = 'PCI_BUS_ID'\n$ echo $LD_LIBRARY_PATH\n/opt/x:/opt/y\n"
        "user@host:~$ NCCL_DEBUG=INFO python train.py\nNVRM version: NVIDIA UNIX x86_64 Kernel Module  460.56  Tue Feb 23\nMY_TOKEN=secret\n"
    )
    variables = {variable.name: variable.value for variable in value_of(machine.environment) or ()}
    assert variables == {
        "CUDA_VISIBLE_DEVICES": "1,0",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "LD_LIBRARY_PATH": "/opt/x:/opt/y",
        "NCCL_DEBUG": "INFO",
    }
    assert value_of(machine.nvidia.module_version) == "460.56"


def test_a_mig_instance_without_a_uuid_leaves_the_visible_cards_unknown(linux: str, read: Read) -> None:
    machine = read(f"{linux}\nCUDA_VISIBLE_DEVICES=MIG-06a16211-6455-5548-9f34-9a810ac2fc5c\n")
    (variable,) = value_of(machine.environment) or ()
    assert "cannot be determined" in variable.meaning


DRESS: dict[str, Callable[[str], str]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "fenced": lambda text: f"Here:\n\n```shell\n{text}```\n",
    "indented": lambda text: "".join(f"    {line}\n" for line in text.splitlines()),
    "numbered": lambda text: "".join(f"{number:6d}\t{line}\n" for number, line in enumerate(text.splitlines(), 1)),
    "coloured": lambda text: "\x1b[32m" + text.replace("\n", "\x1b[0m\n\x1b[1;32m") + "\x1b[0m",
    "hard spaces": lambda text: text.replace(" ", "\xa0"),
    "tabs": lambda text: text.replace(":    ", ":\t"),
    "entities": lambda text: text.replace(" ", "&nbsp;"),
    "a CI log": lambda text: "".join(f"2024-05-01T12:00:00.1234567Z {line}\n" for line in text.splitlines()),
    "compose": lambda text: "".join(f"worker-1  | {line or ' '}\n" for line in text.splitlines()),
    "a rank": lambda text: "".join(f"[rank0]: {line}\n" for line in text.splitlines()),
    "a prompt": lambda text: f"(base) user@host:~$ python -m torch.utils.collect_env\n{text}(base) user@host:~$\n",
    "UTF-16": lambda text: text,
}


@pytest.mark.parametrize("dress", DRESS)
def test_a_report_is_read_in_any_formatting(
    dress: str, linux: str, read: Read, torch_of: TorchOf, cards_of: CardsOf
) -> None:
    dressed = DRESS[dress](linux)
    machine = read_paste(dressed.encode("utf-16") if dress == "UTF-16" else dressed).machine
    plain = read(linux)
    assert torch_of(machine) == torch_of(plain)
    assert cards_of(machine) == cards_of(plain)
    assert machine.nvidia == plain.nvidia
    assert machine.toolkits.nvcc == plain.toolkits.nvcc
    assert machine.host.system == plain.host.system


def test_prose_about_an_accelerator_is_accepted_but_is_not_an_error() -> None:
    case = read_paste("My GPU feels slow today.")
    assert case.recognised == ("words about accelerators",)
    assert isinstance(case.machine.cards, Unknown)


ERRORS = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, Timeout(ms)=600000)",
    "A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0.0 as it may crash.",
    "HIP out of memory. Tried to allocate 2.00 GiB",
    "MPS backend out of memory (MPS allocated: 17.09 GB, other allocations: 784.00 KB, max allowed: 18.13 GB)",
    "NPU out of memory. Tried to allocate 20.00 MiB",
    "failed call to cuInit: UNKNOWN ERROR (303)",
    "CUDA error: unspecified launch failure",
    "no CUDA-capable device is detected",
    "uncorrectable ECC error encountered",
    "the provided PTX was compiled with an unsupported toolchain",
    "Could not find cuda drivers on your machine, GPU will not be used.",
    "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
    "Cannot re-initialize CUDA in forked subprocess",
    "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
    "Free memory on device (3.0/23.6 GiB) on startup is less than desired GPU memory utilization (0.9, 21.3 GiB)",
    "ModuleNotFoundError: No module named 'torch'",
    "FlashAttention only supports Ampere GPUs or newer.",
    "#error -- unsupported GNU version! gcc versions later than 12 are not supported!",
    "ZeroDivisionError: division by zero",
    "zsh: command not found: python",
    "thread 'main' panicked: fatal: the disk is on fire",
)


@pytest.mark.parametrize("line", ERRORS)
def test_any_error_is_accepted_and_requests_reports(line: str) -> None:
    case = read_paste(line)
    assert case.recognised == ("error text",)
    assert [message.text for message in case.messages] == [line]
    assert case.missing


@pytest.mark.parametrize(
    "line",
    [
        "[ 1234.567890] Out of memory: Killed process 4242 (python) total-vm:123456kB, anon-rss:65536kB",
        "Memory cgroup out of memory: Killed process 4242 (python)",
        "[ 1234.567890] python invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0",
        "[ 1234.567890] mce: [Hardware Error]: Machine check events logged",
    ],
)
def test_irrelevant_lines_of_the_kernel_log(line: str) -> None:
    case = read_paste(line)
    assert case.recognised == ("kernel log",)
    assert [(message.where, message.text) for message in case.messages] == [("kernel log", line)]


def test_nvidia_smi_is_not_there() -> None:
    assert read_paste("nvidia-smi: command not found").recognised == ("failure of nvidia-smi",)


def test_npu_errors_request_npu_smi_and_mps_errors_request_neither() -> None:
    assert "`npu-smi info`" in read_paste("RuntimeError: NPU out of memory. Tried to allocate 1 GiB").missing[0]
    assert not any("-smi" in line for line in read_paste("RuntimeError: MPS backend out of memory").missing)


def test_rocm_errors_request_rocminfo() -> None:
    assert "`rocminfo`" in read_paste("RuntimeError: HIP error: invalid device ordinal").missing[0]


TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/train.py", line 12, in <module>
    raise RuntimeError("Found no NVIDIA driver on your system")
  File "/srv/lib.py", line 40, in step
    if "CUDA out of memory" in str(error):
       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        retry("insufficient shared memory")
ValueError: batch 3 has a wrong shape
"""


@pytest.mark.parametrize("prefix", ["", "[rank0]: ", "    ", "ERROR 05-01 12:00:00 [core.py:12] "])
def test_source_lines_of_a_traceback_are_not_messages(prefix: str) -> None:
    text = "".join(f"{prefix}{line}\n" for line in TRACEBACK.splitlines())
    case = read_paste(text)
    (message,) = case.messages
    assert [line.removeprefix(prefix).split()[0] for line in message.text.splitlines()] == [
        "Traceback",
        "File",
        "File",
        "ValueError:",
    ]
    assert diagnose(case).findings == ()


def test_source_lines_of_a_broken_traceback_are_not_messages() -> None:
    text = (
        '  File\n"/opt/conda/envs/a-long-name/lib/python3.10/site-packages/torch/cuda/x.py", line 12, in check\n'
        '    raise RuntimeError("Something is wrong with this machine: Found no NVIDIA driver\non your system")\nKeyError: 3\n'
    )
    assert diagnose(read_paste(text)).findings == ()


def test_the_last_line_of_a_traceback_is_a_message_at_any_indentation() -> None:
    text = '  File "x.py", line 1, in f\n    return g()\n    torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n'
    assert [finding.code for finding in diagnose(read_paste(text)).findings] == ["out-of-memory"]


NOT_SAID = (
    'if "CUDA out of memory" in str(e):',
    'elif isinstance(e, RuntimeError) and "out of memory" in str(e):',
    "    except torch.cuda.OutOfMemoryError:",
    'raise RuntimeError("Found no NVIDIA driver on your system")',
    '----> 7 raise AssertionError("Torch not compiled with CUDA enabled")',
    '    298             raise AssertionError("Torch not compiled with CUDA enabled")',
    'message = "CUDA out of memory"',
    'In [3]: print("CUDA out of memory")',
    'message: str = f"CUDA out of memory in {step}"',
    'logger.warning("CUDA out of memory, batch %d", batch)',
    'print("CUDA error: no kernel image is available for execution on the device")',
    'throw std::runtime_error("CUDA out of memory");',
    '+    return "CUDA out of memory"',
    "2024-05-01 12:00:00 WARNING trainer: caught CUDA out of memory, retrying with batch 4",
    "INFO: recovered from CUDA out of memory, continuing",
)


@pytest.mark.parametrize("line", NOT_SAID)
def test_source_code_and_caught_errors_are_not_messages(line: str) -> None:
    assert program_lines([line]) == []
    assert diagnose(read_paste(f"Using cuda:0\n{line}\n")).findings == ()


@pytest.mark.parametrize(
    "line",
    [
        "I read about 'CUDA out of memory' in the docs, but here everything works fine.",
        'Our GPU job never shows "CUDA out of memory" any more.',
        "There is a page on `CUDA out of memory` errors; my torch code is fine.",
    ],
)
def test_quotations_in_passing_are_not_errors(line: str) -> None:
    assert diagnose(read_paste(line)).findings == ()


SAID = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
    "RuntimeError('CUDA out of memory. Tried to allocate 20.00 MiB')",
    'I get "CUDA out of memory" when I train.',
    "It fails with 'CUDA out of memory' after an hour",
    "I see 'RuntimeError: CUDA out of memory' in the log",
    '{"level": "error", "message": "CUDA out of memory"}',
    'time=2024-05-01T12:00:00Z level=ERROR msg="CUDA out of memory"',
    "[12:00:00] worker said: 'CUDA out of memory'",
    "E       RuntimeError: CUDA out of memory",
)


@pytest.mark.parametrize("line", SAID)
def test_a_quoted_error_that_happened_is_an_error(line: str) -> None:
    assert program_lines([line]) == [line]
    assert [finding.code for finding in diagnose(read_paste(line)).findings] == ["out-of-memory"]


def test_source_code_about_accelerators_requests_further_reports() -> None:
    case = read_paste('if "CUDA out of memory" in str(e):\n    torch.cuda.empty_cache()\n')
    assert case.recognised == ("words about accelerators",)
    assert [line.split("`")[1] for line in case.missing] == ["nvidia-smi", "python -m torch.utils.collect_env"]


def test_a_variable_set_in_code_is_kept() -> None:
    line = 'os.environ["CUDA_VISIBLE_DEVICES"] = "1"'
    assert program_lines([line]) == [line]

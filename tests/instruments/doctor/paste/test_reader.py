"""Saved machines, empty, long and damaged texts: each is read, or rejected with a clear message, in little time."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ownlab.errors import InputError, NotRecognised, OwnlabError, RecordError
from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.json_encoding import encode_json
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Host, Interpreter, Machine, Nvidia

SAVED = Machine(
    taken_at="2026-11-15T02:38:37+00:00",
    host=Host(kernel_log=Known(("NVRM: Xid (PCI:0000:9b:00): 79, “GPU has fallen off the bus”",), "dmesg")),
    cards=Known((Card("nvidia", 0, name=Known("NVIDIA H200", "NVML")),), "NVML"),
    nvidia=Nvidia(driver=Known("580.159.04", "NVML")),
    interpreter=Interpreter(frameworks=Known((Framework("torch", error="CUDA error: x"),), "guest")),
)


def saved(machine: Machine = SAVED) -> str:
    return msgspec.json.format(encode_json(machine), indent=1).decode()


# --- saved machines ---------------------------------------------------------------------------------------------------


def test_a_saved_machine_is_read_back() -> None:
    case = read_paste(saved().encode())
    assert case.machine == SAVED
    assert case.machine.origin == "live"
    assert (case.recognised, case.missing) == (("saved machine",), ())
    assert {message.where for message in case.messages} >= {"torch", "kernel log"}


def test_a_saved_diagnosis_contains_its_machine() -> None:
    diagnosis = diagnose(read_paste(saved()))
    assert read_paste(encode_json(diagnosis)).machine == SAVED


def test_a_saved_machine_inside_other_text() -> None:
    case = read_paste(
        f"Saved with ownlab:\n\n```json\n{saved()}\n```\n\nRuntimeError: CUDA error: no kernel image is available\n"
    )
    assert value_of(case.machine.nvidia.driver) == "580.159.04"
    assert case.recognised == ("saved machine", "error text")
    assert any("no kernel image" in message.text for message in case.messages)
    assert any(message.where == "torch" for message in case.messages)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.99])
def test_a_truncated_saved_machine_is_rejected(part: float) -> None:
    text = saved()
    with pytest.raises(RecordError, match="not a saved machine"):
        read_paste(text[: int(len(text) * part)])


def test_a_machine_of_a_newer_format_is_rejected() -> None:
    with pytest.raises(RecordError, match="format 2"):
        read_paste(saved(msgspec.structs.replace(SAVED, format=2)))


# --- nothing, prose, binary -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " \n\t\r\n ", "\ufeff", "\n" * 100])
def test_nothing(text: str) -> None:
    with pytest.raises(NotRecognised) as failure:
        read_paste(text, name="stdin")
    assert "stdin" in failure.value.message
    assert "collect_env" in failure.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "Dear all,\n\nplease find the minutes attached.\n",
        '{"a": 1}',
        "<html><body>x</body></html>",
        "1, 2, 3\n4, 5, 6\n",
        "=====\n",
    ],
)
def test_prose(text: str) -> None:
    with pytest.raises(NotRecognised, match="contains no report"):
        read_paste(text)


def test_bytes_are_decoded_and_binary_data_is_rejected() -> None:
    case = read_paste("RuntimeError: CUDA 错误\n".encode("utf-16"))
    assert case.messages[0].text == "RuntimeError: CUDA 错误"
    with pytest.raises(InputError, match=r"core\.1234 is not text"):
        read_paste(b"\x7fELF\x02\x01\x01\x00\x00", name="core.1234")


# --- long and odd texts -----------------------------------------------------------------------------------------------


def test_a_long_log_is_read_in_seconds_and_keeps_its_beginning_and_end(linux: str) -> None:
    step = (
        "2024-05-01 12:00:00,123 - INFO - step {} of training, tokens/s=12345, memory 23.1 GB, RuntimeWarning: slow\n"
    )
    log = "".join(map(step.format, range(100_000)))
    started = time.process_time()
    case = read_paste(f"RuntimeError: CUDA error: the first\n{log}{linux}\n{log}RuntimeError: CUDA error: the last\n")
    assert time.process_time() - started < 30
    assert case.machine.nvidia.driver == Known("535.104.05", "pasted collect_env")
    assert len(case.messages) == 2000
    assert "the first" in case.messages[0].text
    assert "the last" in case.messages[-1].text
    assert case.recognised[-1] == "error text (2,000 of 200,002 lines are kept)"


def test_a_long_kernel_log_is_shortened() -> None:
    case = read_paste(
        "".join(f"[{number}.123456] NVRM: Xid (PCI:0000:cb:00): 13, pid={number}\n" for number in range(5000))
    )
    assert len(value_of(case.machine.host.kernel_log) or ()) == 1000
    assert case.recognised == ("kernel log (the first and the last 500 of 5,000 lines)",)


def test_omitted_lines_are_counted_for_log_and_errors() -> None:
    log = "".join(f"[{number}.123456] NVRM: Xid (PCI:0000:cb:00): 13, pid={number}\n" for number in range(1200))
    errors = "".join(f"RuntimeError: CUDA error: number {number}\n" for number in range(3000))
    assert read_paste(log + errors).recognised == (
        "kernel log (the first and the last 500 of 1,200 lines)",
        "error text (2,000 of 3,000 lines are kept)",
    )


ODD = (
    "{\n", "[\n", "a", "a_", "1, ", "a, ", '<?xml version="1.0"?>\n', "    Foo : bar\n", "| 0  a b c |\n", "GPU 0: NVIDIA H200\n",
    "[pip3] torch==2.1.0\n", "torch==2.1.0\n", "GPU 00000000:01:00.0\n", "| NVIDIA-SMI 535.1  Driver Version: 535.1 |\n",
    "index, name, uuid\n", "\t", "01:00.0 VGA compatible controller: NVIDIA\n", "==============NVSMI LOG==============\n", "> > > a\n",
    '{"a": 1}\n', "&lt;", "* Intel\n", "PyTorch version: 2.1.0+cu121\n", ">>> torch.__version__\n", "torch.__version__ ", "Agent 1\n",
    "GPU[0]\t: x: y\n", "GPU: 0\n   A: b\n", "PyTorch built with:\n  - a\n", "=" * 30 + "\n", "CUDA_HOME=/x\n", "Name: torch\nVersion: 2.1\n",
    "0, NVIDIA A100, 8 MiB\n", "<nvidia_smi_log>", "<nvidia_smi_log><gpu>", "x -1  | ", "[1:2:3] [a] ", "nvidia-smi --query-gpu ", "9" * 5000,
    "caught ", "flash", "-> ' ", "--" * 900 + "> (\n", "Error ", "if (", "a 'b c", "a: ",
    'File "', '  File "a", line 1\n', "x = ", "the driver of\nthe card is\n", "RTX 4090 ", "A100\n",
    "OMP_NUM_THREADS=" + "9" * 5000 + "\n", "| 0  NVIDIA" + " " * 900 + "\n", "Architecture:" + " " * 3000 + "x\n",
)  # fmt: skip


@pytest.mark.parametrize("line", ODD)
def test_endless_lines_are_read_quickly(line: str) -> None:
    """No expression may need more than the length of its text: 400 kB of each, in well under a second on any machine."""
    started = time.process_time()  # of this process alone, whatever else the machine does
    with contextlib.suppress(OwnlabError):
        read_paste((line * (400_000 // len(line) + 1))[:400_000])
    assert time.process_time() - started < 10


# --- damaged texts ----------------------------------------------------------------------------------------------------


def damaged(texts: list[bytes], chance: random.Random) -> bytes:
    data = bytearray(chance.choice(texts))
    for _ in range(chance.randint(1, 6)):
        if not data:
            break
        start = chance.randrange(len(data))
        end = min(len(data), start + chance.randint(1, max(1, len(data) // 4)))
        way = chance.randrange(7)
        if way == 0:
            del data[start:end]
        elif way == 1:
            del data[start:]
        elif way == 2:
            del data[:start]
        elif way == 3:
            for _ in range(20):
                data[chance.randrange(len(data))] = chance.randrange(256)
        elif way == 4:
            data[start:start] = data[start:end]
        elif way == 5:
            other = chance.choice(texts)
            data[start:start] = other[: chance.randrange(len(other))]
        else:
            data = data.replace(b"\n", chance.choice([b"\r\n", b"", b"\n\n", b" "]))
    return bytes(data)


def test_damaged_texts_never_crash(pastes: Path, linux: str) -> None:
    texts = [path.read_bytes() for path in sorted(pastes.glob("*/*")) if path.parent.name != "confirmed"] + [
        linux.encode(),
        saved().encode(),
    ]
    chance = random.Random(20261115)
    started, read, refused = time.monotonic(), 0, 0
    # On a slow machine fewer than 600, but never too few.
    while read + refused < 600 and (time.monotonic() - started < 20 or read <= 100 or refused <= 10):
        data = damaged(texts, chance)
        try:
            encode_json(read_paste(data))
            read += 1
        except OwnlabError:
            refused += 1
    assert read > 100
    assert refused > 10


def test_every_beginning_of_a_report_is_read(linux: str, read: Callable[[str], Machine]) -> None:
    lines = linux.splitlines(keepends=True)
    for count in range(2, len(lines)):
        machine = read("".join(lines[:count]))
        assert value_of((value_of(machine.interpreter.frameworks) or ())[0].version) == "2.4.0+cu121"
    for count in range(len(lines) - 2):
        assert read_paste("".join(lines[count:])).recognised


def test_unknown_facts_have_reasons(linux: str) -> None:
    machine = read_paste(linux.replace("535.104.05", "Could not collect")).machine
    assert isinstance(machine.nvidia.driver, Unknown)
    assert machine.nvidia.driver.reason


@pytest.mark.parametrize(
    ("pasted", "names"),
    [("GPU: AMD A10-7850K Radeon R7", []), ("GPU: NVIDIA A10-24Q", ["NVIDIA A10"]), ("our GPU is an A10", ["A10"])],
)
def test_a_processor_of_amd_is_not_taken_for_the_card_a10(pasted: str, names: list[str]) -> None:
    cards = value_of(read_paste(pasted).machine.cards) or ()
    assert [value_of(card.name) for card in cards] == names


@pytest.mark.parametrize(("backend", "code"), [("rocm", "harmless"), ("cuda", "jax-build")])
def test_a_back_end_that_is_not_meant_does_not_make_jax_a_cpu_build(backend: str, code: str) -> None:
    line = (
        f"Unable to initialize backend '{backend}': module 'jaxlib.xla_extension' has no attribute 'GpuAllocatorConfig'"
    )
    assert [finding.code for finding in diagnose(read_paste(line)).findings] == [code]

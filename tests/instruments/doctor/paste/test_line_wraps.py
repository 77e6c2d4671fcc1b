"""Errors wrapped by a console or an e-mail program are found as if they were on one line."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from ownlab.instruments.doctor.diagnosis import diagnose
from ownlab.instruments.doctor.paste.line_wraps import unwrap
from ownlab.instruments.doctor.paste.reader import read_paste

ERRORS = {
    "driver-old": "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11060). Please update"
    " your GPU driver by downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx",
    "no-driver": "/usr/lib/python3/dist-packages/torch/cuda/__init__.py:107: UserWarning: CUDA initialization: Found no NVIDIA"
    " driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com",
    "cuda-mismatch": "RuntimeError: The detected CUDA version (12.1) mismatches the version that was used to compile PyTorch (11.8)."
    " Please make sure to use the same CUDA versions.",
    "library-missing": "    from torch._C import *  # ImportError: libcudart.so.11.0: cannot open shared object file: No such file or"
    " directory",
    "no-smi": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver"
    " is installed and running.",
}


def fold(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False))


@pytest.mark.parametrize("width", [60, 66, 72, 76, 80, 85, 100, 120])
@pytest.mark.parametrize("code", ERRORS)
def test_a_wrapped_error_is_found_once(code: str, width: int) -> None:
    findings = [finding for finding in diagnose(read_paste(fold(ERRORS[code], width))).findings if finding.code == code]
    assert len(findings) == 1
    quotes = [line for line in findings[0].evidence if line.startswith(("pasted text: ", "nvidia-smi: "))]
    assert len(quotes) == 1


@pytest.mark.parametrize("width", [60, 72, 80, 100])
def test_recorded_errors_are_found_when_wrapped(width: int, pastes: Path) -> None:
    missed = []
    for path in sorted((pastes / "errors").glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if "wrapped" in path.name or "lspci" in path.name or "nvidia-smi -L" in text:
            continue  # broken twice, or a report: those have their own lines
        broken = "\n".join(fold(line, width) if len(line) > width else line for line in text.splitlines())
        codes = {finding.code for finding in diagnose(read_paste(broken)).findings}
        whole = {finding.code for finding in diagnose(read_paste(text)).findings}
        missed += [(path.name, code) for code in whole - codes]
    assert len(missed) <= 1, missed  # a symbol of 150 letters leaves half a line empty


APART = (
    "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported",
    "This is Ubuntu 22.04 inside of Windows 11 with the kernel of WSL2 and docker\nImportError: libcuda.so.1: cannot open shared object file",
    "The program was started on the cluster with two nodes and eight GPUs each\nnvidia-smi: command not found",
    "copying the weights of the model to the device, please wait a moment now\nUsing the CPU for the rest",
    "epoch one of the training is done and the loss is lower than it was\nepoch two of the training is done and the loss is lower",
    "the loss of the first step of the first epoch of the training was 3.25\n2024-05-01 12:00:00 error in the loader",
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system and so it fails\n[12.345678] nvidia: loading out-of-tree module",
    "| GPU  Name        Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC and\n| the fan and the temperature",
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124",
    "the driver is not loaded, so that I have to run the command in a shell as\nsudo modprobe nvidia",
)


@pytest.mark.parametrize("text", APART)
def test_unrelated_lines_stay_apart(text: str) -> None:
    assert unwrap(text.splitlines()) == text.splitlines()


def test_evidence_has_one_line() -> None:
    diagnosis = diagnose(read_paste(APART[1]))
    quotes = [line for finding in diagnosis.findings for line in finding.evidence if "libcuda" in line]
    assert quotes
    assert all("WSL2" not in line for line in quotes)


def test_a_sentence_ends() -> None:
    line = "and the trainer goes on with the {}th step of the epoch and then with the"
    joined = unwrap([f"{chr(97 + index % 26)}{line.format(index)}" for index in range(1000)])
    assert 20 < len(joined) < 1000
    assert max(map(len, joined)) < 4000

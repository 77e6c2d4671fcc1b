"""What programs said: the lines that belong to no report, as messages in which rules look for known signs."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ownlab.instruments.doctor.records import Message

__all__ = ["Heard", "hear"]

_KEPT = 2000  # lines of messages; beyond, only lines that look like errors, the first and the last of them
_KERNEL_KEPT = 1000
_LONGEST = 4000
_KERNEL_LONGEST = 500  # as in the live machine's kernel log

_ERROR = re.compile(
    r"(?:Error|Exception|Warning)\b|Traceback|\b(?:error|err|fatal|fails?|failed|failure|aborted|killed|core dumped|segmentation fault|"
    r"cannot|can't|could not|couldn't|unable|denied|rejected|unsupported|unavailable|insufficient|mismatch(?:es)?|too old|"
    r"out of memory|oom|not (?:found|available|supported|compiled|compatible|recognized|initialized|installed)|no such file|no kernel image|"
    r"no gpus?)\b",
    re.IGNORECASE,
)
# Without one of these, or an error, a text is prose of which we know nothing.
_TOPIC = re.compile(
    r"\b(?:cuda\w*|cudnn\w*|cublas\w*|lib(?:cu|nv)\w+|nvidia\S*|nvml|nvrm|xid|nvcc|nccl|gpus?|pytorch|torch\S*|tensorflow|jax\w*|"
    r"rocm|amdgpu|nouveau|npu-smi|ascend|vllm|docker|dataloader|shm)\b",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"\w(?:Error|Exception|Warning)\b\s*[:(]|Traceback \(most recent|\b(?:error|fatal)\b\s*:|core dumped|segmentation fault|bus error",
    re.IGNORECASE,
)
_KERNEL = re.compile(
    r"\bNVRM: |\bXid \(PCI|\bkernel: |\bpcieport \S+: |\bnvidia \S+: |\bnvidia-(?:nvlink|modeset|uvm): |\bnouveau \S+: |"
    r"\bamdgpu \S+: |module verification failed|\bnvidia: (?:module|probe|loading)"
)
# Searching for a word is many times faster than for an expression; most lines of a long log have none.
_KERNEL_WORDS = ("NVRM", "Xid", "kernel:", "pcieport", "nvidia", "nouveau", "amdgpu", "module verification")
_SMI_WORDS = ("NVIDIA-SMI", "NVML", "device handle", "No devices", "nvidia-smi", "GPU access")
_TELLING_WORDS = (
    "error", "exception", "warning", "traceback", "fatal", "fail", "abort", "killed", "dumped", "fault", "cannot", "could not",
    "couldn't", "unable", "denied", "rejected", "unsupported", "unavailable", "insufficient", "mismatch", "too old", "memory",
    " not ", "no such", "cuda", "cudnn", "nvidia", "nvml", "nccl", "torch", "tensorflow", "jax", "rocm", "hip", "driver", "shm",
)  # fmt: skip
_SMI_FAILED = re.compile(
    r"NVIDIA-SMI has failed|Failed to initialize NVML|Unable to determine the device handle|^\s*No devices were found|"
    r"NVIDIA-SMI couldn't find|nvidia-smi\S*: (?:command )?not found|command not found: nvidia-smi|'nvidia-smi' is not recognized|"
    r"\bnvidia-smi: No such file|GPU access blocked by the operating system"
)
# Only the lines that ask for a report: what a person typed to get it.
_COMMAND = re.compile(
    r"\s*(?:\S{0,80}[$#%>]\s*|[A-Z]:\\.{0,200}>)?(?:sudo )?(?:\S*/)?(?:nvidia-smi|nvcc|npu-smi|rocm-smi|amd-smi|rocminfo|xpu-smi|lspci|dmesg|"
    r"python\S* -m torch\.utils\.collect_env|python\S* collect_env\.py|pip list|pip freeze|conda list|env)"
    r"(?: (?:-\S+|\d+|info|list|static|discovery|version|\| ?.*))*\s*$"
)
_NOTHING = re.compile(r"[\s|+=*_-]*(?:System Info|PyTorch Info)?$")  # borders, and the first headings of vLLM's report
_DATE = re.compile(
    r"\s*\w{3} \w{3} +\d+ \d\d:\d\d:\d\d(?: [AP]M)?(?: \w+)? \d{4}\s*$"
)  # above every table of nvidia-smi


class Heard(NamedTuple):
    messages: tuple[Message, ...]
    kernel_log: tuple[str, ...]
    smi_failure: str | None  # nvidia-smi's words, where it failed
    cut: str  # how much was left out, in words; empty: nothing
    errors: bool  # whether anything in it is an error
    telling: bool  # whether anything in it is a program's error, or about accelerators at all


def hear(blocks: Iterable[Sequence[str]]) -> Heard:
    """Sort the blocks of lines that belong to no report."""
    kernel: list[str] = []
    failures: list[str] = []
    rest: list[list[str]] = []
    for block in blocks:
        rest += _sort(block, kernel, failures)
    total = sum(map(len, rest))
    kept = rest if total <= _KEPT else _most_telling(rest)
    said = ["\n".join(_unwrap([line[:_LONGEST] for line in lines])) for lines in kept]
    texts = [text for text in dict.fromkeys(said) if text.strip()]
    log = _ends([line[:_KERNEL_LONGEST] for line in kernel], _KERNEL_KEPT)
    failures = _ends(list(dict.fromkeys(failures)), _KERNEL_KEPT)
    telling = any(_TOPIC.search(text) or _CODE.search(text) for text in texts)
    cut = ""
    if total > _KEPT or len(kernel) > _KERNEL_KEPT:
        cut = f"{sum(map(len, kept)) + len(log):,} of {total + len(kernel):,} lines are kept"
    return Heard(
        messages=(
            *(Message(text, "nvidia-smi") for text in failures),
            *(Message(text, "pasted text") for text in texts),
            *(Message(line, "kernel log") for line in log),
        ),
        kernel_log=tuple(log),
        smi_failure=failures[0] if failures else None,
        cut=cut,
        errors=telling and any(_ERROR.search(text) for text in texts),
        telling=telling,
    )


def _sort(block: Sequence[str], kernel: list[str], failures: list[str]) -> Iterator[list[str]]:
    """The kernel's lines and nvidia-smi's failures are put aside; the rest is given, in pieces between blank lines."""
    piece: list[str] = []
    failing = False  # the line before is a failure of nvidia-smi, and may go on
    for line in block:
        if any(word in line for word in _KERNEL_WORDS) and _KERNEL.search(line):
            kernel.append(line.strip())
            failing = False
        elif any(word in line for word in _SMI_WORDS) and (failure := _SMI_FAILED.search(line)):
            failures.append(line[failure.start() :].strip()[:_LONGEST])
            failing = True
        elif failing and line.strip() and (line[0].isspace() or line.startswith("NVML library version")):
            failures[-1] += ("\n" if line[0].isupper() else " ") + line.strip()[:_LONGEST]
            failing = False
        elif not line.strip():
            if piece:
                yield piece
            piece, failing = [], False
        elif not (
            _NOTHING.match(line[:_LONGEST]) or _DATE.match(line[:80]) or (len(line) < 300 and _COMMAND.match(line))
        ):
            piece.append(line)
            failing = False
    if piece:
        yield piece


def _most_telling(pieces: list[list[str]]) -> list[list[str]]:
    """The lines that look like errors: the first and the last, since the first error causes the others."""
    lines = [line for piece in pieces for line in piece if _is_telling(line)]
    return [[line] for line in _ends(list(dict.fromkeys(lines)), _KEPT)]


def _is_telling(line: str) -> bool:
    low = line[:_LONGEST].lower()
    return any(word in low for word in _TELLING_WORDS)


def _ends(lines: list[str], most: int) -> list[str]:
    return lines if len(lines) <= most else [*lines[: most // 2], *lines[-(most - most // 2) :]]


def _unwrap(lines: list[str]) -> list[str]:
    """Lines that a console of 80 or 120 columns broke, joined again: signs are sought within a line."""
    joined: deque[str] = deque()
    width = 0  # of the line before, as it stood
    for line in lines:
        words = line.split(maxsplit=1)
        before = joined[-1] if joined else ""
        next_width = width + 1 + len(words[0]) if words else 0
        prose = before.count(" ") > 5 and before[-1:].isalpha() and words and words[0][:1].isalpha()
        if prose and any(limit - 12 <= width <= limit < next_width for limit in (80, 120)):
            joined[-1] = f"{before} {line.strip()}"
        else:
            joined.append(line)
        width = len(line)
    return list(joined)

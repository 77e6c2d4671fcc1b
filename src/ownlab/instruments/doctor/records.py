"""What the doctor is given and what it says."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ownlab.machine.records import Machine

__all__ = ["Case", "Diagnosis", "Finding", "Message", "ProductCheck", "Severity", "Verdict"]

Severity = Literal["error", "warning", "note"]


class Message(Struct, frozen=True):
    """Words that a program said: an error, a log line, a traceback. Rules look for known signs in them."""

    text: str
    where: str  # "torch", "nvidia-smi", "kernel log", "pasted text"


class Case(Struct, frozen=True):
    """One machine (live, recorded or rebuilt from pasted text) and everything that was said on it."""

    machine: Machine
    messages: tuple[Message, ...] = ()
    recognised: tuple[str, ...] = ()  # kinds of text that were found in a paste: "collect_env", "nvidia-smi table", …
    missing: tuple[str, ...] = ()  # what else to paste, for a fuller answer


class Finding(Struct, frozen=True):
    """One thing that a rule found."""

    code: str
    severity: Severity
    title: str
    evidence: tuple[str, ...]  # what was seen, with where
    meaning: str
    fix: tuple[str, ...]  # what mends it here: commands, or sentences where no command can
    blocks: bool = False  # True: with this, GPU work cannot run


class Verdict(Struct, frozen=True):
    gpu_work: Literal["yes", "no", "unknown"]
    sentence: str


class ProductCheck(Struct, frozen=True):
    """A matrix product on one device, compared with the same product on the CPU (`--verify`)."""

    framework: str
    device: str  # as the framework names it: cuda:0
    name: str  # the card's name
    passed: bool
    wrong: bool = False  # it computed, and what it computed is not right; else it did not compute at all
    largest_error: float | None = None  # relative to the largest element
    tolerance: float | None = None
    ran_on: str | None = None  # where the result really was
    error: str | None = None
    dtype: str = "float32"  # of the matrices: float32 without TF32, float16, bfloat16


class Diagnosis(Struct, frozen=True):
    verdict: Verdict
    findings: tuple[Finding, ...]
    machine: Machine
    checks: tuple[ProductCheck, ...] = ()
    recognised: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

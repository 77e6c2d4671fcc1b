"""The records of the doctor: what it is given (`Case`) and what it returns (`Diagnosis`)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ownlab.machine.records import Machine

__all__ = ["Case", "Diagnosis", "Finding", "Message", "OtherCause", "ProductCheck", "Severity", "Verdict"]

Severity = Literal["error", "warning", "note"]


class Message(Struct, frozen=True):
    """Output of a program: an error, a log line, a traceback. Rules search it for known patterns."""

    text: str
    where: str  # "torch", "nvidia-smi", "kernel log", "pasted text"


class Case(Struct, frozen=True):
    """One machine (live, recorded or rebuilt from pasted text) and the messages that programs printed on it."""

    machine: Machine
    messages: tuple[Message, ...] = ()
    recognised: tuple[str, ...] = ()  # the kinds of text found in a paste: "collect_env", "nvidia-smi table", …
    missing: tuple[str, ...] = ()  # what else to paste for a more complete diagnosis


class OtherCause(Struct, frozen=True):
    """Another cause that a message can have, and what tells it from the first one."""

    cause: str
    check: str


class Finding(Struct, frozen=True):
    """One problem, or one noteworthy fact, that a rule found."""

    code: str
    severity: Severity
    title: str
    evidence: tuple[str, ...]  # the facts and messages behind it, each with its source
    meaning: str
    fix: tuple[str, ...]  # the steps that fix it on this machine: commands, or sentences where no command can
    blocks: bool = False  # True: GPU work cannot run because of it
    other_causes: tuple[OtherCause, ...] = ()  # what a message that was pasted can come from besides, most likely first


class Verdict(Struct, frozen=True):
    gpu_work: Literal["yes", "no", "unknown"]
    sentence: str


class ProductCheck(Struct, frozen=True):
    """A matrix product on one device, compared with the same product on the CPU (`--verify`)."""

    framework: str
    device: str  # the framework's name for it: cuda:0
    name: str  # the card's name
    passed: bool
    wrong: bool = False  # True: the device computed a wrong result; False with passed=False: it did not compute at all
    largest_error: float | None = None  # relative to the largest element
    tolerance: float | None = None
    ran_on: str | None = None  # the device on which the result was found
    error: str | None = None
    dtype: str = "float32"  # of the matrices: float32 without TF32, float16, bfloat16


class Diagnosis(Struct, frozen=True):
    verdict: Verdict
    findings: tuple[Finding, ...]
    machine: Machine
    checks: tuple[ProductCheck, ...] = ()
    recognised: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

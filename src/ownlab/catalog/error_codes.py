"""The numbers by which CUDA, its libraries, ROCm, OpenCL, Vulkan and systems report errors, and translations of system messages."""

from __future__ import annotations

import functools
from typing import Literal

from msgspec import Struct

from ownlab.catalog.data_files import load_json

__all__ = ["ErrorCode", "ErrorCodes", "ErrorFamily", "Phrase", "error_code", "error_named", "phrases"]

ErrorFamily = Literal["cuda", "cudnn", "cublas", "nccl", "nvml", "hip", "opencl", "vulkan", "exit", "windows"]


class ErrorCode(Struct, frozen=True):
    """One error of a library or a system."""

    number: int
    name: str
    says: str  # the sentence that the library itself prints for it; "" if it prints the name only


class Family(Struct, frozen=True):
    family: ErrorFamily
    codes: tuple[ErrorCode, ...]


class Phrase(Struct, frozen=True):
    """A message of the system in English, and as systems in other languages print it."""

    english: str
    translations: tuple[str, ...]


class ErrorCodes(Struct, frozen=True):
    source: tuple[str, ...]
    as_of: str
    families: tuple[Family, ...]
    phrases: tuple[Phrase, ...]


def error_code(family: ErrorFamily, number: int) -> ErrorCode | None:
    """Return the table's entry for a number; None for one that it does not contain."""
    for row in load_json("error_codes", ErrorCodes).families:
        if row.family == family:
            return next((code for code in row.codes if code.number == number), None)
    return None


def error_named(name: str) -> ErrorCode | None:
    """Return the entry of CUDA or HIP with this name, also in the form of the driver (CUDA_ERROR_NO_DEVICE)."""
    return _by_name().get(name.replace("_", "").lower())


@functools.cache
def _by_name() -> dict[str, ErrorCode]:
    rows = load_json("error_codes", ErrorCodes).families
    return {code.name.lower(): code for row in reversed(rows) if row.family in ("cuda", "hip") for code in row.codes}


def phrases() -> tuple[Phrase, ...]:
    """Return the messages of systems with their translations."""
    return load_json("error_codes", ErrorCodes).phrases

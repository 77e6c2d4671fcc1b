"""Puts messages into the words that rules know: errors that are given as numbers, and a system's messages in other languages.

"cuInit failed: 999" and "error == cudaSuccess (35 vs. 0)" say the same as CUDA's sentence for 999 and 35; "Datei oder
Verzeichnis nicht gefunden" the same as "No such file or directory". The decoded text is added as a message of its own, so
that each rule has to know one form only, and its evidence shows where the words come from.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ownlab.catalog.error_codes import ErrorFamily, error_code, error_named, phrases
from ownlab.instruments.doctor.records import Case, Message
from ownlab.text import text

__all__ = ["with_decoded_messages"]

_LINE_LENGTH = 2000  # longer lines are not searched: a number in them belongs to anything
_TELLING = 18  # letters: a sentence that long is CUDA's own; "unknown error" may be anybody's
_NUMBER = r"\(?(?P<number>\d{1,4})\b(?![.%\w])"
_SIGNED = r"(?P<number>-\d{1,4})\b"


class _Form(NamedTuple):
    """A way in which programs print an error by its number."""

    family: ErrorFamily
    label: str  # before the number in the decoded message
    pattern: re.Pattern[str]
    words: tuple[str, ...]  # one of them is in each such line, in small letters: searching for a word is much faster


def _form(family: ErrorFamily, label: str, pattern: str, *words: str) -> _Form:
    return _Form(family, label, re.compile(pattern, re.IGNORECASE), words)


_FORMS = (
    _form("cudnn", "cuDNN error", rf"\bcudnn\w*[ _]?(?:error|failure|status|failed)[^\n\d]{{0,12}}{_NUMBER}", "cudnn"),
    _form(
        "cublas",
        "cuBLAS error",
        rf"(?<!External\) )\bcublas\w*(?: api)?[ _]?(?:error|failure|status|failed)[^\n\d]{{0,12}}{_NUMBER}",
        "cublas",
    ),
    _form("nccl", "NCCL error", r"\bNCCL (?:error|failure):?\s+(?P<number>[1-6])\b", "nccl"),
    _form(
        "nvml",
        "NVML error",
        rf"\bnvml\w*[^\n\d]{{0,30}}\b(?:error|failure|failed|returned|ret|return code)\b[^\n\d]{{0,8}}{_NUMBER}",
        "nvml",
    ),
    _form(
        "hip",
        "HIP error",
        rf"\b(?:hip(?: runtime)? ?(?:error|failure)|hip[A-Z]\w+(?:\(\w*\))? (?:returned|failed))[^\n\d]{{0,12}}{_NUMBER}",
        "hip",
    ),
    _form("cuda", "CUDA error", rf"cudaSuccess\s+{_NUMBER}(?= vs)", "cudasuccess"),
    _form("cuda", "CUDA error", rf"THCudaCheck FAIL[^\n]*\berror={_NUMBER}", "thcudacheck"),
    _form("cuda", "CUDA error", rf"\[{_NUMBER}\] Call to cu\w+", "call to cu"),
    _form(
        "cuda",
        "CUDA error",
        r"\bcuda[ _]*(?:driver |runtime |api |library |init\w* )*(?:error|failure|failed)(?:[ _]?(?:code|number|no\.?))?"
        rf"(?: with(?: error)?(?: code)?)?(?:\s*[:=#]\s*|\s+|(?=\()){_NUMBER}",
        "cuda",
    ),
    _form(
        "cuda",
        "CUDA error",
        rf"\b(?-i:cu(?:da)?[A-Z])\w*(?:\([^)\n]*\))?\s*(?:returned|failed|err|error|->|result)\b[^\n\d]{{0,25}}{_NUMBER}(?! (?:device|gpu))",
        "cu",
    ),
    _form("cuda", "CUDA error", rf"\bcuda\b[^\n]{{0,40}}\bfailure(?: with error)?:? {_NUMBER}", "cuda"),
    _form("cuda", "CUDA error", rf"failed to get device context {_NUMBER}", "device context"),
    _form(
        "opencl",
        "OpenCL error",
        rf"\b(?:cl(?-i:[A-Z])\w+|opencl)\b[^\n]{{0,60}}[^\n\d\w]{{1,8}}{_SIGNED}",
        "opencl",
        "cl",
    ),
    _form(
        "vulkan",
        "Vulkan error",
        rf"\b(?:vk(?-i:[A-Z])\w+|vkresult|vulkan)\b[^\n]{{0,60}}[^\n\d\w]{{1,8}}{_SIGNED}",
        "vk",
        "vulkan",
    ),
    _form(
        "exit",
        "exit code",
        r"\b(?:exit(?:ed|s)?|terminated|returned|died|finished)\b[^\n\d]{0,40}?(?P<number>-?(?:\d{9,10}|0x[0-9a-f]{8}|(?<=-)\d{1,2}|1[34]\d)\b)",
        "exit",
        "terminated",
        "returned",
        "died",
        "finished",
    ),
    _form("exit", "exit code", r"(?P<number>\b0xC0000[0-9A-F]{3}\b)", "0xc0000"),
    _form(
        "windows",
        "Windows error",
        r"^(?!.*onnxruntime).*(?:LoadLibrary|Error loading|\.dll)[^\n]{0,200}\berror(?: code)?\W{0,4}(?P<number>126|127|182|193|998|1114|1455)\b",
        "loadlibrary",
        "error loading",
        ".dll",
    ),
)
_DIGIT = re.compile(r"\d")
# An error that is given as a name only: cudaErrorNoDevice, or CUDA_ERROR_NO_DEVICE of the driver.
_NAME = re.compile(r"\b(?:(?:cuda|hip)Error[A-Z]\w+|CUDA_ERROR_[A-Z_]+)\b", re.IGNORECASE)


def with_decoded_messages(case: Case) -> Case:
    """Return the case with the decoded form of its messages added; the same case where there is nothing to decode."""
    added = dict.fromkeys(decoded for message in case.messages for decoded in _decoded(message))
    if not added:
        return case
    return msgspec.structs.replace(case, messages=(*case.messages, *added))


def _decoded(message: Message) -> Iterator[Message]:
    translated = _translate(message.text)
    if translated != message.text:
        yield Message(translated, text("{where}, translated", where=message.where))
    if _DIGIT.search(message.text):
        for line in message.text.splitlines():
            if len(line) <= _LINE_LENGTH:
                yield from _named_errors(line, message)
    yield from _explained_names(message)


def _translate(content: str) -> str:
    lowered = content.lower()
    for translation, english in _translations():
        if translation in lowered:
            content = re.sub(re.escape(translation), english, content, flags=re.IGNORECASE)
    return content


@functools.cache
def _translations() -> tuple[tuple[str, str], ...]:
    """Return each translation in small letters with its English sentence."""
    return tuple((translation.lower(), phrase.english) for phrase in phrases() for translation in phrase.translations)


def _named_errors(line: str, message: Message) -> Iterator[Message]:
    """Yield the names of the errors that a line gives as numbers, unless the message names them itself."""
    low = line.lower()
    for form in _FORMS:
        match = form.pattern.search(line) if any(word in low for word in form.words) else None
        if match is None:
            continue
        known = error_code(form.family, _as_number(match["number"]))
        if known is None:
            continue
        shown = message.text.lower()
        if known.name.lower() in shown or (len(known.says) > _TELLING and known.says.lower() in shown):
            continue
        name = f"{known.name}, {known.says}" if known.says else known.name
        yield Message(
            f"{form.label} {match['number']}: {name}", text("{where}, error by its number", where=message.where)
        )


def _explained_names(message: Message) -> Iterator[Message]:
    """Yield the sentences of the errors that a message gives by their names, unless it contains them itself."""
    if "rror" not in message.text and "RROR" not in message.text:
        return
    shown = message.text.lower()
    for name in dict.fromkeys(match[0] for match in _NAME.finditer(message.text)):
        known = error_named(name)
        if known is not None and len(known.says) > _TELLING and known.says.lower() not in shown:
            yield Message(f"{name}: {known.says}", text("{where}, error by its name", where=message.where))


def _as_number(digits: str) -> int:
    """Return the number; Windows prints its large ones also as negative ones and in hexadecimal."""
    number = int(digits, 16 if "0x" in digits.lower() else 10)
    return number + 2**32 if number < -(2**16) else number

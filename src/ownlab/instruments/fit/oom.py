"""`ownlab fit --explain-oom`: find the cause of an out-of-memory message from its own figures.

A cause is what, had it been different, would have let the request succeed. `oom_explanations.py` and `oom_fixes.py` have the sentences.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ownlab.catalog.oom_messages import OomMessage, parse_messages
from ownlab.errors import InputError, NotRecognised
from ownlab.instruments.fit.oom_explanations import Cause, Holders, describe
from ownlab.instruments.fit.oom_fixes import suggest_fixes
from ownlab.instruments.fit.oom_traceback import Phase, find_location
from ownlab.instruments.fit.remedies import Remedy, remedy_named
from ownlab.paste import clean, decode, read_file
from ownlab.text import text
from ownlab.units import GIB, MIB

__all__ = ["OomExplanation", "explain_argument", "explain_oom"]

# The CUDA context of a process: up to 770 MiB on an H200 with torch 2.11 (measured 2026-11-15), less on older cards.
CONTEXT = 800 * MIB
# Memory below this share of the card is never the cause.
_SHARE = 0.1
# A request of this share of the card is one huge tensor: half of it in any case; a third if no holder has enough.
_HUGE, _LARGE = 1 / 2, 1 / 3
# The free memory was read after the failure, and the driver keeps some: only clearly more counts as enough.
_SPARE, _SPARE_SHARE = 32 * MIB, 1.05

# In longer logs only lines around these words are parsed: searching a word is many times faster than a regular expression.
_SHORT = 5000
_BEFORE, _AFTER = 150, 40
_WORDS = (
    "Tried to allocate", "ut of memory", "OUT_OF_MEMORY", "OutOfMemory", "MemoryAllocation", "ALLOC_FAILED", "OOM when", "EXHAUSTED",
    "esource exhausted", "oom-kill", "CPUAllocator", "DataLoader worker", "Killed", "InUse: ", "Limit: ",
)  # fmt: skip

_KNOWN_MESSAGES = text(
    'Known messages: torch\'s "CUDA out of memory" of every version (also HIP, XPU, NPU and MPS), CUDA\'s bare "out of memory", '
    "CUBLAS_STATUS_ALLOC_FAILED, TensorFlow's ResourceExhaustedError, JAX's RESOURCE_EXHAUSTED, llama.cpp's cudaMalloc failed, and "
    "the lines of the Linux OOM killer. Paste the whole traceback: it shows where in the step it happened."
)


class OomExplanation(Struct, frozen=True, kw_only=True):
    """An out-of-memory message, its cause, and what helps, best first."""

    cause: Cause
    sentence: str
    reasons: tuple[str, ...]  # the figures of the message
    fix: tuple[str, ...]  # commands, or sentences where there is no command
    remedies: tuple[Remedy, ...] = ()  # what reduces the memory of the model, where that helps
    phase: Phase | None = None
    line: str = ""  # of the user's code: "train.py, line 29"
    message: OomMessage
    more: int = 0  # number of other messages in the same text


def explain_argument(argument: str) -> OomExplanation:
    """Explain the argument of `--explain-oom`: a file, `-` for standard input, or the message itself."""
    if argument != "-" and not re.search(r"\s|/", argument) and not os.path.exists(argument):
        raise InputError(
            text("{argument!r} is neither a file nor an error message.", argument=argument[:100]),
            hint=text("Pass the message in quotes, the name of a file, or - and paste it."),
        )
    if not re.search(r"\s", argument) or _is_file(argument):
        return explain_oom(read_file(argument), name="stdin" if argument == "-" else argument)
    return explain_oom(argument, name=text("the text"))


def _is_file(argument: str) -> bool:
    try:
        return Path(argument).is_file()
    except (OSError, ValueError):  # too long for a path, or a NUL in it
        return False


def explain_oom(data: bytes | str, *, name: str = "pasted text") -> OomExplanation:
    """Find why memory ran out, from the message in this text. Raise NotRecognised if there is none."""
    content = decode(data, name)
    lines = _relevant_lines(clean(content).bare)
    messages = parse_messages(lines)
    if not messages:
        raise NotRecognised(
            text("{source} has no message about memory that ran out.", source=name), hint=_KNOWN_MESSAGES
        )
    message = max(messages, key=lambda candidate: candidate.figure_count)  # the first of those with most figures
    location = find_location(lines)
    holders = find_holders(message)
    cause = find_cause(message, holders)
    windows = re.search(r"(?:^|[\s\"'(])[A-Z]:\\", content) is not None
    remedies = tuple(remedy_named(code) for code in _remedies(cause, message, location.phase))
    sentence, reasons = describe(cause, message, holders)
    return OomExplanation(
        cause=cause,
        sentence=sentence,
        reasons=tuple(reasons),
        fix=tuple(suggest_fixes(cause, message, holders, location=location, remedies=remedies, windows=windows)),
        remedies=remedies,
        phase=location.phase,
        line=location.line,
        message=message,
        more=len(messages) - 1,
    )


def _relevant_lines(lines: list[str]) -> list[str]:
    """Return the lines of a long log around words about memory: its tracebacks and messages."""
    if len(lines) <= _SHORT:
        return lines
    kept: set[int] = set()
    for number, line in enumerate(lines):
        if any(word in line for word in _WORDS):
            kept.update(range(max(0, number - _BEFORE), min(len(lines), number + _AFTER)))
    return [lines[number] for number in sorted(kept)]


def find_holders(message: OomMessage) -> Holders:
    """Compute who holds the card, as far as the figures allow."""
    total, free, process, reserved = (
        message.total_bytes,
        message.free_bytes,
        message.process_bytes,
        message.reserved_bytes,
    )
    missing = None if message.tried_bytes is None or free is None else message.tried_bytes - free
    outside = message.outside_bytes
    if outside is None and process is not None and reserved is not None:
        outside = max(0, process - reserved)
    if message.others:
        return Holders(missing, sum(process.bytes for process in message.others), outside, exact=True)
    if total is None or free is None or reserved is None:
        return Holders(missing, None, outside, exact=True)
    if process is not None:
        return Holders(missing, max(0, total - free - process), outside, exact=True)
    # Older messages do not show what the process itself holds: count what torch does not hold as its context, then as others.
    unseen = max(0, total - free - reserved)
    return Holders(missing, max(0, unseen - CONTEXT), min(unseen, CONTEXT), exact=False)


def find_cause(message: OomMessage, holders: Holders) -> Cause:
    """Find the cause from the figures; without figures, what such a message usually means."""
    if message.backend == "cpu":
        return "confined" if message.confined else "host"
    if message.speaker in ("CUDA", "library"):
        return "start" if message.speaker == "CUDA" else "library"
    if message.backend == "mps":
        return _cause_on_mps(message)
    tried, total, free = message.tried_bytes, message.total_bytes, message.free_bytes
    if tried is None or total is None:
        return _cause_without_total(message)
    if tried > total:
        return "huge"
    if (message.allocated_bytes or 0) > total:
        return "spilled"
    enough = free is not None and free >= tried * _SPARE_SHARE + _SPARE
    if message.allowed_bytes is not None and message.allowed_bytes < total and enough:
        return "limit"
    if enough:
        return "free"
    if tried >= total * _HUGE:
        return "huge"
    return _cause_by_holders(message, holders, total)


def _cause_by_holders(message: OomMessage, holders: Holders, total: int) -> Cause:
    """Find the holder with enough memory for the request; of several, the one with most."""
    missing = holders.missing or 0
    held: list[tuple[int, Cause]] = []
    if message.unallocated_bytes is not None and message.unallocated_bytes >= total * _SHARE:
        held.append((message.unallocated_bytes, "fragmented"))
    if holders.others is not None and holders.others >= max(total * _SHARE, GIB):
        held.append((holders.others, "others"))
    if holders.exact and holders.outside is not None and holders.outside - CONTEXT >= total * _SHARE:
        held.append((holders.outside - CONTEXT, "outside"))
    sufficient = [pair for pair in held if pair[0] >= missing]
    if sufficient:
        return max(sufficient)[1]
    contexts = [process for process in message.others if process.bytes <= CONTEXT]
    if len(contexts) > 1 and sum(process.bytes for process in contexts) >= missing:
        return "contexts"
    if (message.tried_bytes or 0) >= total * _LARGE:
        return "huge"
    # Small cards: what is never available for tensors is a large share of them.
    unusable = (holders.outside or 0) + (holders.others or 0)
    return "context" if unusable >= max(missing, total * 1.5 * _SHARE) else "full"


def _cause_on_mps(message: OomMessage) -> Cause:
    allowed, outside = message.allowed_bytes or 0, message.outside_bytes or 0
    if message.tried_bytes is not None and message.tried_bytes >= allowed * _HUGE:
        return "huge"
    return "outside" if outside >= allowed * 0.3 else "full"


def _cause_without_total(message: OomMessage) -> Cause:
    """TensorFlow, JAX and llama.cpp report what they requested, and rarely what there was."""
    if message.speaker == "JAX" and message.program_bytes is not None and message.program_bytes < GIB:
        return "others"  # such a small program fits any free card
    return "unsaid"


def _remedies(cause: Cause, message: OomMessage, phase: Phase | None) -> Iterator[str]:
    """Yield the codes of remedies, where the model itself does not fit."""
    if cause not in ("full", "huge", "spilled", "context", "unsaid", "fragmented") or message.speaker != "torch":
        return
    if cause == "huge":
        yield from ("pieces", "fused-attention", "shorter", "smaller-batch")
    elif phase == "loading":  # there is no batch yet: a smaller one does not help
        yield from ("smaller-weights", "more-cards")
    elif phase == "optimizer":
        yield from ("small-optimizer", "freezing", "smaller-weights", "more-cards")
    else:
        yield from ("mixed-precision", "smaller-batch", "checkpointing", "shorter")
        yield from ("small-optimizer", "inference-mode") if phase is None else ()

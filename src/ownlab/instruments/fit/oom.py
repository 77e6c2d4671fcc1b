"""Explains a message about memory that ran out: which of the known causes it is, by its own figures, and what to do first.

The question behind each cause: what, had it been otherwise, would have let this request succeed?
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ownlab.catalog.oom_messages import OomMessage, parse_messages
from ownlab.errors import NotRecognised
from ownlab.instruments.fit.oom_explanations import Cause, Holders, advise, state
from ownlab.instruments.fit.oom_traceback import Phase, find_location
from ownlab.instruments.fit.remedies import Remedy, remedy_named
from ownlab.paste import clean, decode, read_file
from ownlab.units import GIB, MIB

__all__ = ["OomExplanation", "explain_argument", "explain_oom"]

# What a process's CUDA context takes: up to 770 MiB on an H200 with torch 2.11 (measured 2026-11-15), less on older cards.
CONTEXT = 800 * MIB
# Less than this share of the card is not what decides.
_SHARE = 0.1
# A request of this share of the card is one huge tensor: half, whatever else is the matter; a third, where nobody else has enough.
_HUGE, _LARGE = 1 / 2, 1 / 3
# The reported free memory was read after the failure, and the driver keeps some: only clearly more was enough.
_SPARE, _SPARE_SHARE = 32 * MIB, 1.05

# In a log of more lines, only those around such words are read: seeking a word is many times faster than an expression.
_SHORT = 5000
_BEFORE, _AFTER = 150, 40
_WORDS = (
    "Tried to allocate", "ut of memory", "OUT_OF_MEMORY", "OutOfMemory", "MemoryAllocation", "ALLOC_FAILED", "OOM when", "EXHAUSTED",
    "esource exhausted", "oom-kill", "CPUAllocator", "DataLoader worker", "Killed", "InUse: ", "Limit: ",
)  # fmt: skip

_UNDERSTOOD = (
    'Understood are: torch\'s "CUDA out of memory" of every version (HIP, XPU, NPU and MPS too), CUDA\'s bare "out of memory", '
    "CUBLAS_STATUS_ALLOC_FAILED, TensorFlow's ResourceExhaustedError, JAX's RESOURCE_EXHAUSTED, llama.cpp's cudaMalloc failed, and "
    "the lines of Linux's OOM killer. Paste the whole traceback: it tells where in the step it happened."
)


class OomExplanation(Struct, frozen=True, kw_only=True):
    """A message, why it came, and what helps, best first."""

    cause: Cause
    sentence: str
    reasons: tuple[str, ...]  # the message's figures, added up
    fix: tuple[str, ...]  # commands, or sentences where no command can
    remedies: tuple[Remedy, ...] = ()  # what makes the model need less, where that is what helps
    phase: Phase | None = None
    line: str = ""  # of the user's code: "train.py, line 29"
    message: OomMessage
    more: int = 0  # other messages of the same text


def explain_argument(argument: str) -> OomExplanation:
    """What `--explain-oom` was given: a file, `-` for standard input, or the message itself."""
    if not re.search(r"\s", argument) or _is_file(argument):
        return explain_oom(read_file(argument), name="stdin" if argument == "-" else argument)
    return explain_oom(argument, name="the text")


def _is_file(argument: str) -> bool:
    try:
        return Path(argument).is_file()
    except (OSError, ValueError):  # too long for a path, or a NUL in it
        return False


def explain_oom(data: bytes | str, *, name: str = "pasted text") -> OomExplanation:
    """Why the memory ran out, by the message in this text. Raises NotRecognised where there is none."""
    text = decode(data, name)
    lines = _telling(clean(text).bare)
    messages = parse_messages(lines)
    if not messages:
        raise NotRecognised(f"nothing in {name} says that memory ran out", hint=_UNDERSTOOD)
    message = max(messages, key=lambda one: one.figure_count)  # the first of those that tell most
    place = find_location(lines)
    holding = hold(message)
    cause = find_cause(message, holding)
    windows = re.search(r"(?:^|[\s\"'(])[A-Z]:\\", text) is not None
    remedies = tuple(remedy_named(code) for code in _remedies(cause, message, place.phase))
    sentence, reasons = state(cause, message, holding)
    return OomExplanation(
        cause=cause,
        sentence=sentence,
        reasons=tuple(reasons),
        fix=tuple(advise(cause, message, holding, place=place, remedies=remedies, windows=windows)),
        remedies=remedies,
        phase=place.phase,
        line=place.line,
        message=message,
        more=len(messages) - 1,
    )


def _telling(lines: list[str]) -> list[str]:
    """Of a long log only what stands around words about memory: its tracebacks and messages."""
    if len(lines) <= _SHORT:
        return lines
    kept: set[int] = set()
    for number, line in enumerate(lines):
        if any(word in line for word in _WORDS):
            kept.update(range(max(0, number - _BEFORE), min(len(lines), number + _AFTER)))
    return [lines[number] for number in sorted(kept)]


def hold(message: OomMessage) -> Holders:
    """Who holds the card, as far as the figures add up to it."""
    total, free, process, reserved = (
        message.total_bytes,
        message.free_bytes,
        message.process_bytes,
        message.reserved_bytes,
    )
    lack = None if message.tried_bytes is None or free is None else message.tried_bytes - free
    outside = message.outside_bytes
    if outside is None and process is not None and reserved is not None:
        outside = max(0, process - reserved)
    if message.others:
        return Holders(lack, sum(one.bytes for one in message.others), outside, exact=True)
    if total is None or free is None or reserved is None:
        return Holders(lack, None, outside, exact=True)
    if process is not None:
        return Holders(lack, max(0, total - free - process), outside, exact=True)
    # Older messages do not say what the process itself has: what torch does not hold is its context, then others.
    unseen = max(0, total - free - reserved)
    return Holders(lack, max(0, unseen - CONTEXT), min(unseen, CONTEXT), exact=False)


def find_cause(message: OomMessage, holding: Holders) -> Cause:
    """The cause that the figures show; where there are none, what the speaker usually means."""
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
    return _cause_by_holding(message, holding, total)


def _cause_by_holding(message: OomMessage, holding: Holders, total: int) -> Cause:
    """Which of the holders has enough for the request; where several have, the one that has most."""
    lack = holding.lack or 0
    held: list[tuple[int, Cause]] = []
    if message.unallocated_bytes is not None and message.unallocated_bytes >= total * _SHARE:
        held.append((message.unallocated_bytes, "fragmented"))
    if holding.others is not None and holding.others >= max(total * _SHARE, GIB):
        held.append((holding.others, "others"))
    if holding.exact and holding.outside is not None and holding.outside - CONTEXT >= total * _SHARE:
        held.append((holding.outside - CONTEXT, "outside"))
    sufficient = [pair for pair in held if pair[0] >= lack]
    if sufficient:
        return max(sufficient)[1]
    contexts = [one for one in message.others if one.bytes <= CONTEXT]
    if len(contexts) > 1 and sum(one.bytes for one in contexts) >= lack:
        return "contexts"
    if (message.tried_bytes or 0) >= total * _LARGE:
        return "huge"
    # Small cards: what cannot be had for tensors at all is much of them.
    unusable = (holding.outside or 0) + (holding.others or 0)
    return "context" if unusable >= max(lack, total * 1.5 * _SHARE) else "full"


def _cause_on_mps(message: OomMessage) -> Cause:
    allowed, outside = message.allowed_bytes or 0, message.outside_bytes or 0
    if message.tried_bytes is not None and message.tried_bytes >= allowed * _HUGE:
        return "huge"
    return "outside" if outside >= allowed * 0.3 else "full"


def _cause_without_total(message: OomMessage) -> Cause:
    """TensorFlow, JAX and llama.cpp say what they wanted, and rarely what there was."""
    if message.speaker == "JAX" and message.program_bytes is not None and message.program_bytes < GIB:
        return "others"  # so small a program fits any card that is free
    return "unsaid"


def _remedies(cause: Cause, message: OomMessage, phase: Phase | None) -> Iterator[str]:
    """The codes of what makes the model need less, where it is the model that does not fit."""
    if cause not in ("full", "huge", "spilled", "context", "unsaid", "fragmented") or message.speaker != "torch":
        return
    if cause == "huge":
        yield from ("pieces", "fused-attention", "shorter", "smaller-batch")
    elif phase == "loading":  # a smaller batch changes nothing before there is a batch
        yield from ("smaller-weights", "more-cards")
    elif phase == "optimizer":
        yield from ("small-optimizer", "freezing", "smaller-weights", "more-cards")
    else:
        yield from ("mixed-precision", "smaller-batch", "checkpointing", "shorter")
        yield from ("small-optimizer", "inference-mode") if phase is None else ()

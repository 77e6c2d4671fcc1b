"""The sentences of an out-of-memory explanation: the cause, and the figures behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from ownlab.catalog.oom_messages import OomMessage
from ownlab.text import template, text
from ownlab.units import format_bytes

__all__ = ["Cause", "Holders", "describe"]

Cause = Literal[
    "others",  # other processes hold what is missing
    "contexts",  # other processes hold only their CUDA contexts, on the wrong card
    "fragmented",  # torch holds enough memory, in pieces that are too small
    "huge",  # one request larger than the card, or than half of it
    "full",  # the program itself fills the card
    "context",  # a small card, much of which the CUDA context and the desktop take
    "outside",  # this process holds much memory that the framework did not allocate
    "limit",  # a limit below the card's size was set
    "spilled",  # more is held than the card has: Windows adds the computer's memory
    "free",  # enough was free: the card's memory was not what was missing
    "start",  # CUDA itself failed, outside of the framework's allocator
    "library",  # cuBLAS or cuDNN could not start
    "unsaid",  # too big, and the message has no figures about the card
    "confined",  # the computer's memory, by the limit of a container or job
    "host",  # the computer's memory
]


class Holders(NamedTuple):
    """The holders of the card's memory. None: the message does not say."""

    missing: int | None  # what the request lacked
    others: int | None  # held by other processes
    outside: int | None  # held by this process, but not by its framework: context and libraries
    exact: bool  # False: the split between other processes and the context is an estimate


def describe(cause: Cause, message: OomMessage, holders: Holders) -> tuple[str, list[str]]:
    """Return the cause in one or two sentences, and the figures that show it."""
    return _SENTENCES[cause](message, holders), list(_figures(message, holders))


def _size(count: int | None) -> str:
    return text("an unknown amount") if count is None else format_bytes(count)


def _card(message: OomMessage) -> str:
    return text("the card") if message.device is None else text("card {number}", number=message.device)


def _figures(message: OomMessage, holders: Holders) -> Iterator[str]:
    rows = [
        (template("requested: {size}"), message.tried_bytes),
        (template("needed by the program in total: {size}"), message.program_bytes),
        (template("memory of the card: {size}"), message.total_bytes),
        (template("limit of the process: {size}"), message.allowed_bytes),
        (template("free: {size}"), message.free_bytes),
        (template("held by tensors: {size}"), message.allocated_bytes),
        (template("of which in private pools, such as CUDA graphs: {size}"), message.pools_bytes),
        (template("held by the framework, unused: {size}"), message.unallocated_bytes),
    ]
    if holders.exact:
        rows.append((template("also held by this process (context, libraries): {size}"), holders.outside))
        rows.append((template("held by other processes: {size}"), holders.others))
    else:
        rest = (holders.outside or 0) + (holders.others or 0)
        rows.append((template("held otherwise (context, libraries, other processes): {size}"), rest))
    yield from (row.fill(size=format_bytes(count)) for row, count in rows if count is not None)
    yield from (
        text("process {pid} holds {size}", pid=process.pid, size=format_bytes(process.bytes))
        for process in message.others
    )
    if message.victim and message.process_bytes is not None:
        size = format_bytes(message.process_bytes)
        yield text("killed: {process}, which held {size}", process=message.victim, size=size)
    elif message.victim:
        yield text("killed: {process}", process=message.victim)


# -- the cause, in sentences ---------------------------------------------------------------------------------------------


def _others(message: OomMessage, holders: Holders) -> str:
    if holders.others is None:
        return text(
            "The program is small: most likely another process holds the card, such as a second JAX, which reserves it in advance."
        )
    values = {"size": _size(holders.others), "card": _card(message)}
    if (holders.missing or 0) > 0:
        values["missing"] = _size(holders.missing)
        if holders.exact:
            return text(
                "Other processes hold {size} of {card}, and {missing} were missing: without them the request would have fitted.",
                **values,
            )
        return text(
            "Other processes hold about {size} of {card}, and {missing} were missing: without them the request would have fitted.",
            **values,
        )
    if holders.exact:
        return text("Other processes hold {size} of {card}: without them the request would have fitted.", **values)
    return text("Other processes hold about {size} of {card}: without them the request would have fitted.", **values)


def _huge(message: OomMessage, _holders: Holders) -> str:
    total, tried = message.total_bytes or message.allowed_bytes, message.tried_bytes
    if total is not None and (tried or 0) > total:
        return text(
            "One tensor of {size} is larger than the whole card ({total}): freeing memory cannot help.",
            size=_size(tried),
            total=_size(total),
        )
    if total and tried is not None:
        share = f"{tried / total:.0%}"
        return text("The program requested one tensor of {size}: {share} of the card.", size=_size(tried), share=share)
    return text("The program requested one tensor of {size}.", size=_size(tried))


def _fragmented(message: OomMessage, holders: Holders) -> str:
    unused = _size(message.unallocated_bytes)
    if (holders.missing or 0) > 0:
        return text(
            "torch holds {unused} that no tensor uses, in pieces that are too small; {missing} were missing.",
            unused=unused,
            missing=_size(holders.missing),
        )
    return text("torch holds {unused} that no tensor uses, in pieces that are too small.", unused=unused)


def _full(message: OomMessage, holders: Holders) -> str:
    values = {
        "card": _card(message),
        "held": _size(message.reserved_bytes or message.process_bytes or message.allocated_bytes),
        "total": _size(message.total_bytes or message.allowed_bytes),
    }
    if holders.missing is not None and holders.missing > 0:
        return text(
            "The program itself fills {card}: it holds {held} of {total}, and needs {missing} more.",
            missing=_size(holders.missing),
            **values,
        )
    return text("The program itself fills {card}: it holds {held} of {total}.", **values)


def _context(message: OomMessage, holders: Holders) -> str:
    return text(
        "{unusable} of the {total} of {card} are not available for tensors: the CUDA context, libraries and the desktop take "
        "them. Tensors hold {held}, and the rest is too little.",
        unusable=_size((holders.outside or 0) + (holders.others or 0)),
        total=_size(message.total_bytes),
        card=_card(message),
        held=_size(message.allocated_bytes),
    )


def _contexts(message: OomMessage, _holders: Holders) -> str:
    return text(
        "{count} other processes have a CUDA context on {card}, {size} in total. Most likely they are ranks of the same job "
        "that work on other cards.",
        count=len(message.others),
        card=_card(message),
        size=_size(sum(process.bytes for process in message.others)),
    )


def _outside(message: OomMessage, holders: Holders) -> str:
    return text(
        "Besides {held} of tensors this process holds {size} that torch's allocator does not know of: another library or "
        "framework, or captured graphs.",
        held=_size(message.allocated_bytes),
        size=_size(holders.outside),
    )


def _limit(message: OomMessage, _holders: Holders) -> str:
    return text(
        "The process reached its limit, not the end of the card: it may use {allowed} of {total}, and {free} were free.",
        allowed=_size(message.allowed_bytes),
        total=_size(message.total_bytes),
        free=_size(message.free_bytes),
    )


def _spilled(message: OomMessage, _holders: Holders) -> str:
    return text(
        "Tensors hold {held} on a card of {total}: the Windows driver added the computer's memory, and that is full, too. "
        "The program ran many times slower before it failed.",
        held=_size(message.allocated_bytes),
        total=_size(message.total_bytes),
    )


def _free(message: OomMessage, _holders: Holders) -> str:
    return text(
        "{free} were free and {size} were requested: the card had enough memory when the message was written.",
        free=_size(message.free_bytes),
        size=_size(message.tried_bytes),
    )


def _start(_message: OomMessage, _holders: Holders) -> str:
    return text(
        "CUDA itself reported this, without figures, and not torch's allocator: while it opened a context, loaded a kernel or "
        "started a library. Most often the card was full before the program began."
    )


def _library(_message: OomMessage, _holders: Holders) -> str:
    return text(
        "cuBLAS or cuDNN could not allocate its own memory. Either torch's cache had filled the card before its first use, or "
        "an earlier error (an index out of range) has broken the CUDA context."
    )


def _unexplained(message: OomMessage, _holders: Holders) -> str:
    if message.tried_bytes is None:
        return text("{program} found no more memory on the card; the message has no figures.", program=message.speaker)
    if message.program_bytes is not None:
        return text(
            "{program} requested {size}, for a program that needs {total} in total, and did not get it; the message does not "
            "show what was free.",
            program=message.speaker,
            size=_size(message.tried_bytes),
            total=_size(message.program_bytes),
        )
    return text(
        "{program} requested {size} and did not get it; the message does not show what was free.",
        program=message.speaker,
        size=_size(message.tried_bytes),
    )


def _host(message: OomMessage, _holders: Holders) -> str:
    if message.speaker == "shell":
        return text(
            "The process was killed by SIGKILL, most likely by Linux because the computer's memory was full, not the card's."
        )
    if message.speaker == "TensorFlow":
        return text("The computer's memory that is pinned for transfers ran out, not the card's memory.")
    if message.speaker == "Linux":
        return text(
            "Linux killed {process} because the computer's memory was full. The card is not involved.",
            process=message.victim,
        )
    return text("The computer's memory ran out, not the card's.")


def _confined(_message: OomMessage, _holders: Holders) -> str:
    return text("A container, job or service reached its limit on the computer's memory. The card is not involved.")


_SENTENCES: dict[Cause, Callable[[OomMessage, Holders], str]] = {
    "others": _others,
    "contexts": _contexts,
    "fragmented": _fragmented,
    "huge": _huge,
    "full": _full,
    "context": _context,
    "outside": _outside,
    "limit": _limit,
    "spilled": _spilled,
    "free": _free,
    "start": _start,
    "library": _library,
    "unsaid": _unexplained,
    "confined": _confined,
    "host": _host,
}

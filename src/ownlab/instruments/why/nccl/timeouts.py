"""The rule about collectives that took too long: which rank did not arrive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ownlab.instruments.why.formatting import format_ms
from ownlab.instruments.why.nccl.records import NcclLog, Timeout
from ownlab.instruments.why.nccl.rule import NcclRule
from ownlab.instruments.why.records import Finding
from ownlab.text import Text, listing, plural, text

__all__ = ["CollectiveTimeout"]

_MOST_NAMED = 8


class _Culprit(NamedTuple):
    """Which ranks did not arrive, and why that is known."""

    ranks: tuple[int, ...]
    sentence: Text


class CollectiveTimeout(NcclRule):
    """A collective timed out, because a rank did not arrive.

    **Why it matters.** A collective ends when every rank has called it. If one is late by more than the time-out (10 minutes with
    NCCL in PyTorch), all others stop with an error, and each says only that it waited. The rank at fault is the one that did *not* wait:
    it has no such message, is behind in the count of collectives, or waits in another collective.

    **What to do.** Read the log of the rank that is named: an exception, out of memory, a killed process. If it was only slow (saving a
    checkpoint or evaluating on rank 0 alone, tokenizing, compiling), raise the time-out: `init_process_group(timeout=timedelta(hours=1))`,
    or let the other ranks do the same. If the ranks wait in different collectives, a branch of the program differs between them:
    `TORCH_DISTRIBUTED_DEBUG=DETAIL` names it. `TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1` keeps what each rank did.

    **Sources.** "Watchdog caught collective operation timeout" of each rank, with the numbers of its collectives
    (`ProcessGroupNCCL.cpp` of PyTorch).
    """

    code = "nccl-timeout"
    title = text("A collective timed out: a rank did not arrive")

    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Compare the first time-out of each rank."""
        first = _first_of_each_rank(log.timeouts)
        if not first:
            return
        longest = max(each.ran_ms for each in first)
        culprit = _culprit(first, _size(log, first))
        shown = text(
            "{operation} number {sequence} was given up after {time} by {count} ranks.",
            operation=first[0].operation,
            sequence=first[0].sequence,
            time=format_ms(longest),
            count=len(first),
        )
        yield self.finding(
            headline=culprit.sentence if culprit is not None else shown,
            evidence=[shown, *(_seen(each) for each in first)],
            meaning=text("The ranks that waited report the error; the one that did not arrive is the cause."),
            advice=_advice(culprit),
            most=6,
        )


def _first_of_each_rank(timeouts: Iterable[Timeout]) -> list[Timeout]:
    found: dict[int, Timeout] = {}
    for each in timeouts:
        known = found.get(each.rank)
        if known is None or each.sequence < known.sequence:
            found[each.rank] = each
    return [found[rank] for rank in sorted(found)]


def _size(log: NcclLog, timeouts: list[Timeout]) -> int:
    """How many ranks there are at least."""
    sizes = [group.size for group in log.communicators]
    return max([*sizes, *(each.rank + 1 for each in timeouts)])


def _culprit(first: list[Timeout], size: int) -> _Culprit | None:
    """Whoever waits elsewhere, is behind, or did not say anything."""
    groups = {each.group for each in first}
    if len(groups) == 1:
        behind = _behind(first)
        if behind is not None:
            return behind
    missing = tuple(sorted(set(range(size)) - {each.rank for each in first}))
    # A log of one machine of several lacks whole machines of ranks.
    if missing and len(missing) < size / 2:
        names = listing(missing[:_MOST_NAMED])
        return _Culprit(
            missing,
            plural(
                len(missing),
                "Rank {ranks} did not wait for the collective, as all others did: it has not arrived there.",
                "Ranks {ranks} did not wait for the collective, as all others did: they have not arrived there.",
                ranks=names,
            ),
        )
    return None


def _behind(first: list[Timeout]) -> _Culprit | None:
    farthest, nearest = max(each.sequence for each in first), min(each.sequence for each in first)
    if farthest != nearest:
        late = tuple(each.rank for each in first if each.sequence == nearest)
        if len(late) * 2 <= len(first):
            return _Culprit(
                late,
                plural(
                    len(late),
                    "Rank {ranks} is at collective {late}, others at {others}: it is behind, or has called others.",
                    "Ranks {ranks} are at collective {late}, others at {others}: they are behind, or have called others.",
                    ranks=listing(late[:_MOST_NAMED]),
                    late=nearest,
                    others=farthest,
                ),
            )
        return None
    calls = [(each.operation, each.elements) for each in first]
    usual = max(set(calls), key=calls.count)
    other = [each for each in first if (each.operation, each.elements) != usual]
    if not other:
        return None
    return _Culprit(
        tuple(each.rank for each in other),
        plural(
            len(other),
            "Rank {ranks} waits in {operation}, others in {usual}: the ranks have called different collectives.",
            "Ranks {ranks} wait in {operation}, others in {usual}: the ranks have called different collectives.",
            ranks=listing([each.rank for each in other][:_MOST_NAMED]),
            operation=_call(other[0].operation, other[0].elements),
            usual=_call(*usual),
        ),
    )


def _call(operation: str, elements: int | None) -> str:
    return (
        operation if elements is None else text("{operation} of {count} elements", operation=operation, count=elements)
    )


def _seen(timeout: Timeout) -> Text:
    if timeout.last_completed is None:
        return text(
            "rank {rank} waited {time} in {operation} number {sequence}",
            rank=timeout.rank,
            time=format_ms(timeout.ran_ms),
            operation=timeout.operation,
            sequence=timeout.sequence,
        )
    return text(
        "rank {rank} waited {time} in {operation} number {sequence}; it had completed {completed} and enqueued {enqueued}",
        rank=timeout.rank,
        time=format_ms(timeout.ran_ms),
        operation=timeout.operation,
        sequence=timeout.sequence,
        completed=timeout.last_completed,
        enqueued=timeout.last_enqueued,
    )


def _advice(culprit: _Culprit | None) -> list[str]:
    advice = [
        text("If a rank was only slow, raise the time-out: init_process_group(timeout=timedelta(hours=1))"),
        text("Keep what each rank did: TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"),
    ]
    if culprit is None:
        return [
            text(
                "All ranks that are in the log waited: look for one on a machine whose log is not here, and at the network."
            ),
            *advice,
        ]
    names = listing(culprit.ranks[:_MOST_NAMED])
    return [text("Read what rank {ranks} did last: an exception, out of memory, saving, evaluating.", ranks=names), *advice]  # fmt: skip

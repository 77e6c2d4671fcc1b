"""The base class of a rule about a log of NCCL. Its docstring is its page, as that of every rule of `ownlab why`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from ownlab.instruments.why.nccl.records import Communicator, Connection, Failure, NcclLog
from ownlab.instruments.why.records import Finding
from ownlab.instruments.why.rule import Cause

__all__ = ["NcclRule", "failures_of", "machine_name", "pairs_of", "rank_pairs"]

_MOST_SHOWN = 4


class NcclRule(Cause):
    """Checks a log of NCCL for one cause. It keeps no state."""

    @abstractmethod
    def check(self, log: NcclLog) -> Iterable[Finding]:
        """Yield one finding per separate cause; usually none or one."""

    def finding(
        self, *, headline: str, evidence: Iterable[str], meaning: str, advice: Iterable[str], most: int = _MOST_SHOWN
    ) -> Finding:
        """Return a finding of this rule. A log has no times: nothing says what it costs."""
        return Finding(
            code=self.code,
            title=self.title,
            headline=headline,
            cost_ms=0.0,
            share=0.0,
            evidence=tuple(evidence)[:most],
            meaning=meaning,
            advice=tuple(advice),
        )


def failures_of(log: NcclLog, *kinds: str) -> list[Failure]:
    """The warnings of these kinds, the most frequent first."""
    return sorted((each for each in log.failures if each.kind in kinds), key=lambda each: -each.count)


def pairs_of(log: NcclLog) -> list[tuple[Communicator, Connection]]:
    """Every connection of every communicator."""
    return [(group, connection) for group in log.communicators for connection in group.connections]


def rank_pairs(connections: Iterable[Connection]) -> str:
    """ "0 and 1, 2 and 3, …": pairs of ranks, each once."""
    pairs = sorted({tuple(sorted((each.sender, each.receiver))) for each in connections})
    shown = ", ".join(f"{first}-{second}" for first, second in pairs[:_MOST_SHOWN])
    return shown + ", …" if len(pairs) > _MOST_SHOWN else shown


def machine_name(name: str) -> str:
    """The name of a machine, or a word for one without."""
    return name or "localhost"

"""The base class of the rules about a cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from ownlab.instruments.doctor.cluster.records import ClusterFacts
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import Rule

__all__ = ["ClusterRule"]


class ClusterRule(Rule):
    """Looks at the facts of a cluster. A case of one machine has none."""

    def check(self, case: Case) -> Iterable[Finding]:
        """Yield nothing: a case is one machine."""
        return ()

    @abstractmethod
    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        """Yield one finding per separate problem; usually none or one."""

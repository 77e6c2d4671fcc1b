"""From the facts of a cluster to its diagnosis."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.instruments.doctor.cluster.records import ClusterDiagnosis, ClusterFacts, ClusterVerdict
from ownlab.instruments.doctor.records import Finding
from ownlab.instruments.doctor.rules.cluster import CLUSTER_RULES
from ownlab.text import plural, sentences, text

__all__ = ["diagnose_cluster"]

_ORDER = {"error": 0, "warning": 1, "note": 2}


def diagnose_cluster(facts: ClusterFacts) -> ClusterDiagnosis:
    """Run every rule; return the findings, worst first and causes before effects, and the verdict."""
    found = [finding for rule in CLUSTER_RULES for finding in rule().check_cluster(facts)]
    findings = tuple(sorted(found, key=lambda finding: (_ORDER[finding.severity], not finding.blocks)))
    return ClusterDiagnosis(verdict=_verdict(facts, findings), findings=findings, cluster=facts)


def _verdict(facts: ClusterFacts, findings: Iterable[Finding]) -> ClusterVerdict:
    blocking = next((finding for finding in findings if finding.blocks), None)
    if blocking is not None:
        return ClusterVerdict("no", text("The cluster cannot be used. {problem}.", problem=blocking.title))
    usable = sum(node.usable for node in facts.nodes)
    total = len(facts.nodes)
    takes = plural(
        total,
        "{usable} of 1 node of {cluster} takes jobs.",
        "{usable} of {n} nodes of {cluster} take jobs.",
        usable=usable,
        cluster=facts.cluster or text("the cluster"),
    )
    checked = sum(node.check is not None and not node.check.problem for node in facts.nodes)
    if any(finding.severity == "error" for finding in findings):
        return ClusterVerdict("yes", sentences(takes, text("Errors below concern some of them.")))
    if not checked:
        return ClusterVerdict("yes", sentences(takes, text("No job has looked at them.")))
    return ClusterVerdict(
        "yes", sentences(takes, plural(checked, "A job has looked at 1 of them.", "Jobs have looked at {n} of them."))
    )

"""The diagnosis of a cluster in the terminal: the verdict, the findings, a line for each node."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.instruments.doctor.cluster.records import ClusterDiagnosis, ClusterFacts, NodeFacts
from ownlab.instruments.doctor.terminal import show_explain_hint, show_finding
from ownlab.machine.facts import value_of
from ownlab.render.wide_text import align_left
from ownlab.text import facts, text

__all__ = ["show_cluster_diagnosis"]

_MOST_NODES = 40  # listed one by one


def show_cluster_diagnosis(diagnosis: ClusterDiagnosis, out: Console) -> None:
    """Print a diagnosis."""
    style = "bold green" if diagnosis.verdict.usable == "yes" else "bold red"
    out.print(Text(diagnosis.verdict.sentence, style=style))
    for finding in diagnosis.findings:
        out.print()
        show_finding(finding, out)
    out.print()
    _show_nodes(diagnosis.cluster, out)
    if diagnosis.findings:
        show_explain_hint(diagnosis.findings[0].code, out)


def _show_nodes(cluster: ClusterFacts, out: Console) -> None:
    version = value_of(cluster.controller) or value_of(cluster.commands)
    if version is not None:
        out.print(
            Text(
                text(
                    "Slurm {version}, seen from {host} as {user}", version=version, host=cluster.host, user=cluster.user
                )
            )
        )
    width = max((len(node.name) for node in cluster.nodes), default=0) + 2
    for node in cluster.nodes[:_MOST_NODES]:
        out.print(Text.assemble("  ", (align_left(node.name, width), "bold"), _describe(node)))
    if len(cluster.nodes) > _MOST_NODES:
        out.print(Text(text("  and {n} more; --json lists all", n=len(cluster.nodes) - _MOST_NODES), style="dim"))


def _describe(node: NodeFacts) -> str:
    state = "+".join((node.state, *node.flags)).lower()
    if node.check is None:
        looked = text("no job was run there: {reason}", reason=node.unchecked) if node.unchecked else None
    elif node.check.problem:
        looked = text("job {job} found a problem", job=node.check.job or "–")
    else:
        looked = text("looked at by job {job}", job=node.check.job)
    gpus = text("{n} GPUs configured", n=node.gpus) if node.gpus else None
    return facts(state, gpus, looked)

"""Rules about nodes as the controller sees them, and their GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.cluster.connections import OPEN, REFUSED, describe_connection
from ownlab.instruments.doctor.cluster.records import ClusterFacts, NodeFacts
from ownlab.instruments.doctor.records import Finding
from ownlab.instruments.doctor.rules.cluster.cluster_rule import ClusterRule
from ownlab.machine.facts import value_of
from ownlab.text import listing, plural, text

__all__ = ["ClusterGpus", "ClusterNodeDrained", "ClusterNodeSilent", "ClusterNodeUnreachable", "ClusterVersions"]

_GRES_REASON = re.compile(r"gres/gpu|GRES|gpu count", re.IGNORECASE)


class ClusterNodeUnreachable(ClusterRule):
    """Nothing listens where the daemon of a node (slurmd) should.

    **Why it matters.** The node takes no jobs. After `SlurmdTimeout` (300 s by default) Slurm calls it down, and jobs that ran
    there have failed.

    **What to do.** If the connection is refused, slurmd does not run on the node, or uses another port (`SlurmdPort`, usually 6818,
    or `Port` of the node): start it and read its log. If nothing answers, the node is off, `NodeAddr` is wrong, or a firewall drops
    the connection. Where only the controller may reach that port, nothing is wrong as long as the node takes jobs; this is found
    only of nodes that do not.

    **Sources.** slurm.conf(5): SlurmdPort, NodeAddr, SlurmdTimeout; slurm.schedmd.com: Network Configuration Guide.
    """

    code = "cluster-node-unreachable"
    severity = "error"
    title = text("A node cannot be reached")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        lost = [node for node in facts.nodes if node.connection not in ("", OPEN) and _is_lost(node)]
        if lost:
            names = listing(node.name for node in lost)
            yield self.finding(
                title=plural(len(lost), "Node {names} cannot be reached", "Nodes {names} cannot be reached", names=names),
                evidence=[
                    text(
                        "{name}: {state}; connection to {address}:{port} {connection}",
                        name=node.name, state=_state(node), address=node.address, port=node.port, connection=describe_connection(node.connection),
                    )
                    for node in lost
                ],
                meaning=text("Its slurmd does not run, the machine is off, or a firewall is between."),
                fix=list(dict.fromkeys(_step(node) for node in lost)),
            )  # fmt: skip


def _step(node: NodeFacts) -> str:
    if node.connection == REFUSED:
        return text("systemctl restart slurmd; journalctl -u slurmd -n 30   # on {name}", name=node.name)
    return text(
        "Is {name} on, is {address} its address, and is port {port} open between the machines?",
        name=node.name, address=node.address, port=node.port,
    )  # fmt: skip


class ClusterNodeSilent(ClusterRule):
    """A node listens, but does not answer the controller: its munge key, its clock or its configuration differs.

    **Why it matters.** Controller and node believe each other by munge. With another key, or a clock that is more than five minutes
    off, each takes the other for a stranger: the node counts as down, although slurmd runs on it.

    **What to do.** On the node, look into the log of slurmd and munged ("Invalid credential", "Expired credential", "Rewound
    credential"). Compare `sha256sum /etc/munge/munge.key`, `date` and `slurm.conf` with those of the controller; restart munged and
    slurmd.

    **Sources.** munge(7); slurm.schedmd.com: Troubleshooting Guide, "Nodes are getting set to a DOWN state".
    """

    code = "cluster-node-silent"
    severity = "error"
    title = text("A node listens, but does not answer the controller")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        silent = [node for node in facts.nodes if node.connection == OPEN and _is_lost(node)]
        if silent:
            names = listing(node.name for node in silent)
            yield self.finding(
                title=plural(
                    len(silent),
                    "Node {names} listens, but does not answer the controller",
                    "Nodes {names} listen, but do not answer the controller",
                    names=names,
                ),
                evidence=[
                    text("{name}: {state}; something listens at {address}:{port}", name=node.name, state=_state(node), address=node.address, port=node.port)
                    for node in silent
                ],
                meaning=text("Most often the munge key there is another one, or the clock is more than five minutes off."),
                fix=[
                    text("sha256sum /etc/munge/munge.key; date   # as root, on {names} and on the controller: both must agree", names=names),
                    text("journalctl -u munge -u slurmd -n 30   # on {names}", names=names),
                    text("systemctl restart munge slurmd   # on {names}, after a new key", names=names),
                ],
            )  # fmt: skip


class ClusterGpus(ClusterRule):
    """The configuration of a node (Gres) does not have the number of GPUs that the node has.

    **Why it matters.** If it claims more than there are, jobs start on GPUs that do not exist, or slurmd finds fewer and the node is
    drained. If it claims fewer, the others are never used. A `File=` in gres.conf that is not a device leaves
    `CUDA_VISIBLE_DEVICES` unset without a word, and jobs share all GPUs.

    **What to do.** Correct `Gres=` in slurm.conf and `File=` in gres.conf (`ls /dev/nvidia[0-9]*` on the node), restart slurmd
    there, run `scontrol reconfigure`, and `scontrol update NodeName=… State=RESUME` if it is drained.

    **Sources.** gres.conf(5); the GPUs are those on the node's PCI bus, whatever its driver says.
    """

    code = "cluster-gpus"
    severity = "error"
    title = text("The configured GPUs of a node are not those that it has")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        for node in facts.nodes:
            cards = value_of(node.check.cards) if node.check is not None and not node.check.problem else None
            slices = any("g." in each for each in node.gpu_types)  # MIG: 1g.10gb; more of them than cards
            told = _GRES_REASON.search(node.reason)
            differs = cards is not None and cards != node.gpus and not slices
            if not differs and not told:
                continue
            unused = cards is not None and cards > node.gpus and not told
            yield self.finding(
                title=text("{name} is configured with {gpus} GPUs, and has {cards}", name=node.name, gpus=node.gpus, cards=cards)
                if cards is not None
                else text("{name} does not have the GPUs with which it is configured", name=node.name),
                evidence=[
                    *([text("{name}: Gres has {gpus} GPUs", name=node.name, gpus=node.gpus)] if node.gpus or cards else []),
                    *([text("{name}: {cards} NVIDIA or AMD GPUs on its PCI bus", name=node.name, cards=cards)] if cards is not None else []),
                    *([text("Slurm: {reason}", reason=node.reason)] if told else []),
                ],
                meaning=text("GPUs that are not configured are never given to a job.")
                if unused
                else text("Jobs may be given GPUs that do not exist, and Slurm drains a node that has fewer than configured."),
                fix=[
                    text("ls /dev/nvidia[0-9]*; slurmd -C   # on {name}: what is there", name=node.name),
                    text("Correct Gres= in slurm.conf and File= in gres.conf, and restart slurmd on {name}.", name=node.name),
                    text("scontrol reconfigure; scontrol update NodeName={name} State=RESUME", name=node.name),
                ],
                severity="warning" if unused else "error",
            )  # fmt: skip


class ClusterNodeDrained(ClusterRule):
    """A node takes no jobs: it is drained or down, with the reason that Slurm or an administrator gave.

    **Why it matters.** Jobs that need it wait. Slurm does not take a drained node back by itself.

    **What to do.** Remove the reason, then `scontrol update NodeName=… State=RESUME`. With `ReturnToService=2` a node that was down
    comes back when it registers with a valid configuration.

    **Sources.** scontrol(1); slurm.conf(5): ReturnToService.
    """

    code = "cluster-node-drained"
    severity = "warning"
    title = text("A node takes no jobs")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        for node in facts.nodes:
            if not node.usable and not _is_lost(node) and not _GRES_REASON.search(node.reason):
                yield self.finding(
                    title=text("{name} takes no jobs", name=node.name),
                    evidence=[text("{name}: {state}; {reason}", name=node.name, state=_state(node), reason=node.reason or text("no reason is given"))],
                    meaning=text("Jobs that need it wait until somebody takes it back into service."),
                    fix=[text("scontrol update NodeName={name} State=RESUME   # when the reason is removed", name=node.name)],
                )  # fmt: skip


class ClusterVersions(ClusterRule):
    """The parts of Slurm, or ownlab, have versions that do not belong together.

    **Why it matters.** A controller works with daemons and commands of its own release and of the two (from 24.11 on three) before,
    never with newer ones: a node that was updated first does not register.

    **What to do.** Update the controller first, then the nodes, then login nodes; at the end all have the same version.

    **Sources.** slurm.schedmd.com: Upgrade Guide, "Compatibility Window".
    """

    code = "cluster-versions"
    severity = "warning"
    title = text("The versions of Slurm differ")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        controller, commands = value_of(facts.controller), value_of(facts.commands)
        if controller is None:
            return
        others = {
            node.name: node.version for node in facts.nodes if node.version and _release(node.version) != controller
        }
        if commands is not None and commands != controller:
            others[facts.host] = commands
        if not others:
            return
        newer = [name for name, version in others.items() if _release(version) > controller]
        yield self.finding(
            evidence=[
                text("controller: {version}", version=controller),
                *(text("{name}: {version}", name=name, version=version) for name, version in others.items()),
            ],
            meaning=text("{names} are newer than the controller, which does not understand them.", names=listing(newer))
            if newer
            else text("Within two releases this works; it is meant for the time of an update."),
            fix=[text("Bring all machines to one version: the controller first, then the nodes, then login nodes.")],
            severity="error" if newer else "note",
        )


def _release(version: str) -> str:
    """The release of a version: 22.05.8 -> 22.05."""
    return ".".join(version.split(".")[:2])


def _is_lost(node: NodeFacts) -> bool:
    """Whether Slurm does not hear of a node."""
    if "NOT_RESPONDING" in node.flags or "Not responding" in node.reason:
        return True
    return node.state == "UNKNOWN" or (node.state == "DOWN" and not node.version)


def _state(node: NodeFacts) -> str:
    return "+".join((node.state, *node.flags))

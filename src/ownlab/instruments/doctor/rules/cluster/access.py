"""Rules about the way to the cluster: Slurm's commands here, munge, the controller."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.cluster.connections import OPEN, REFUSED, describe_connection
from ownlab.instruments.doctor.cluster.records import ClusterFacts, Controller
from ownlab.instruments.doctor.records import Finding
from ownlab.instruments.doctor.rules.cluster.cluster_rule import ClusterRule
from ownlab.machine.facts import Unknown
from ownlab.text import in_english, listing, text

__all__ = ["ClusterAuthentication", "ClusterCommands", "ClusterController", "ClusterMunge"]


class ClusterCommands(ClusterRule):
    """Slurm's commands are not on this machine, are too old, or do not know a cluster.

    **Why it matters.** ownlab reaches a cluster by `sinfo`, `sbatch`, `squeue`, `scontrol` and `scancel`, and by nothing else.

    **What to do.** Work on a login node, or install the commands in the cluster's version here and give this machine the cluster's
    `slurm.conf` and munge key. Some sites need `module load slurm` first. `SLURM_CONF` names a configuration that is elsewhere.

    **Sources.** slurm.schedmd.com: Quick Start Administrator Guide; slurm.conf(5).
    """

    code = "cluster-commands"
    severity = "error"
    blocks = True
    title = text("Slurm's commands do not work on this machine")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        if isinstance(facts.commands, Unknown):
            yield self.finding(
                evidence=[facts.commands.reason, *_configuration(facts)],
                meaning=text(
                    "Without Slurm's commands nothing can be submitted, and nothing else is known of the cluster."
                ),
                fix=[
                    text("Run this on a login node of the cluster; some sites need `module load slurm` first."),
                    text(
                        "apt-get install slurm-client munge   # Debian, Ubuntu; then copy slurm.conf and munge.key of the cluster"
                    ),
                ],
            )


class ClusterMunge(ClusterRule):
    """munge does not work on this machine.

    **Why it matters.** Slurm believes who you are because munge says so: munged signs a credential with a key that all machines of
    the cluster share. Without it every command is refused.

    **What to do.** Start munged (`systemctl start munge`), and read its log if it does not start: it insists on a key that only its
    own user can read (`/etc/munge/munge.key`, mode 0400) and on folders that others cannot write. Then `munge -n | unmunge` must
    say "Success (0)".

    **Sources.** munge(1), munged(8); github.com/dun/munge, Installation Guide.
    """

    code = "cluster-munge"
    severity = "error"
    blocks = True
    title = text("munge does not work on this machine")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        # A cluster may authenticate in another way (auth/slurm), which a controller that answers shows.
        if (
            isinstance(facts.munge, Unknown)
            and isinstance(facts.controller, Unknown)
            and not isinstance(facts.commands, Unknown)
        ):
            yield self.finding(
                evidence=[text("munge -n | unmunge: {reason}", reason=facts.munge.reason), *_configuration(facts)],
                meaning=text("Slurm cannot make sure who you are, and refuses every command."),
                fix=[
                    text(
                        "systemctl status munge; journalctl -u munge -n 20   # is munged running, and what did it say?"
                    ),
                    text("munge -n | unmunge   # must print: STATUS: Success (0)"),
                ],
            )


class ClusterController(ClusterRule):
    """No controller of Slurm (slurmctld) can be reached.

    **Why it matters.** Nothing starts while it is away. Jobs that run go on; Slurm continues where it was when it is back.

    **What to do.** If the connection is refused, slurmctld does not run on that machine, or runs on another port
    (`SlurmctldPort`, usually 6817): start it, and read its log if it does not start. If nothing answers, the machine is off or a
    firewall drops the connection. Backups are named by further `SlurmctldHost` lines.

    **Sources.** slurm.conf(5): SlurmctldHost, SlurmctldPort; slurm.schedmd.com: Troubleshooting Guide.
    """

    code = "cluster-controller"
    severity = "error"
    blocks = True
    title = text("The controller of Slurm cannot be reached")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        if isinstance(facts.commands, Unknown) or any(each.is_up for each in facts.controllers):
            return
        if isinstance(facts.controller, Unknown) and not any(each.connection == OPEN for each in facts.controllers):
            yield self.finding(
                evidence=[facts.controller.reason, *map(_describe, facts.controllers), *_configuration(facts)],
                meaning=text("Nothing can be submitted until it is back. Jobs that run go on."),
                fix=[
                    *dict.fromkeys(self._step(each) for each in facts.controllers),
                    text("scontrol ping   # shows which controllers are up"),
                ],
            )

    def _step(self, controller: Controller) -> str:
        if controller.connection == REFUSED:
            return text(
                "systemctl restart slurmctld; journalctl -u slurmctld -n 30   # on {name}", name=controller.name
            )
        return text(
            "Is {name} on, and may this machine reach port {port} of {address}? A firewall may drop it.",
            name=controller.name, port=controller.port, address=controller.address,
        )  # fmt: skip


class ClusterAuthentication(ClusterRule):
    """The controller listens, but refuses what this machine says: the munge keys or the clocks differ, or the versions do.

    **Why it matters.** A credential of munge is good for five minutes, and only with the key that made it. A machine whose key or
    clock is another one looks like a stranger; Slurm's commands then only say that authentication failed, or nothing at all.

    **What to do.** Compare `sha256sum /etc/munge/munge.key` (as root) and `date` on both machines. After a new key, restart munged
    and then Slurm's daemons. Let chrony or systemd-timesyncd keep the clocks.

    **Sources.** munge(7); slurm.schedmd.com: Troubleshooting Guide, "Authentication".
    """

    code = "cluster-authentication"
    severity = "error"
    blocks = True
    title = text("The controller of Slurm refuses this machine")

    def check_cluster(self, facts: ClusterFacts) -> Iterable[Finding]:
        if (
            isinstance(facts.commands, Unknown)
            or not isinstance(facts.controller, Unknown)
            or isinstance(facts.munge, Unknown)
        ):
            return
        reached = [each for each in facts.controllers if each.connection == OPEN]
        refused = re.search(r"[Aa]uthenticat|credential|[Mm]unge", in_english(facts.controller.reason))
        if reached or (refused and any(each.is_up for each in facts.controllers)):
            yield self.finding(
                evidence=[
                    facts.controller.reason,
                    *map(_describe, reached),
                    text("munge -n | unmunge: {status} (on this machine alone)", status=facts.munge.value),
                ],
                meaning=text(
                    "munge works here, and something listens where the controller should: they do not have the same key, or the same time."
                ),
                fix=[
                    text(
                        "sha256sum /etc/munge/munge.key; date   # as root, here and on {name}: both must agree",
                        name=_names(reached),
                    ),
                    text("systemctl restart munge   # after a new key; then slurmctld and slurmd"),
                ],
            )


def _names(controllers: list[Controller]) -> str:
    return listing((each.name for each in controllers), "{items}, {last}") or text("the controller")


def _describe(controller: Controller) -> str:
    return text(
        "{name}: connection to {address}:{port} {connection}",
        name=controller.name, address=controller.address, port=controller.port, connection=describe_connection(controller.connection),
    )  # fmt: skip


def _configuration(facts: ClusterFacts) -> list[str]:
    if facts.configuration:
        return [text("configuration: {path}", path=facts.configuration)]
    return [text("configuration: no slurm.conf here, and SLURM_CONF names none")]

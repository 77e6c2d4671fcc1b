"""The rules about a Slurm cluster (`ownlab doctor --cluster`), causes before effects.

- access: Slurm's commands, munge on this machine, the controller, authentication with it.
- nodes: nodes that cannot be reached, do not answer, take no jobs, or claim GPUs that they do not have; versions.
- agreement: what jobs on nodes find: clocks, users, folders, the interpreter, connections.
"""

from __future__ import annotations

from ownlab.instruments.doctor.rules.cluster.access import (
    ClusterAuthentication,
    ClusterCommands,
    ClusterController,
    ClusterMunge,
)
from ownlab.instruments.doctor.rules.cluster.agreement import (
    ClusterClocks,
    ClusterFolder,
    ClusterInterpreter,
    ClusterNodeJob,
    ClusterPorts,
    ClusterUsers,
)
from ownlab.instruments.doctor.rules.cluster.cluster_rule import ClusterRule
from ownlab.instruments.doctor.rules.cluster.nodes import (
    ClusterGpus,
    ClusterNodeDrained,
    ClusterNodeSilent,
    ClusterNodeUnreachable,
    ClusterVersions,
)

__all__ = ["CLUSTER_RULES"]

CLUSTER_RULES: tuple[type[ClusterRule], ...] = (
    ClusterCommands,
    ClusterMunge,
    ClusterController,
    ClusterAuthentication,
    ClusterNodeUnreachable,
    ClusterNodeSilent,
    ClusterGpus,
    ClusterNodeDrained,
    ClusterVersions,
    ClusterClocks,
    ClusterUsers,
    ClusterFolder,
    ClusterInterpreter,
    ClusterPorts,
    ClusterNodeJob,
)

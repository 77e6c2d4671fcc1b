"""The nodes of a cluster as slurm.conf, gres.conf and cgroup.conf. Options that Slurm 20.11 knows, and 25.05 still does."""

from __future__ import annotations

from collections.abc import Iterator

from ownlab.instruments.cluster.records import ClusterPlan, PlannedNode

__all__ = ["CGROUP", "gres_conf", "slurm_conf"]

_SLURM = """\
# Written by `ownlab cluster write`; the same file on every machine. slurm.conf(5)
ClusterName={name}
SlurmctldHost={controller}({address})
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log

# Jobs share nodes by cores, memory and GPUs; each sees only the GPUs that it was given.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
AccountingStorageType=accounting_storage/none
MpiDefault=none

# A node that was off comes back by itself. A job has KillWait seconds to save when its time is over.
ReturnToService=2
SlurmdTimeout=120
KillWait=60
# Without it a job that names no memory would take that of a whole node.
DefMemPerCPU={memory_per_cpu}

{nodes}
PartitionName=main Nodes=ALL Default=YES DefaultTime=08:00:00 MaxTime=7-00:00:00 State=UP
"""
CGROUP = """\
# Written by `ownlab cluster write`; the same file on every machine. cgroup.conf(5)
ConstrainCores=yes
ConstrainRAMSpace=yes
ConstrainDevices=yes
"""


def slurm_conf(plan: ClusterPlan) -> str:
    """slurm.conf."""
    return _SLURM.format(
        name=plan.name,
        controller=plan.controller,
        address=plan.controller_address,
        memory_per_cpu=min(node.memory // node.cpus for node in plan.nodes),
        nodes="\n".join(map(_node, plan.nodes)),
    )


def _node(node: PlannedNode) -> str:
    gres = ",".join(f"gpu:{gpus.type}:{len(gpus.devices)}" for gpus in node.gpus)
    return (
        f"NodeName={node.name} NodeAddr={node.address} CPUs={node.cpus} RealMemory={node.memory} "
        + (f"Gres={gres} " if gres else "")
        + "State=UNKNOWN"
    )


def gres_conf(plan: ClusterPlan) -> str:
    """gres.conf. The files are named: packages of Slurm in Debian and Ubuntu cannot ask the driver."""
    lines = ["# Written by `ownlab cluster write`; the same file on every machine. gres.conf(5)", "AutoDetect=off"]
    for node in plan.nodes:
        for gpus in node.gpus:
            lines += [f"NodeName={node.name} Name=gpu Type={gpus.type} File={files}" for files in _ranges(gpus.devices)]
    return "\n".join(lines) + "\n"


def _ranges(devices: tuple[str, ...]) -> Iterator[str]:
    """/dev/nvidia0, 1, 2, 5 -> /dev/nvidia[0-2], /dev/nvidia5"""
    numbers = [int(device.removeprefix("/dev/nvidia")) for device in devices]
    first = 0
    for index, number in enumerate(numbers):
        if index + 1 == len(numbers) or numbers[index + 1] != number + 1:
            start = numbers[first]
            yield f"/dev/nvidia{number}" if start == number else f"/dev/nvidia[{start}-{number}]"
            first = index + 1

"""The nodes of a cluster that is to be set up, and what was written for it."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["ClusterFiles", "ClusterPlan", "PlannedGpus", "PlannedNode"]


class PlannedGpus(Struct, frozen=True):
    """GPUs of one type of a node."""

    type: str  # as Slurm names it: h200
    devices: tuple[str, ...]  # /dev/nvidia0 …


class PlannedNode(Struct, frozen=True):
    """A machine as a node."""

    name: str  # its host name, as `hostname -s` prints it
    address: str  # by which the other machines reach it
    cpus: int
    memory: int  # MB that jobs may use
    gpus: tuple[PlannedGpus, ...] = ()


class ClusterPlan(Struct, frozen=True):
    """A cluster."""

    name: str
    controller: str  # the name of one of the nodes, or of another machine
    controller_address: str
    nodes: tuple[PlannedNode, ...]


class ClusterFiles(Struct, frozen=True):
    """`ownlab cluster write --json`."""

    folder: str
    files: tuple[str, ...]
    plan: ClusterPlan
    notes: tuple[str, ...]  # what is unknown of a machine, and what was assumed

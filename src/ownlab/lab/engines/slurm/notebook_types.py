"""The runtime types that a lab offers on a cluster: one node of a partition, with its CPUs or some of its GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ownlab.config.settings import LabOptions
from ownlab.lab.engines.slurm.records import ClusterNode, Partition
from ownlab.lab.engines.slurm.requests import ENGINE, UNNAMED, Site, job_time
from ownlab.lab.environments.registry import DEFAULT, Environment, list_environments, own_python
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.text import Text, text
from ownlab.units import PARTS

__all__ = ["notebook_types"]


def notebook_types(site: Site, options: LabOptions, env: Mapping[str, str]) -> tuple[RuntimeType, ...]:
    """Every partition in each environment; the setting slurm.partition leaves only that one."""
    there = {each.name: each for each in list_environments(env) if each.is_there}
    environments = (there.pop(DEFAULT, Environment(DEFAULT, own_python())), *there.values())
    wanted = options.slurm_partition or env.get("SBATCH_PARTITION", "")
    partitions = [each for each in site.partitions if each.name == wanted or not wanted]
    return tuple(
        kind
        for environment in environments
        for each in partitions
        for kind in _types_of(each, site, environment, options)
    )


def _types_of(partition: Partition, site: Site, environment: Environment, options: LabOptions) -> Iterator[RuntimeType]:
    nodes = site.nodes_of(partition)
    if not nodes:
        return
    yield _type(partition, nodes, None, 0, environment, options)
    largest: dict[str, int] = {}
    for node in nodes:
        for gpus in node.gpus:
            largest[gpus.type] = max(largest.get(gpus.type, 0), gpus.number)
    for kind, most in sorted(largest.items()):
        for cards in _counts(most):
            yield _type(partition, nodes, kind, cards, environment, options)


def _counts(most: int) -> list[int]:
    """6 -> 1, 2, 4, 6: powers of two, and the most."""
    powers = [2**power for power in range(most.bit_length()) if 2**power < most]
    return [*powers, most] if most else []


def _type(
    partition: Partition,
    nodes: list[ClusterNode],
    kind: str | None,
    cards: int,
    environment: Environment,
    options: LabOptions,
) -> RuntimeType:
    is_default = environment.name == DEFAULT
    what = f"{cards} × {kind or UNNAMED}" if kind is not None else "CPU"
    slug = _slug(f"{partition.name}-{cards}-{kind or UNNAMED}" if kind is not None else f"{partition.name}-cpu")
    why_not = _why_not(partition, nodes, kind, cards)
    return RuntimeType(
        name=f"ownlab-{ENGINE}-" + ("" if is_default else f"{environment.name}-") + slug,
        label=f"{'Python 3' if is_default else environment.name} ({what} · {partition.name})",
        environment=environment.name,
        python=environment.python,
        kind=None if kind is None else kind or UNNAMED,
        cards=cards,
        parts=PARTS,
        units_per_hour=options.units_for(kind, cards),
        free=not why_not,
        why_not=why_not,
        engine=ENGINE,
        partition=partition.name,
        time_limit=job_time(partition, options),
    )


def _why_not(partition: Partition, nodes: list[ClusterNode], kind: str | None, cards: int) -> Text | str:
    if not partition.is_up:
        return text("the partition is closed")
    if any(node.is_usable and _has_room(node, kind, cards) for node in nodes):
        return ""
    return text("no node is free")


def _has_room(node: ClusterNode, kind: str | None, cards: int) -> bool:
    if kind is None:
        return node.state in ("IDLE", "MIXED")
    has = max((each.number for each in node.gpus if each.type == kind), default=0)
    return has >= cards and node.free_gpus >= cards and node.state in ("IDLE", "MIXED")


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")

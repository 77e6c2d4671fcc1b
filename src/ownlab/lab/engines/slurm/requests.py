"""A request as offers of a cluster and as the options of sbatch, checked against the partitions."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ownlab.config.settings import LabOptions
from ownlab.errors import DeviceUnusable, UsageError
from ownlab.lab.engines.interface import JobRequest, Offer, Task
from ownlab.lab.engines.slurm.batch_script import LOG
from ownlab.lab.engines.slurm.records import ClusterNode, Gpus, Partition
from ownlab.lab.environments.registry import Environment
from ownlab.lab.runtimes.records import CPU_TYPE, RuntimeType
from ownlab.text import Text, listing, plural, text
from ownlab.units import PARTS, format_seconds

__all__ = [
    "ENGINE",
    "UNNAMED",
    "Site",
    "all_offers",
    "comment_of",
    "job_time",
    "offer_for",
    "resource_options",
    "sbatch_options",
]

ENGINE = "slurm"
_TYPES_HINT = text("`ownlab types --engine slurm` lists what each partition has.")
_LONGEST_NAME = 64  # of a job, as squeue shows it


class Site(NamedTuple):
    """The cluster at one moment."""

    partitions: tuple[Partition, ...]
    nodes: tuple[ClusterNode, ...]

    def nodes_of(self, partition: Partition) -> list[ClusterNode]:
        """The nodes of a partition, whatever their state."""
        return [node for node in self.nodes if partition.name in node.partitions]


def offer_for(request: JobRequest, site: Site, options: LabOptions, env: Mapping[str, str]) -> Offer:
    """What meets a request. UsageError or DeviceUnusable if it can never be met."""
    partition = _partition(site, options, env)
    environment, gpu_type = _environment(request, env)
    gpus = request.gpus or 0
    if gpu_type and not gpus:
        gpus = 1
    _check_time(partition, options)
    most = min(partition.most_nodes or len(site.nodes), len(site.nodes_of(partition)))
    fitting = [node for node in site.nodes_of(partition) if _number(node, gpu_type) >= gpus]
    if gpus and not fitting:
        raise DeviceUnusable(_no_such_gpus(site, partition, gpus, gpu_type), hint=_TYPES_HINT)
    if request.nodes > min(most, len(fitting)):
        values = {"partition": partition.name, "has": min(most, len(fitting)), "nodes": request.nodes}
        message = text("Partition {partition} gives a job at most {has} such nodes; {nodes} were requested.", **values)
        raise UsageError(message, hint=text("Ask for fewer with --nodes, or choose another --partition."))
    kind = _kind(fitting, gpu_type) if gpus else None
    free = sum(node.is_usable and _is_free(node, gpus) for node in fitting)
    return _offer(environment, partition, kind, gpus, request.nodes, free >= request.nodes, options)


def all_offers(site: Site, options: LabOptions, env: Mapping[str, str]) -> tuple[Offer, ...]:
    """Every partition: its CPUs, and each type of GPU with the most that a node has."""
    environment, _ = _environment(JobRequest(), env)
    return tuple(offer for each in site.partitions for offer in _offers_of(each, site, environment, options))


def _offers_of(partition: Partition, site: Site, environment: Environment, options: LabOptions) -> Iterator[Offer]:
    nodes = site.nodes_of(partition)
    if not nodes:
        return
    most = min(partition.most_nodes or len(nodes), len(nodes))
    free = any(node.is_usable and _is_free(node, 0) for node in nodes)
    yield _offer(environment, partition, None, 0, most, free, options)
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for node in nodes:
        for gpus in node.gpus:
            sizes[gpus.type] = max(sizes[gpus.type], gpus.number)
            counts[gpus.type] += 1
    for gpu_type, number in sorted(sizes.items()):
        free = any(node.is_usable and _has(node, gpu_type) and node.free_gpus > 0 for node in nodes)
        yield _offer(environment, partition, gpu_type or UNNAMED, number, min(most, counts[gpu_type]), free, options)


UNNAMED = "GPU"  # a site that gives its GPUs no type


def _offer(
    environment: Environment,
    partition: Partition,
    kind: str | None,
    gpus: int,
    nodes: int,
    free: bool,
    options: LabOptions,
) -> Offer:
    return Offer(
        engine=ENGINE,
        type=RuntimeType(
            name=f"{ENGINE}-{partition.name}" + (f"-{gpus}-{kind}" if kind else ""),
            label=_label(partition, kind, gpus, nodes),
            environment=environment.name,
            python=environment.python,
            kind=kind,
            cards=gpus,
            parts=PARTS,
            units_per_hour=options.units_for(kind, gpus) * nodes,
            free=free and partition.is_up,
            why_not="" if free and partition.is_up else _why_not(partition),
        ),
        nodes=nodes,
        partition=partition.name,
        time_limit=partition.time_limit,
    )


def _label(partition: Partition, kind: str | None, gpus: int, nodes: int) -> Text:
    values = {"gpus": gpus, "kind": kind, "partition": partition.name}
    if kind is None:
        return plural(
            nodes, "1 node of partition {partition}, CPU", "{n} nodes of partition {partition}, CPU", **values
        )
    return plural(
        nodes,
        "{gpus} × {kind} on 1 node of partition {partition}",
        "{gpus} × {kind} on each of {n} nodes of partition {partition}",
        **values,
    )


def _why_not(partition: Partition) -> Text:
    if not partition.is_up:
        return text("the partition is closed")
    return text("no node is free")


def _partition(site: Site, options: LabOptions, env: Mapping[str, str]) -> Partition:
    names = listing(each.name for each in site.partitions)
    name = options.slurm_partition or env.get("SBATCH_PARTITION", "")
    if name:
        found = next((each for each in site.partitions if each.name == name), None)
        if found is None:
            message = text("There is no partition {name}; the cluster has {names}.", name=name, names=names)
            raise UsageError(message, hint=text("Choose one with --partition, or in the setting slurm.partition."))
        return found
    default = next((each for each in site.partitions if each.is_default), None)
    if default is None:
        message = text("The cluster has no default partition: name one of {names}.", names=names)
        raise UsageError(message, hint=text("Choose one with --partition, or in the setting slurm.partition."))
    return default


def _environment(request: JobRequest, env: Mapping[str, str]) -> tuple[Environment, str]:
    """The interpreter, and the type of GPU. `-t` names an environment, or a type of GPU."""
    # The relay of a notebook, which only submits, does without what these import.
    from ownlab.lab.engines.interpreter import choose_environment
    from ownlab.lab.runs.runtime_type import cpu_of_environment, find_named_type

    cpu = cpu_of_environment(request.type, env) if request.type else None
    base = find_named_type(cpu or CPU_TYPE, env)
    environment = choose_environment(base, request.python, given=cpu is not None, env=env)
    return environment, request.type if request.type and cpu is None else ""


def _check_time(partition: Partition, options: LabOptions) -> None:
    asked = _seconds(options.slurm_time)
    if asked is not None and partition.time_limit is not None and asked > partition.time_limit:
        values = {
            "partition": partition.name, "limit": format_seconds(partition.time_limit), "time": format_seconds(asked),
        }  # fmt: skip
        message = text("Partition {partition} lets jobs run for {limit}; {time} were requested.", **values)
        raise UsageError(message, hint=text("Ask for less with --time, or choose another --partition."))


def job_time(partition: Partition, options: LabOptions) -> float | None:
    """The seconds after which Slurm ends a job in a partition; None if it does not."""
    asked = _seconds(options.slurm_time)
    return asked if asked is not None else partition.default_time or partition.time_limit


def _seconds(given: str) -> float | None:
    """The seconds of a time as sbatch takes it; None if there is none."""
    if not given:
        return None
    days, dash, rest = given.rpartition("-")
    parts = [float(part) for part in rest.split(":")]
    if dash:  # days-hours[:minutes[:seconds]]
        hours, minutes, seconds = (*parts, 0.0, 0.0)[:3]
        return float(days) * 86_400 + hours * 3600 + minutes * 60 + seconds
    if len(parts) == 3:
        return parts[0] * 3600 + parts[1] * 60 + parts[2]
    return parts[0] * 60 + (parts[1] if len(parts) == 2 else 0.0)


def _number(node: ClusterNode, gpu_type: str) -> int:
    return max((each.number for each in node.gpus if not gpu_type or each.type == gpu_type), default=0)


def _has(node: ClusterNode, gpu_type: str) -> bool:
    return any(each.type == gpu_type for each in node.gpus)


def _is_free(node: ClusterNode, gpus: int) -> bool:
    return node.free_gpus >= gpus if gpus else node.state in ("IDLE", "MIXED")


def _kind(nodes: Sequence[ClusterNode], gpu_type: str) -> str:
    types = {each.type for node in nodes for each in node.gpus}
    return gpu_type or (types.pop() if len(types) == 1 else "") or UNNAMED


def _no_such_gpus(site: Site, partition: Partition, gpus: int, gpu_type: str) -> Text:
    sizes = {each for node in site.nodes_of(partition) for each in node.gpus}
    wanted = f"{gpus} × {gpu_type or UNNAMED}"
    if not sizes:
        return text(
            "Partition {partition} has no GPUs; {wanted} were requested.", partition=partition.name, wanted=wanted
        )
    has = listing(_describe(each) for each in sorted(sizes))
    values = {"partition": partition.name, "has": has, "wanted": wanted}
    return text("A node of partition {partition} has {has}; {wanted} were requested on each node.", **values)


def _describe(gpus: Gpus) -> str:
    return f"{gpus.number} × {gpus.type or UNNAMED}"


def comment_of(runtime: str) -> str:
    """The comment by which a job is found again."""
    return f"ownlab:{runtime}"


def sbatch_options(task: Task, options: LabOptions) -> list[str]:
    """The options of sbatch. Those of the setting slurm.options stand last and override the others."""
    name = re.sub(r"[^\w.-]+", "_", os.path.basename(task.name))[:_LONGEST_NAME]
    # %j and the like stand for something in the names of logs; a path with \\ would lose it.
    log = os.path.join(task.folder, LOG).replace("%", "%%")
    given = [
        f"--job-name={name}",
        f"--comment={comment_of(task.runtime)}",
        f"--output={log}",
        "--open-mode=append",
        "--chdir=/",
        "--export=NONE",
        "--no-requeue",
    ]
    return [*given, *resource_options(task.offer, options)]


def resource_options(offer: Offer, options: LabOptions) -> list[str]:
    """The options of sbatch that say what is wanted, and for whom."""
    kind, gpus = offer.type.kind, offer.type.cards
    given = [f"--nodes={offer.nodes}", "--ntasks-per-node=1", f"--partition={offer.partition}"]
    if kind is not None:
        given.append(f"--gres=gpu:{gpus}" if kind == UNNAMED else f"--gres=gpu:{kind}:{gpus}")
    for option, value in (("account", options.slurm_account), ("qos", options.slurm_qos), ("time", options.slurm_time)):
        if value:
            given.append(f"--{option}={value}")
    try:
        return [*given, *shlex.split(options.slurm_options)]
    except ValueError as exc:
        message = text("The setting slurm.options cannot be read: {reason}.", reason=exc)
        raise UsageError(message, hint=text("It is written as in a shell: every quotation mark is closed.")) from exc

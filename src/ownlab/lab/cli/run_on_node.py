"""`ownlab run NOTEBOOK --engine NAME`: what the run asks of a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

__all__ = ["node_request"]


def node_request(
    engine_name: str | None,
    kind: str | None,
    gpus: int | None,
    cluster: Mapping[str, str | None],
    rest: Mapping[str, Any],
) -> dict[str, Any]:
    """The fields of a RunRequest by which it runs on a node; none if no engine but this machine was named.

    UsageError or DeviceUnusable if it can never be met.
    """
    from msgspec.structs import replace

    from ownlab.lab.engines.interface import JobRequest
    from ownlab.lab.engines.registry import DEFAULT_ENGINE
    from ownlab.lab.scripts.preparation import find_script_engine

    if engine_name in (None, DEFAULT_ENGINE):
        return {}
    if rest["from_failed"]:  # its runtime is where it is
        return {}
    engine = find_script_engine(engine_name, cluster, os.environ)
    offer = engine.offers(JobRequest(kind, gpus))[0]
    # The relay, which submits the job, reads the options as settings from its environment.
    settings = {f"OWNLAB_SLURM_{name.upper()}": value for name, value in cluster.items() if value is not None}
    node_type = replace(offer.type, engine=engine.name, partition=offer.partition)
    return {"node_type": node_type, "settings": settings}

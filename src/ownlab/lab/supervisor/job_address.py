"""address.json: where the supervisor of a job is reached. It is in the job's folder, which all machines of the cluster share.

It has no keys: those of the connection are in the file from which the job reads what it runs.
"""

from __future__ import annotations

import json
import os

from ownlab.atomic_files import replace_file
from ownlab.lab.transport.endpoints import Endpoint

__all__ = ["read_address", "write_address"]

_FILE = "address.json"


def write_address(folder: str, endpoint: Endpoint) -> None:
    """Publish the endpoint of a job's journal."""
    address = {"url": endpoint.url, "node": os.environ.get("SLURMD_NODENAME") or os.uname().nodename}
    replace_file(os.path.join(folder, _FILE), json.dumps(address))


def read_address(folder: str) -> tuple[str, str] | None:
    """The URL of a job's journal and the name of its node; None if it is not there yet."""
    try:
        with open(os.path.join(folder, _FILE), encoding="utf-8") as file:
            address = json.load(file)
        return str(address["url"]), str(address["node"])
    except (OSError, ValueError, KeyError, TypeError):  # not yet, or not completely seen through a network file system
        return None

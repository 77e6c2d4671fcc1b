"""The folder of a job: what its node reads, and what it leaves. All machines of the cluster see it under the same path.

`node.json` holds the keys of the connection and variables for the kernel: it is readable by its owner only, and nothing of it
appears in an argument or in an environment that is exported. `job.json` is the relay's note which job was submitted.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from ownlab.atomic_files import replace_file
from ownlab.errors import LabError
from ownlab.lab.runtimes import end_request
from ownlab.lab.runtimes.end_request import has_job_folder
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.operations import JOB_RUNTIME_HOME
from ownlab.text import text

__all__ = ["NODE_FILE", "NodeFile", "is_first_relay", "job_folder", "node_journal", "read_node_file", "read_reference", "write_node_file",
           "write_reference"]  # fmt: skip

NODE_FILE = "node.json"
_REFERENCE_FILE = "job.json"
# Variables of the relay that a kernel elsewhere needs: what ownlab itself reads, and the notebook's path.
_PREFIX, _NOTEBOOK = "OWNLAB_", "JPY_SESSION_NAME"
# Those that mean something on this machine only, or are nobody else's business.
_OWN = frozenset({"OWNLAB_RUNTIME", "OWNLAB_LOCK", "OWNLAB_STORE", "OWNLAB_TOKEN", "OWNLAB_MACHINE", JOB_RUNTIME_HOME})


class NodeFile(NamedTuple):
    """What the node needs to know."""

    plan: Plan  # of the supervisor there, without its folders and address
    public_key: str
    secret_key: str
    server_host: str  # where the relay runs
    env: Mapping[str, str]


def is_first_relay(plan: Plan) -> bool:
    """Whether no relay of this runtime can have submitted a job: each first writes its state, and nobody wants the runtime to end."""
    written = ("state.json", end_request.FILE)
    return not has_job_folder(plan.home) and not any(os.path.exists(os.path.join(plan.home, name)) for name in written)


def job_folder(plan: Plan) -> str:
    """The folder of the job of a runtime."""
    return os.path.join(plan.home, "node")


def node_journal(plan: Plan) -> str:
    """The journal that the node writes: the relay reads it when the node can no longer be reached."""
    return os.path.join(job_folder(plan), "journal")


def write_node_file(plan: Plan, environ: Mapping[str, str]) -> None:
    """Write what the node needs, with new keys. LabError if that is impossible."""
    import zmq

    public, secret = zmq.curve_keypair()
    kept = {name: value for name, value in environ.items() if name.startswith(_PREFIX) or name == _NOTEBOOK}
    assert plan.node is not None
    on_node = plan._replace(
        home="", sockets="", store="", node=None, argv=plan.node.argv, control_url="", journal_url="", units_per_hour=0.0,
        job_folder=job_folder(plan), journal=node_journal(plan), connection={"key": secrets.token_hex(32)},
    )  # fmt: skip
    content = {
        "plan": json.loads(on_node.to_json()),
        "public_key": public.decode(),
        "secret_key": secret.decode(),
        "server_host": os.uname().nodename,
        "env": {name: value for name, value in kept.items() if name not in _OWN},
    }
    try:
        os.makedirs(job_folder(plan), mode=0o700, exist_ok=True)
        replace_file(os.path.join(job_folder(plan), NODE_FILE), json.dumps(content))
    except OSError as exc:
        message = text("Cannot write to {folder}: {reason}.", folder=job_folder(plan), reason=exc.strerror)
        raise LabError(message) from exc


def read_node_file(folder: str) -> NodeFile:
    """Read what `write_node_file` wrote. LabError if it is missing or damaged."""
    from ownlab.lab.runtimes.launch_plan import plan_from

    path = os.path.join(folder, NODE_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
        return NodeFile(**{**given, "plan": plan_from(given["plan"])})
    except (OSError, ValueError, KeyError, TypeError) as exc:
        message = text("{path} cannot be read: {reason}.", path=path, reason=exc)
        raise LabError(message) from exc


def write_reference(plan: Plan, reference: str) -> None:
    """Note which job was submitted, for the next relay. If that fails, it is found by its comment."""
    try:
        replace_file(os.path.join(job_folder(plan), _REFERENCE_FILE), json.dumps({"reference": reference}))
    except OSError:
        return


def read_reference(plan: Plan) -> str:
    """The engine's name of the job that was submitted; "" if none is noted."""
    try:
        with open(os.path.join(job_folder(plan), _REFERENCE_FILE), encoding="utf-8") as file:
            content: dict[str, Any] = json.load(file)
        return str(content["reference"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""

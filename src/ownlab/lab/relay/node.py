"""`python -m ownlab.lab.relay.node JOB_FOLDER`: a runtime in a job, on its node. The batch script starts it.

Sockets, locks and the store are on the node's own disk, since they do not work on network file systems. The journal is in the folder of the
job: what was written there is not lost when the job ends while nobody listens.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile

from ownlab.atomic_files import replace_file
from ownlab.errors import LabError
from ownlab.lab.relay.job_files import NodeFile, read_node_file
from ownlab.lab.runtimes.operations import JOB_RUNTIME_HOME
from ownlab.lab.supervisor.keeper import keep

__all__ = ["main"]

# The address by which Slurm reaches this node, from the batch script.
_ADDRESS = "OWNLAB_NODE_ADDRESS"
# Other variables of the batch script, which would mean something else to a kernel.
_OF_SCRIPT = ("OWNLAB_FOLDER", "OWNLAB_CWD", "OWNLAB_PYTHON")
_FAILED = 1


def main(folder: str) -> int:
    """Run the job's runtime to its end."""
    try:
        given = read_node_file(folder)
    except LabError as exc:
        sys.stderr.write(f"ownlab: {exc.message}\n")
        return _FAILED
    own = tempfile.mkdtemp(prefix="ownlab-", dir="/tmp")  # the path of a Unix socket must be short
    plan_file = _write_plan(given, own, os.environ.pop(_ADDRESS, ""))
    for name in _OF_SCRIPT:
        os.environ.pop(name, None)
    os.environ.update({**given.env, JOB_RUNTIME_HOME: own})
    process = os.getpid()
    code = keep(plan_file)
    if os.getpid() == process:  # not in the supervisor, which returns here too
        shutil.rmtree(own, ignore_errors=True)
    return code


def _write_plan(given: NodeFile, own: str, address: str) -> str:
    host = _reachable(address, given.server_host)
    keys = {"curve_publickey": given.public_key, "curve_secretkey": given.secret_key}
    channels = {f"{channel}_port": 0 for channel in ("shell", "iopub", "stdin", "control", "hb")}
    signing = {"signature_scheme": "hmac-sha256", "key": given.plan.connection["key"]}
    plan = given.plan._replace(
        # The node may be the machine of the relay: processes are known by this name, and the relay's own end with it.
        runtime=f"{given.plan.runtime}.node",
        home=own,
        sockets=own,
        store=os.path.join(own, "store"),
        connection={"transport": "ipc", "ip": "", **channels, **signing, **keys},
        journal_url=f"tcp://{f'[{host}]' if ':' in host else host}:0",
        detached=True,
        wait=False,
        host=os.uname().nodename,
    )
    path = os.path.join(own, "plan.json")
    replace_file(path, plan.to_json())
    return path


def _reachable(address: str, server: str) -> str:
    """The address of this node that others reach: that of Slurm, unless its name means this machine only.

    Debian lists a machine's own name as 127.0.1.1 in /etc/hosts. Then it is the address from which packets to the server's host leave.
    """
    found = _resolve(address)
    if found and (not _is_loopback(found) or found == address):
        return found
    there = _resolve(server)
    if there:
        family = socket.AF_INET6 if ":" in there else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((there, 9))  # nothing is sent
                return str(probe.getsockname()[0])
        except OSError:  # there is no route to it
            pass
    return found or "127.0.0.1"


def _resolve(name: str) -> str:
    if not name:
        return ""
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return ""


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

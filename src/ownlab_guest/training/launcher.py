"""Starts a script by path, in the user's Python: `python launcher.py FOLDER RANKS [-m] SCRIPT ARGUMENTS…`.

With one rank the script runs in this process, as `python SCRIPT` would run it. With several, torchrun starts them; its own
messages are written to FOLDER/launcher.log, and the ranks that failed to FOLDER/failures.json.

On each node of a job of a cluster: `python launcher.py --node FOLDER NODE NODES ADDRESS`. FOLDER/run.json has the script and its
arguments; torchrun connects the nodes at ADDRESS (HOST:PORT), which is on node 0; other nodes write launcher-N.log and so on.
"""

import importlib.util
import json
import os
import sys
import time
from typing import Any, Dict, List, NamedTuple, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
GUEST = os.path.dirname(HERE)

NO_TORCH = 4  # of `ownlab`: the interpreter cannot be used
SIGNALLED = 128  # plus the signal: the exit code of shells


def register_package() -> None:
    """Make `import ownlab_guest.…` work, as `ownlab_guest/launch.py` does for every other module of the guest."""
    if sys.path and os.path.abspath(sys.path[0]) == HERE:
        del sys.path[0]  # Python put this script's folder there
    sys.path.insert(0, GUEST)
    launch = importlib.import_module("launch")
    del sys.modules["launch"]  # the script may have a module of this name
    launch.register_package()  # takes the folder off sys.path again


class Nodes(NamedTuple):
    """Which of how many nodes this is, and where they meet."""

    node: int = 0
    nodes: int = 1
    address: str = ""  # HOST:PORT on node 0

    def file(self, name: str, ending: str) -> str:
        """The name of a file that each node writes: "launcher.log", and "launcher-1.log" of node 1."""
        return name + ending if self.node == 0 else "{}-{}{}".format(name, self.node, ending)


def run_ranks(folder: str, ranks: int, script: List[str], place: Nodes) -> int:
    """Run the ranks of this node to their end. Return the exit code."""
    log = os.open(os.path.join(folder, place.file("launcher", ".log")), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    if importlib.util.find_spec("torch") is None:
        sys.stderr.write(
            "There is no torch in {}. Choose an environment that has it, with -t or --python.\n".format(sys.executable)
        )
        return NO_TORCH
    # torchrun sets 1 and warns about it: then all but one core per rank would have nothing to do.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // ranks)))
    if place.nodes > 1:
        from ownlab_guest.training.node_network import choose_interface

        choose_interface(os.environ, place.address.rpartition(":")[0], place.node == 0)  # type: ignore[arg-type]
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    try:
        run.main([*torchrun_options(ranks, place), os.path.join(HERE, "rank.py"), folder, *script])
    except ChildFailedError as exc:
        sys.stderr.write("{}\n".format(exc))
        write_failures(folder, place, {rank: (each.exitcode, each.pid) for rank, each in exc.failures.items()})
        return 1
    except SignalException as exc:
        sys.stderr.write("{}\n".format(exc))
        return SIGNALLED + int(exc.sigval)
    return 0


def torchrun_options(ranks: int, place: Nodes) -> List[str]:
    """No restarts: a script that fails has to be seen, not repeated. One machine: a free port."""
    options = ["--nnodes", str(place.nodes), "--nproc_per_node", str(ranks), "--max_restarts", "0"]
    if place.nodes > 1:  # static: rank 0 is on node 0, whose output is shown
        host, _, port = place.address.rpartition(":")
        options += ["--node_rank", str(place.node), "--rdzv_backend", "static", "--rdzv_endpoint", place.address]
        return [*options, "--master_addr", host, "--master_port", port]
    options += ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--rdzv_id", str(os.getpid())]
    # Without it the ranks look for each other by the name of this machine, which may lead nowhere.
    return [*options, "--local_addr", "127.0.0.1"] if torch_version() >= (2, 0) else options


def torch_version() -> Tuple[int, ...]:
    """The version without an import of torch."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return tuple(int(part) for part in version("torch").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return (0,)


def write_failures(folder: str, place: Nodes, failures: Dict[int, Tuple[int, int]]) -> None:
    """Write what torchrun knows of the ranks that failed; their exceptions are recorded by themselves."""
    from ownlab_guest.atomic_files import replace_file

    path = os.path.join(folder, place.file("failures", ".json"))
    ranks = {str(rank): {"exit_code": code, "pid": pid} for rank, (code, pid) in failures.items()}
    replace_file(path, json.dumps({"at": time.time(), "ranks": ranks}))


def read_job(folder: str, node: int, nodes: int, address: str) -> Tuple[int, List[str], Nodes]:
    """The ranks of one node of a job, the script and its arguments, from FOLDER/run.json."""
    with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
        started: Dict[str, Any] = json.load(file)
    return int(started["ranks"]) // nodes, started["script"], Nodes(node, nodes, address)


def main(arguments: List[str]) -> None:
    if arguments[0] == "--node":
        folder = arguments[1]
        ranks, script, place = read_job(folder, int(arguments[2]), int(arguments[3]), arguments[4])
    else:
        folder, ranks, script, place = arguments[0], int(arguments[1]), arguments[2:], Nodes()
    register_package()
    from ownlab_guest.kernel.activation import activate
    from ownlab_guest.kernel.launch import end_with_parent, keep_lock

    end_with_parent()
    keep_lock()
    os.environ.pop("JPY_PARENT_PID", None)  # a Jupyter program that the script starts would watch the wrong process
    activate(os.environ)
    # The output goes to files, where Python would keep it back for up to 8 KiB.
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    if ranks > 1 or place.nodes > 1:
        sys.exit(run_ranks(folder, ranks, script, place))
    from ownlab_guest.training.rank import run_script

    run_script(folder, 0, script)


if __name__ == "__main__":
    main(sys.argv[1:])

"""`python -m ownlab.lab.relay PLAN_FILE`: stand for a runtime on a node of a cluster, from its start to its end."""

from __future__ import annotations

import sys

from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.store.rows import Process
from ownlab.lab.supervisor.keeper import keep


def _run(plan: Plan, keeper: Process, lock: int, umask: int) -> int:
    from ownlab.lab.relay.process import run_relay  # imports zmq, which must not be loaded before the keeper forks

    return run_relay(plan, keeper, lock)


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1], _run))

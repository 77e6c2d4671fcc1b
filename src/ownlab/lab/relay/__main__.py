"""`python -m ownlab.lab.relay PLAN_FILE`: stand for a runtime on a node of a cluster, from its start to its end."""

from __future__ import annotations

import os
import sys

from ownlab.lab.relay.job_files import is_first_relay
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.store.rows import Process
from ownlab.lab.supervisor.keeper import keep


def _run(plan: Plan, keeper: Process, lock: int, umask: int) -> int:
    # These import zmq, which must not be loaded before the keeper forks. The cluster has the job before the rest is imported.
    from ownlab.lab.relay.job_watcher import JobWatcher

    watcher = JobWatcher(plan, os.environ)
    if is_first_relay(plan):
        watcher.start()
    from ownlab.lab.relay.process import run_relay

    return run_relay(plan, keeper, lock, watcher)


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1], _run))

"""What slurm.log in the folder of a job says of its end, in Slurm's own words. Also read on the node, while the job ends."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ownlab.lab.engines.job_end import read_object
from ownlab.text import Text, text

if TYPE_CHECKING:
    from ownlab.lab.engines.interface import StopCause

__all__ = ["CANCEL_FILE", "LOG", "cause_in", "describe_cause", "read_log"]

LOG = "slurm.log"
CANCEL_FILE = "cancel.json"
_MOST_LOG = 1 << 20

# slurmd's own words in the log of a job, from 20.11 on (slurmstepd/req.c, slurmd/req.c, task/cgroup).
_LOG_CAUSES: tuple[tuple[str, StopCause], ...] = (
    (r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+ DUE TO TIME LIMIT \*\*\*", "time_limit"),
    (r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+ DUE TO PREEMPTION \*\*\*", "preempted"),
    (r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+ DUE TO NODE (?:FAILURE|\S+ FAILURE)", "node_failure"),
    (r"error: Node failure on|srun: error: .*: Node failure|DUE TO NODE FAILURE", "node_failure"),
    (r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+ \*\*\*", "cancelled"),
    (r"[Dd]etected \d+ oom[-_]kill event|Exceeded job memory limit|task \d+: Out Of Memory", "out_of_memory"),
)


def cause_in(log: str) -> StopCause:
    """What the log says to have ended the job; "" if it says nothing."""
    return next((cause for pattern, cause in _LOG_CAUSES if re.search(pattern, log)), "")


def describe_cause(cause: StopCause, folder: str) -> str:
    """A cause in words."""
    if cause == "cancelled":
        why = read_object(os.path.join(folder, CANCEL_FILE)).get("why")
        return str(why) if why else text("its Slurm job was cancelled, not by ownlab")
    described: dict[str, Text] = {
        "preempted": text("Slurm preempted it for a job of higher priority"),
        "time_limit": text("it has reached its time limit; --time asks for more"),
        "out_of_memory": text("it used more memory than its Slurm job has; slurm.options can ask for more with --mem"),
        "node_failure": text("a node of its Slurm job has failed"),
    }
    return described[cause]


def read_log(folder: str) -> str:
    """The end of slurm.log; "" if there is none."""
    path = Path(folder, LOG)
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_LOG))
            return file.read().decode(errors="replace")
    except OSError:
        return ""

"""The script that Slurm runs on the first node of a job.

It needs a POSIX shell and Slurm's srun and scontrol. Arguments of the user's script are not in it, nor in any command line of ours:
the nodes read them from run.json. What it prints goes to slurm.log in the folder of the run, beside what Slurm itself has
to say of the job; lines that begin with "ownlab: " name what is missing on a node.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from ownlab.lab.engines.job_end import END_FILE
from ownlab.lab.engines.slurm.job_log import LOG

__all__ = ["LOG", "MISSING", "NOT_STARTED", "batch_script", "notebook_script"]

NOT_STARTED = 94  # the exit code of a node on which something is missing; not one of sysexits.h or of a shell
# What a line "ownlab: WORD NODE" of the log says to be missing.
MISSING = ("folder", "cwd", "python")
_LAUNCHER = Path(__file__).resolve().parents[4] / "ownlab_guest" / "training" / "launcher.py"

# In a loop, since a signal interrupts `wait`. Slurm sends SIGTERM to what it waits for too, which then may save.
_WAIT = """\
while :; do
    wait $!
    code=$?
    kill -0 $! 2>/dev/null || break
done
wait $!
last=$?
[ "$last" -eq 127 ] || code=$last
printf '{{"at": %s, "exit_code": %s}}\\n' "$(date +%s)" "$code" >"$OWNLAB_FOLDER/{end}.part"
mv "$OWNLAB_FOLDER/{end}.part" "$OWNLAB_FOLDER/{end}"
exit "$code"
"""

_SCRIPT = """\
#!/bin/sh
# Written by ownlab for sbatch.
export OWNLAB_FOLDER={folder} OWNLAB_CWD={cwd} OWNLAB_PYTHON={python} OWNLAB_LAUNCHER={program}
trap : TERM
# From Slurm 22.05 on, srun does not take this over from sbatch.
[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ] && [ -x "$OWNLAB_PYTHON" ]; then
    # The address by which Slurm itself reaches this node, and a port that is free here.
    address=$(scontrol -o show node "$SLURMD_NODENAME" | sed -n 's/.* NodeAddr=\\([^ ]*\\) .*/\\1/p')
    port=$("$OWNLAB_PYTHON" -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
    export OWNLAB_RENDEZVOUS="${{address:-$SLURMD_NODENAME}}:$port"
fi
srun --mpi=none --kill-on-bad-exit=1 --export=ALL /bin/sh -c '
    missing() {{ echo "ownlab: $1 $SLURMD_NODENAME" >&2; exit {not_started}; }}
    [ -d "$OWNLAB_FOLDER" ] || missing folder
    cd "$OWNLAB_CWD" || missing cwd
    [ -x "$OWNLAB_PYTHON" ] && [ -r "$OWNLAB_LAUNCHER" ] || missing python
    export CUDA_VISIBLE_DEVICES="${{CUDA_VISIBLE_DEVICES-}}"
    exec "$OWNLAB_PYTHON" "$OWNLAB_LAUNCHER" --node "$OWNLAB_FOLDER" "$SLURM_NODEID" "$SLURM_JOB_NUM_NODES" "$OWNLAB_RENDEZVOUS"
' &
{wait}"""


# A notebook has one node, on which the batch script itself runs: what it starts needs no srun.
_NOTEBOOK_SCRIPT = """\
#!/bin/sh
# Written by ownlab for sbatch.
export OWNLAB_FOLDER={folder} OWNLAB_CWD={cwd} OWNLAB_PYTHON={python} OWNLAB_HOST={program}
trap : TERM
missing() {{ echo "ownlab: $1 $SLURMD_NODENAME" >&2; exit {not_started}; }}
[ -d "$OWNLAB_FOLDER" ] || missing folder
[ -d "$OWNLAB_CWD" ] || missing cwd
[ -x "$OWNLAB_PYTHON" ] && [ -x "$OWNLAB_HOST" ] || missing python
export CUDA_VISIBLE_DEVICES="${{CUDA_VISIBLE_DEVICES-}}"
# The address by which Slurm itself reaches this node.
address=$(scontrol -o show node "$SLURMD_NODENAME" | sed -n 's/.* NodeAddr=\\([^ ]*\\) .*/\\1/p')
export OWNLAB_NODE_ADDRESS="$address"
"$OWNLAB_HOST" -m ownlab.lab.relay.node "$OWNLAB_FOLDER" &
{wait}"""


def notebook_script(folder: str, cwd: str, python: str) -> str:
    """The batch script of a notebook whose job has this folder."""
    quoted = {"folder": folder, "cwd": cwd, "python": python, "program": sys.executable}
    values = {name: shlex.quote(value) for name, value in quoted.items()}
    return _NOTEBOOK_SCRIPT.format(**values, not_started=NOT_STARTED, wait=_WAIT.format(end=END_FILE))


def batch_script(folder: str, cwd: str, python: str) -> str:
    """The batch script of a run in this folder."""
    quoted = {"folder": folder, "cwd": cwd, "python": python, "program": str(_LAUNCHER)}
    values = {name: shlex.quote(value) for name, value in quoted.items()}
    return _SCRIPT.format(**values, not_started=NOT_STARTED, wait=_WAIT.format(end=END_FILE))

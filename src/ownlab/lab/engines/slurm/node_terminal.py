"""A terminal on the node of a job: srun, which connects it to a pseudo terminal there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ownlab.lab.engines.slurm.commands import command_environment

__all__ = ["step_in_terminal"]

# Of the environment here, only these reach the node: others may be secret, or mean something on this machine only.
_EXPORTED = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "OWNLAB_HOME",
    "OWNLAB_HOST",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
)
# As the batch script of a notebook does: a job without GPUs sees none. The name of the node is the title of the terminal.
_ON_NODE = """\
export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-}"
printf '\\033]0;%s\\007' "$SLURMD_NODENAME"
exec "$@"
"""


def step_in_terminal(number: str, cwd: str, command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The command line of srun. `environ`: in which it will be started, whose variables of another job would mislead it."""
    kept = command_environment(environ)
    misleading = sorted(name for name in environ if name not in kept)
    return [
        "env",
        *(f"--unset={name}" for name in misleading),
        "srun",
        f"--jobid={number}",
        "--overlap",  # it takes nothing from the kernel, and does not wait for it
        "--nodes=1",
        "--ntasks=1",
        "--cpu-bind=none",
        "--quiet",  # not: that the cluster knows no binding
        "--pty",
        f"--chdir={cwd}",
        f"--export={','.join(_EXPORTED)}",
        "/bin/sh",
        "-c",
        _ON_NODE,
        "sh",
        *command,
    ]

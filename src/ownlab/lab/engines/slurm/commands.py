"""Runs a command of Slurm, with a deadline and an environment that changes nothing of what it prints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ownlab.errors import DeadlineError, LabError
from ownlab.lab.engines.slurm.failures import error_of, is_unknown_job
from ownlab.lab.engines.slurm.readers import (
    QUEUE_FORMAT,
    read_config,
    read_job,
    read_nodes,
    read_partitions,
    read_queue,
    read_submitted,
    read_version,
)
from ownlab.lab.engines.slurm.records import ClusterConfig, ClusterNode, Partition, SlurmJob
from ownlab.processes.runner import Ran, ToolMissing, run
from ownlab.text import text

__all__ = ["OLDEST", "Slurm", "command_environment"]

OLDEST = (20, 11)
# Variables that people use to say what they want. All others of Slurm change what commands print, or are those of the
# job in which ownlab runs: sbatch would pass SLURM_* on to the new job, whatever --export says.
_KEPT = frozenset({
    "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SBATCH_ACCOUNT", "SBATCH_PARTITION", "SBATCH_QOS", "SBATCH_RESERVATION",
    "SBATCH_CONSTRAINT", "SBATCH_TIMELIMIT",
})  # fmt: skip
_PREFIXES = ("SLURM_", "SLURMD_", "SBATCH_", "SQUEUE_", "SINFO_", "SCONTROL_", "SCANCEL_", "SRUN_", "SALLOC_")


def command_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of Slurm's commands."""
    kept = {name: value for name, value in environ.items() if name in _KEPT or not name.startswith(_PREFIXES)}
    return {**kept, "LC_ALL": "C"}


class Slurm:
    """The cluster, as its commands show it."""

    def __init__(self, environ: Mapping[str, str], deadline: float) -> None:
        """`deadline`: seconds in which a command must answer."""
        self._environ, self._deadline = command_environment(environ), deadline

    def check_version(self) -> tuple[int, int]:
        """The version of the commands. LabError if there are none, or if they are too old."""
        named = self._environ.get("SLURM_CONF", "")
        if named and not os.path.exists(named):  # the commands look for it again and again, for a minute
            message = text("SLURM_CONF names {path}, which does not exist.", path=named)
            raise LabError(message, hint=text("Unset it, or name the slurm.conf of the cluster."))
        version = read_version(self._output("sinfo", "--version"))
        if version < OLDEST:
            values = {"version": _format(version), "oldest": _format(OLDEST)}
            message = text("Slurm {version} is too old: ownlab works with {oldest} and newer.", **values)
            raise LabError(message, hint=text("Ask the administrators of the cluster for an update."))
        return version

    def partitions(self) -> tuple[Partition, ...]:
        """All partitions that this user may see."""
        return read_partitions(self._output("scontrol", "-o", "show", "partition"))

    def nodes(self) -> tuple[ClusterNode, ...]:
        """All nodes."""
        return read_nodes(self._output("scontrol", "-d", "-o", "show", "node"))

    def config(self) -> ClusterConfig:
        """The configuration of the controller."""
        return read_config(self._output("scontrol", "show", "config"))

    def ping(self) -> str:
        """What `scontrol ping` prints: a line for each controller, which is UP or DOWN."""
        return self._run("scontrol", "ping").output

    def queue(self, user: str, *, jobs: Sequence[str] = ()) -> tuple[SlurmJob, ...]:
        """The jobs of a user in every state that Slurm still knows; with `jobs`, only these numbers."""
        command = ["squeue", "-h", "-r", "-t", "all", "-o", QUEUE_FORMAT, "-u", user]
        ran = self._run(*command, *(["-j", ",".join(jobs)] if jobs else []))
        if ran.returncode and jobs and is_unknown_job(ran.output):  # squeue says so only if it knows none of them
            return ()
        return read_queue(_checked("squeue", ran))

    def job(self, number: str) -> SlurmJob | None:
        """One job; None if Slurm does not know it, or not any more."""
        ran = self._run("scontrol", "-d", "-o", "show", "job", number)
        if ran.returncode and is_unknown_job(ran.output):
            return None
        printed = _checked("scontrol", ran)
        return read_job(printed) if "JobId=" in printed else None

    def submit(self, script: str, options: Sequence[str]) -> str:
        """Submit a batch script from a file. Return the number of the job."""
        return read_submitted(self._output("sbatch", "--parsable", *options, script))

    def test(self, script: str, options: Sequence[str]) -> str:
        """What sbatch says of when a batch script could start. Nothing is submitted."""
        ran = self._run("sbatch", "--test-only", *options, script)
        _checked("sbatch", ran)
        return ran.output

    def test_resources(self, options: Sequence[str]) -> str:
        """What sbatch says of when a job with these options could start."""
        ran = self._run("sbatch", "--test-only", "--export=NONE", "--wrap=true", *options)
        _checked("sbatch", ran)
        return ran.output

    def cancel(self, number: str, *options: str) -> None:
        """Cancel a job, or send it a signal. Harmless for one that has ended."""
        self.cancel_all([number], *options)

    def cancel_all(self, numbers: Sequence[str], *options: str) -> None:
        """Cancel jobs, or send them a signal. Harmless for those that have ended."""
        ran = self._run("scancel", *options, *numbers)
        if ran.returncode and not is_unknown_job(ran.output) and "already" not in ran.output:
            raise error_of("scancel", ran.output, ran.returncode)

    def _output(self, *command: str) -> str:
        return _checked(command[0], self._run(*command))

    def _run(self, *command: str) -> Ran:
        # Seconds since the epoch need no time zone. Not for sbatch, which would pass it on to the job.
        extra = {} if command[0] == "sbatch" else {"SLURM_TIME_FORMAT": "%s"}
        try:
            return run(command, deadline=self._deadline, env={**self._environ, **extra})
        except ToolMissing as exc:
            message = text("Slurm is not available here: {reason}.", reason=exc.message)
            hint = text("Run this on a login node of the cluster. Some sites need `module load slurm` first.")
            raise LabError(message, hint=hint) from exc
        except DeadlineError as exc:
            message = text("Slurm does not answer: {reason}.", reason=exc.message)
            hint = text("Try again in a minute. The setting slurm.deadline_seconds is how long ownlab waits for it.")
            raise DeadlineError(message, hint=hint) from exc


def _checked(command: str, ran: Ran) -> str:
    if ran.returncode:
        raise error_of(command, ran.output, ran.returncode)
    return ran.stdout


def _format(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]:02d}"

"""What the errors of Slurm's commands mean, and what to do. The texts are those of slurm_errno.c, 20.11 to 25.05."""

from __future__ import annotations

import re
from typing import NamedTuple

from ownlab.errors import DeviceUnusable, LabError, OwnlabError, UsageError
from ownlab.text import Template, Text, template, text

__all__ = ["error_of", "is_unknown_job"]


class _Cause(NamedTuple):
    """A known failure: how it is recognised, what it means, and what to do."""

    pattern: str
    error: type[OwnlabError]
    message: Template
    hint: Text


# The first that matches. "{said}" is Slurm's own sentence.
_CAUSES = (
    _Cause(
        r"[Mm]unge|[Aa]uthentication (error|failure|credential)|Protocol authentication",
        LabError,
        template("Slurm could not authenticate you (munge): {said}"),
        text(
        "`munge -n | unmunge` must succeed on this machine. Keys and clocks of all machines must agree."
        ),
    ),
    _Cause(
        r"Unable to contact slurm controller|Unable to establish control(ler)? machine|Connection refused|Zero Bytes were transmitted",
        LabError,
        template("The controller of Slurm (slurmctld) does not answer: {said}"),
        text(
        "Try again in a minute. `scontrol ping` shows which controllers are up; jobs that run go on without it."
        ),
    ),
    _Cause(
        r"Socket timed out|timed out on send/recv",
        LabError,
        template("The controller of Slurm (slurmctld) is too busy to answer: {said}"),
        text(
        "Try again in a minute. Nothing is known to have been submitted; `squeue --me` lists your jobs."
        ),
    ),
    _Cause(
        r"Could not establish a configuration source|could not find.*slurm\.conf|Unable to process configuration|resolve_ctls_from_dns_srv",
        LabError,
        template("This machine does not know the cluster: {said}"),
        text(
        "SLURM_CONF names the file slurm.conf; without one, run this on a login node of the cluster."
        ),
    ),
    _Cause(
        r"Incompatible versions|protocol version",
        LabError,
        template("The commands of Slurm here and its controller are of versions that do not work together: {said}"),
        text(
        "Install the Slurm commands of the cluster's version."
        ),
    ),
    _Cause(
        r"Invalid partition name|invalid partition specified",
        UsageError,
        template("There is no such partition: {said}"),
        text(
        "`ownlab types --engine slurm` lists the partitions. Choose one with --partition, or in the setting slurm.partition."
        ),
    ),
    _Cause(
        r"Invalid account|account/partition combination|Invalid .*[Aa]ccount",
        UsageError,
        template("Slurm refuses the account: {said}"),
        text(
        "`sacctmgr show associations user=$USER` lists yours. Choose one with --account, or in the setting slurm.account."
        ),
    ),
    _Cause(
        r"Invalid qos|Invalid QOS",
        UsageError,
        template("Slurm refuses the quality of service (QOS): {said}"),
        text(
        "`sacctmgr show qos` lists them. Choose one with --qos, or in the setting slurm.qos."
        ),
    ),
    _Cause(
        r"group not permitted|Access/permission denied|not permitted to use this partition|Invalid user",
        UsageError,
        template("You may not use this: {said}"),
        text(
        "Choose a partition that is open to you with --partition, or ask the administrators of the cluster."
        ),
    ),
    _Cause(
        r"[Ii]nvalid generic resource|[Ii]nvalid [Gg][Rr][Ee][Ss]|[Ii]nvalid GRES|[Ii]nvalid TRES",
        DeviceUnusable,
        template("The cluster has no such GPUs: {said}"),
        text(
        "`ownlab types --engine slurm` lists what each partition has."
        ),
    ),
    _Cause(
        r"time limit is invalid|exceeds some limit",
        UsageError,
        template("Slurm refuses the time limit: {said}"),
        text(
        "Ask for less with --time, or name another partition; `ownlab types --engine slurm` shows the limits."
        ),
    ),
    _Cause(
        r"violates accounting/QOS policy|AssocMax|QOSMax|AssocGrp|QOSGrp|submit limit|MaxSubmitJob",
        UsageError,
        template("The request exceeds a limit of your account: {said}"),
        text(
        "Ask for less, or wait until your other jobs have ended: `squeue --me`. `sacctmgr show associations user=$USER` "
        "shows the limits."
        ),
    ),
    _Cause(
        r"[Nn]ode configuration is not available|[Mm]ore processors requested|[Mm]emory required by task|Memory specification can not|[Nn]ode count specification|"
        r"Requested partition configuration|Requested nodes are busy|Invalid feature|CPU count per node",
        DeviceUnusable,
        template("No nodes of the partition can ever meet this request: {said}"),
        text(
        "Ask for fewer GPUs or nodes; `ownlab types --engine slurm` lists what each partition has."
        ),
    ),
    _Cause(
        r"unrecognized option|invalid option|Invalid numeric value|Invalid .*specification|Invalid --|[Uu]nable to (open|parse)",
        UsageError,
        template("sbatch does not accept an option: {said}"),
        text(
        "Look at the settings of [slurm], above all slurm.options: `ownlab config`."
        ),
    ),
)  # fmt: skip


def error_of(command: str, output: str, code: int) -> OwnlabError:
    """The error of a command that failed, from what it printed."""
    said = _sentence(output)
    for cause in _CAUSES:
        if re.search(cause.pattern, output):
            return cause.error(cause.message.fill(said=said), hint=cause.hint)
    if not said:
        return LabError(
            text("{command} failed with exit code {code} and printed no reason.", command=command, code=code)
        )
    return LabError(text("{command} failed: {said}", command=command, said=said))


def is_unknown_job(output: str) -> bool:
    """Whether Slurm says that it does not know the job, which it forgets some minutes after its end."""
    return bool(re.search(r"Invalid job id|[Uu]nknown job|[Jj]ob (\S+ )?not found", output))


def _sentence(output: str) -> str:
    """The most telling line, without the names of programs before it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"error:|fatal:", line)] or lines
    return (
        re.sub(r"^(?:\w+: )?(?:(?:error|fatal): )?(?:Batch job submission failed: )?", "", errors[-1]) if errors else ""
    )

"""What ownlab says of the errors of Slurm's commands: recorded ones, and sentences of Slurm's own list of errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ownlab.errors import DeadlineError, DeviceUnusable, LabError, OwnlabError, UsageError
from ownlab.lab.engines.slurm.commands import Slurm, command_environment
from ownlab.lab.engines.slurm.failures import error_of, is_unknown_job

RECORDED = Path(__file__).resolve().parent / "recordings" / "22.05.8-debian"


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("sbatch-partition", UsageError, "There is no such partition: Invalid partition name specified"),
        ("sbatch-gres", DeviceUnusable, "has no such GPUs: Invalid generic resource (gres) specification"),
        (
            "sbatch-gres-number",
            DeviceUnusable,
            "can ever meet this request: Requested node configuration is not available",
        ),
        ("sbatch-memory", DeviceUnusable, "can ever meet this request"),
        ("sbatch-constraint", DeviceUnusable, "can ever meet this request: Invalid feature specification"),
        ("sbatch-option", UsageError, "sbatch does not accept an option"),
        ("sbatch-time", UsageError, "sbatch does not accept an option: Invalid --time specification"),
        ("no-munge", LabError, "could not authenticate you (munge)"),
    ],
)
def test_recorded_errors(name: str, kind: type[OwnlabError], said: str) -> None:
    error = error_of("sbatch", (RECORDED / name).read_text(), 1)
    assert type(error) is kind
    assert said in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("sentence", "kind", "said"),
    [
        ("Unable to contact slurm controller (connect failure)", LabError, "(slurmctld) does not answer"),
        ("Socket timed out on send/recv operation", LabError, "too busy to answer"),
        ("Invalid account or account/partition combination specified", UsageError, "refuses the account"),
        ("Invalid qos specification", UsageError, "quality of service"),
        ("User's group not permitted to use this partition", UsageError, "You may not use this"),
        ("Requested time limit is invalid (missing or exceeds some limit)", UsageError, "refuses the time limit"),
        (
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            UsageError,
            "exceeds a limit of your account",
        ),
        ("Incompatible versions of client and server code", LabError, "do not work together"),
        ("Something that nobody knows yet", LabError, "sbatch failed: Something that nobody knows yet"),
    ],
)
def test_errors_of_slurm_errno(sentence: str, kind: type[OwnlabError], said: str) -> None:
    error = error_of("sbatch", f"sbatch: error: Batch job submission failed: {sentence}\n", 1)
    assert type(error) is kind
    assert said in error.message
    assert "Batch job submission failed" not in error.message


def test_a_command_that_says_nothing_is_an_error_with_its_code() -> None:
    assert "exit code 9 and printed no reason" in error_of("scancel", "", 9).message


def test_an_unknown_job_is_no_error() -> None:
    assert is_unknown_job((RECORDED / "job-unknown").read_text())
    assert not is_unknown_job("slurm_load_jobs error: Unable to contact slurm controller")


def test_commands_get_no_variable_that_changes_what_they_do() -> None:
    given = {
        "PATH": "/bin", "SLURM_CONF": "/c", "SBATCH_ACCOUNT": "a", "SLURM_JOB_ID": "7", "SQUEUE_FORMAT": "%A", "SBATCH_WAIT": "1",
        "SLURM_TIME_FORMAT": "relative", "SINFO_FORMAT": "x", "SCONTROL_ALL": "1",
    }  # fmt: skip
    assert command_environment(given) == {"PATH": "/bin", "SLURM_CONF": "/c", "SBATCH_ACCOUNT": "a", "LC_ALL": "C"}


def fake(folder: Path, name: str, script: str) -> dict[str, str]:
    """A command of Slurm that is a shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def test_a_slurm_that_is_too_old_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"Slurm 19\.05 is too old: ownlab works with 20\.11 and newer"):
        Slurm(fake(tmp_path, "sinfo", "echo slurm 19.05.8"), 60).check_version()


def test_no_slurm_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="Slurm is not available here") as caught:
        Slurm({"PATH": str(tmp_path)}, 60).check_version()
    assert "module load slurm" in caught.value.hint


def test_a_slurm_that_does_not_answer_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(DeadlineError, match="Slurm does not answer") as caught:
        Slurm(fake(tmp_path, "scontrol", "exec sleep 600"), 0.2).nodes()
    assert "slurm.deadline_seconds" in caught.value.hint


def test_a_configuration_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    """Slurm's own commands look for it again and again, for a minute."""
    with pytest.raises(LabError, match=r"SLURM_CONF names .*/nowhere.conf, which does not exist"):
        Slurm({**os.environ, "SLURM_CONF": str(tmp_path / "nowhere.conf")}, 60).check_version()

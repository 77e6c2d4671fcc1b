"""How a job ended, from what Slurm says and from what it left in its folder. The lines of slurm.log are those of slurmstepd."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ownlab.lab.engines.interface import Job
from ownlab.lab.engines.slurm.job_status import end_from_folder, lost, status_of, write_reason
from ownlab.lab.engines.slurm.records import SlurmJob

# Recorded from 22.05.8, but for the lines on memory, preemption and failed nodes: written after the source of 20.11 to 24.05.
CANCELLED = "slurmstepd-n1: error: *** JOB 18 ON n1 CANCELLED AT 2026-11-18T21:59:49 ***\n"
TIME_LIMIT = "slurmstepd: error: *** JOB 18 ON n1 CANCELLED AT 2026-11-18T21:59:49 DUE TO TIME LIMIT ***\n"
PREEMPTED = "slurmstepd: error: *** JOB 18 ON n1 CANCELLED AT 2026-11-18T21:59:49 DUE TO PREEMPTION ***\n"
NODE_FAILED = "slurmstepd: error: *** STEP 18.0 ON n1 CANCELLED AT 2026-11-18T21:59:49 DUE TO NODE FAILURE, SEE SLURMCTLD LOG ***\n"
OOM_OLD = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=18.0 cgroup. Some of your processes may have been killed.\n"
OOM_NEW = "slurmstepd: error: Detected 2 oom_kill events in StepId=18.0. Some of the step tasks have been OOM Killed.\n"
STEP_ENDED = "srun: error: n1: task 0: Exited with exit code 7\nslurmstepd: error: *** STEP 18.0 ON n1 CANCELLED AT 2026-11-18T21:59:49 ***\n"


def job(state: str, reason: str = "", **more: object) -> SlurmJob:
    fields: dict[str, object] = {
        "number": "18", "user": "ann", "state": state, "reason": reason, "nodes": "n[1-2]", "starts_at": None, "ends_at": 1700000000.0,
        "comment": "", **more,
    }  # fmt: skip
    return SlurmJob(**fields)  # type: ignore[arg-type]  # the fields above


def leave(folder: Path, code: int | None, log: str = "") -> Path:
    """What the batch script of a job leaves; without a code it was killed."""
    if code is not None:
        (folder / "end.json").write_text(json.dumps({"at": 1700000000, "exit_code": code}))
    (folder / "slurm.log").write_text(log)
    return folder


@pytest.mark.parametrize(
    ("code", "log", "state", "cause"),
    [
        (0, "", "done", ""),
        (7, "srun: error: n1: task 0: Exited with exit code 7\n", "failed", ""),
        (7, STEP_ENDED, "failed", ""),
        (130, "got INT\n", "interrupted", ""),
        (143, CANCELLED, "stopped", "cancelled"),
        (0, CANCELLED, "stopped", "cancelled"),
        (0, TIME_LIMIT, "stopped", "time_limit"),
        (143, CANCELLED + PREEMPTED, "stopped", "preempted"),
        (137, OOM_OLD, "failed", "out_of_memory"),
        (137, "srun: error: n1: task 0: Out Of Memory\n" + OOM_NEW, "failed", "out_of_memory"),
        (0, OOM_NEW, "done", ""),
        (1, NODE_FAILED, "failed", "node_failure"),
    ],
)
def test_the_end_is_read_from_the_folder(tmp_path: Path, code: int, log: str, state: str, cause: str) -> None:
    end = end_from_folder(str(leave(tmp_path, code, log)))
    assert end is not None
    assert (end.state, end.cause, end.exit_code, end.ended_at) == (state, cause, code, 1700000000.0)
    assert bool(end.reason) == (cause != "" or state == "interrupted")


@pytest.mark.parametrize(
    ("found", "state", "cause"),
    [
        (job("CANCELLED"), "stopped", "cancelled"),
        (job("TIMEOUT", "TimeLimit"), "stopped", "time_limit"),
        (job("DEADLINE"), "stopped", "time_limit"),
        (job("PREEMPTED"), "stopped", "preempted"),
        (job("OUT_OF_MEMORY", "OutOfMemory", exit_code=0, signal=125), "failed", "out_of_memory"),
        (job("NODE_FAIL", "NodeFail"), "failed", "node_failure"),
        (job("BOOT_FAIL"), "failed", "node_failure"),
        (job("FAILED", exit_code=3), "failed", ""),
        (job("FAILED", exit_code=0, signal=9), "failed", ""),
        (job("COMPLETED", exit_code=0), "done", ""),
    ],
)
def test_the_end_of_a_job_that_could_not_write_it_is_written_for_it(
    tmp_path: Path, found: SlurmJob, state: str, cause: str
) -> None:
    leave(tmp_path, None)
    status = status_of(found, str(tmp_path))
    assert (status.state, status.cause, status.ended_at) == (state, cause, 1700000000.0)
    assert lost(Job("r", str(tmp_path), "18")) == status  # when Slurm has forgotten it


def test_what_the_job_wrote_itself_counts_more_than_what_slurm_says(tmp_path: Path) -> None:
    leave(tmp_path, 7, STEP_ENDED)
    assert status_of(job("FAILED", exit_code=1), str(tmp_path)).exit_code == 7


def test_why_it_was_cancelled_is_said_by_whoever_did_it(tmp_path: Path) -> None:
    leave(tmp_path, 143, CANCELLED)
    end = end_from_folder(str(tmp_path))
    assert end is not None
    assert "not by ownlab" in end.reason
    write_reason(str(tmp_path), "it was stopped by hand")
    end = end_from_folder(str(tmp_path))
    assert end is not None
    assert end.reason == "it was stopped by hand"


def test_a_job_without_any_record_is_not_called_done(tmp_path: Path) -> None:
    status = lost(Job("r", str(tmp_path), "18"))
    assert status.state == "failed"
    assert "no longer knows job 18" in status.reason
    assert not (tmp_path / "end.json").exists()
    leave(tmp_path, None, TIME_LIMIT)
    assert lost(Job("r", str(tmp_path), "18")).cause == "time_limit"


def test_a_job_whose_log_could_not_be_opened(tmp_path: Path) -> None:
    status = status_of(job("FAILED", "JobLaunchFailure", exit_code=0, signal=53), str(tmp_path))
    assert (status.state, "cannot write to the folder of its logs" in status.reason) == ("unstarted", True)


@pytest.mark.parametrize(
    ("what", "said"), [("folder", "folder of its logs"), ("cwd", "in which it was started"), ("python", "its Python")]
)
def test_what_is_missing_on_a_node_is_named(tmp_path: Path, what: str, said: str) -> None:
    leave(tmp_path, 94, f"ownlab: {what} n2\nsrun: error: n2: task 1: Exited with exit code 94\n")
    end = end_from_folder(str(tmp_path))
    assert end is not None
    assert (end.state, said in end.reason, "node n2" in end.reason) == ("unstarted", True, True)


def test_a_script_may_end_with_our_code_itself(tmp_path: Path) -> None:
    end = end_from_folder(str(leave(tmp_path, 94)))
    assert end is not None
    assert (end.state, end.exit_code) == ("failed", 94)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("Resources", "its nodes or GPUs are in use"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "down, drained or reserved"),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved", "down, drained, or reserved"),
        ("PartitionTimeLimit", "will never start"),
        ("QOSMaxGRESPerUser", "a limit of your account or QOS is reached (QOSMaxGRESPerUser)"),
        ("AssocGrpGRESMinutes", "a limit of your account or QOS is reached (AssocGrpGRESMinutes)"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_why_a_job_waits(tmp_path: Path, reason: str, said: str) -> None:
    status = status_of(job("PENDING", reason), str(tmp_path))
    assert status.state == "waiting"
    assert said in status.reason
    later = status_of(job("PENDING", reason, starts_at=time.time() + 3600), str(tmp_path))
    assert f"; expected start {time.strftime('%F')[:4]}" in later.reason


@pytest.mark.parametrize(
    "state", ["RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "A_NEW_STATE"]
)
def test_a_job_that_has_its_nodes_runs(tmp_path: Path, state: str) -> None:
    status = status_of(job(state, cards=(1, 3)), str(tmp_path))
    assert (status.state, status.cards, status.nodes) == ("running", (1, 3), ("n1", "n2"))


@pytest.mark.parametrize("content", ["", "null", "[]", "{", '{"exit_code": "7"}', "\0"])
def test_a_damaged_record_is_no_end_or_a_failure(tmp_path: Path, content: str) -> None:
    (tmp_path / "end.json").write_text(content)
    end = end_from_folder(str(tmp_path))
    assert end is None or end.state == "failed"

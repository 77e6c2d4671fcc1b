"""What Slurm says of a job as a status, and how a job has ended from what it left in its folder.

Slurm forgets a job some minutes after its end (MinJobAge), and not every site keeps accounts. So the end is read from the folder:
end.json of the batch script, and Slurm's own words in slurm.log. Whoever sees the end of a job that could not
write end.json, such as one whose node failed, writes it.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any

from msgspec.structs import replace

from ownlab.atomic_files import replace_file
from ownlab.json_encoding import encode_json
from ownlab.lab.engines.interface import Job, JobStatus, StopCause
from ownlab.lab.engines.job_end import END_FILE, read_end
from ownlab.lab.engines.slurm.batch_script import LOG, MISSING, NOT_STARTED
from ownlab.lab.engines.slurm.job_log import CANCEL_FILE, cause_in, describe_cause, read_log
from ownlab.lab.engines.slurm.readers import expand_hosts
from ownlab.lab.engines.slurm.records import SlurmJob
from ownlab.text import pack_texts, sentences, text

__all__ = ["CANCEL_FILE", "end_from_folder", "has_ended", "lost", "status_of", "write_reason"]

# States before the start, and after the end. In all others the job has its nodes.
_WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
_CAUSES: dict[str, StopCause] = {
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "PREEMPTED": "preempted",
    "TIMEOUT": "time_limit",
    "DEADLINE": "time_limit",
    "OUT_OF_MEMORY": "out_of_memory",
    "NODE_FAIL": "node_failure",
    "BOOT_FAIL": "node_failure",
    "LAUNCH_FAILED": "node_failure",
    "RECONFIG_FAIL": "node_failure",
}
_ENDED = frozenset({*_CAUSES, "COMPLETED", "FAILED"})
# The signal of ExitCode=0:53: slurmstepd could not open the log of the job.
_NO_LOG = 53

_REASONS = {
    "Resources": text("its nodes or GPUs are in use"),
    "Priority": text("jobs of higher priority are before it in the queue"),
    "PartitionDown": text("the partition is closed; it starts when the administrators open it"),
    "PartitionInactive": text("the partition is closed; it starts when the administrators open it"),
    "PartitionTimeLimit": text("it will never start: its time limit exceeds that of the partition"),
    "PartitionNodeLimit": text("it will never start: it asks for more nodes than the partition gives"),
    "BadConstraints": text("it will never start: no nodes meet its constraints"),
    "InvalidAccount": text("it will never start: the account is not valid"),
    "InvalidQOS": text("it will never start: the quality of service is not valid"),
    "ReqNodeNotAvail": text("its nodes are down, drained or reserved"),
    "NodeDown": text("its nodes are down"),
    "Nodes": text("its nodes are down, drained, or reserved for jobs of higher priority"),
    "JobHeldUser": text("it is held: `scontrol release` lets it start"),
    "JobHeldAdmin": text("an administrator holds it"),
    "BeginTime": text("it is not to start before a certain time"),
    "Dependency": text("it waits for another job"),
    "Reservation": text("it waits for its reservation"),
    "Licenses": text("it waits for a licence"),
}


def status_of(job: SlurmJob, folder: str) -> JobStatus:
    """The status of a job that Slurm knows."""
    if job.state in _WAITING:
        return JobStatus("waiting", _waiting_reason(job), starts_at=job.starts_at)
    if job.state not in _ENDED:
        return JobStatus("running", cards=job.cards, nodes=expand_hosts(job.nodes), ends_at=job.ends_at)
    end = end_from_folder(folder)
    if end is None:
        _write_end(folder, _end_of(job, folder))
        end = end_from_folder(folder)
    return end or JobStatus("failed", text("Slurm says {state}.", state=job.state))


def has_ended(job: SlurmJob) -> bool:
    """Whether Slurm says that a job has ended."""
    return job.state in _ENDED


def end_from_folder(folder: str) -> JobStatus | None:
    """How a job has ended, as its folder records it; None if it does not."""
    end = read_end(folder)
    if end is None:
        return None
    log = read_log(folder)
    if missing := _missing(log, end):
        return replace(end, state="unstarted", reason=missing)
    cause = end.cause or cause_in(log)
    if not cause or (cause == "out_of_memory" and end.exit_code == 0):
        return end
    state = "failed" if cause in ("out_of_memory", "node_failure") else "stopped"
    return replace(end, state=state, cause=cause, reason=describe_cause(cause, folder))


def lost(job: Job) -> JobStatus:
    """The status of a job that Slurm does not know, or not any more."""
    end = end_from_folder(job.folder)
    if end is not None:
        return end
    cause = cause_in(read_log(job.folder))
    if not os.path.exists(os.path.join(job.folder, LOG)) and os.path.exists(os.path.join(job.folder, CANCEL_FILE)):
        cause = "cancelled"  # by us, before it started
    if cause:
        state = "failed" if cause in ("out_of_memory", "node_failure") else "stopped"
        return JobStatus(state, describe_cause(cause, job.folder), cause)  # type: ignore[arg-type]  # both are states
    message = text(
        "Slurm no longer knows job {number}, and the job left no record of its end; its node may have failed",
        number=job.reference or text("of this run"),
    )
    return JobStatus("failed", message)


def write_reason(folder: str, why: str) -> None:
    """Record why a job is about to be cancelled. Without room for it, the report has no reason."""
    try:
        replace_file(os.path.join(folder, CANCEL_FILE), encode_json(pack_texts({"why": why})).decode())
    except OSError:
        return


def _waiting_reason(job: SlurmJob) -> str:
    """Why a job waits. Some reasons have a list behind them: "ReqNodeNotAvail, UnavailableNodes:n1"."""
    word = job.reason.split(",")[0].strip("() ")
    if not word:
        return ""
    if word.startswith("Nodes"):  # squeue and scontrol write the same long sentence differently
        word = "Nodes"
    limit = re.match(r"(QOS|Assoc)\w+$", word)
    if limit is not None:
        reason = text(
            "a limit of your account or QOS is reached ({word}); it starts when other jobs have ended", word=word
        )
    else:
        reason = _REASONS[word] if word in _REASONS else text("{word}", word=job.reason)
    if job.starts_at is None or job.starts_at <= time.time():
        return reason
    return text(
        "{reason}; expected start {at}", reason=reason, at=time.strftime("%F %H:%M", time.localtime(job.starts_at))
    )


def _end_of(job: SlurmJob, folder: str) -> dict[str, Any]:
    """end.json of a job that has not written it."""
    code = 0 if job.state == "COMPLETED" else (job.exit_code or None)
    end: dict[str, Any] = {"at": job.ends_at or time.time(), "exit_code": code}
    cause = _CAUSES.get(job.state, "")
    if cause:
        return {**end, "cause": cause}
    if job.state == "FAILED" and (job.signal == _NO_LOG or not os.path.exists(os.path.join(folder, LOG))):
        return {**end, "exit_code": NOT_STARTED, "reason": "folder"}
    if job.state == "FAILED" and code is None and job.signal:
        return {**end, "exit_code": -job.signal}
    return end


def _write_end(folder: str, end: dict[str, Any]) -> None:
    try:
        replace_file(os.path.join(folder, END_FILE), encode_json(pack_texts(end)).decode())
    except OSError:  # the folder is gone, or the disk is full: the next one who asks sees the same
        return


def _missing(log: str, end: JobStatus) -> str:
    """What a node lacked, so that nothing could start; "" otherwise."""
    if end.exit_code != NOT_STARTED:
        return ""
    match = re.search(rf"^ownlab: ({'|'.join(MISSING)}) (\S+)$", log, re.MULTILINE)
    what, node = (match[1], match[2]) if match is not None else (end.reason, "")
    sentences_of = {
        "folder": text("the folder of its logs is not on the node {node}", node=node),
        "cwd": text("the folder in which it was started is not on the node {node}", node=node),
        "python": text("its Python, or ownlab itself, is not on the node {node}", node=node),
    }
    if what == "folder" and not node:
        sentences_of["folder"] = text("its node cannot write to the folder of its logs")
    if what not in sentences_of:
        return ""
    return sentences(
        text("{problem}.", problem=sentences_of[what]),
        text("Script, environment and logs must be in folders that all nodes share under the same path."),
    )

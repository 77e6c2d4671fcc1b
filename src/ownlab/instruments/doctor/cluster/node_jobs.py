"""A job of some seconds on each node: it looks whether the node agrees with this machine, changes nothing, and takes no GPU.

The jobs run at the same time, so that nodes can try to reach each other. They talk through a folder in ownlab's state folder;
a node that does not have that folder says so by its exit code.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ownlab.atomic_files import replace_file
from ownlab.config.settings import LabOptions
from ownlab.errors import OwnlabError
from ownlab.instruments.doctor.cluster.connections import connection_to
from ownlab.instruments.doctor.cluster.munge import make_credential, read_credential_times, read_status
from ownlab.instruments.doctor.cluster.node_report import LISTENING, REPORT, known_users
from ownlab.instruments.doctor.cluster.records import ClusterFacts, NodeCheck, NodeFacts, UserDifference
from ownlab.lab.engines.slurm.commands import Slurm
from ownlab.lab.engines.slurm.records import SlurmJob
from ownlab.machine.facts import Fact, Known, Unknown, value_of
from ownlab.text import text

__all__ = ["check_nodes", "node_script"]

# Exit codes of the script; not those of sysexits.h or of a shell.
_PROBLEMS = {91: "folder", 92: "other-folder", 93: "python", 94: "ownlab"}
_ENDED = frozenset({
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "OUT_OF_MEMORY", "DEADLINE", "LAUNCH_FAILED",
})  # fmt: skip
_MINUTES = 2  # the time limit of a job
_BETWEEN_LOOKS = 0.5  # seconds

_SCRIPT = """\
#!/bin/sh
# Written by `ownlab doctor --cluster`: looks at this node for some seconds, and changes nothing.
folder={folder} python={python} socket={socket}
[ -d "$folder" ] || exit 91
[ "$(cat "$folder/token" 2>/dev/null)" = {token} ] || exit 92
name={name}
exec >"$folder/$name.log" 2>&1
echo "host: $(hostname)"
echo "user: $(id -un 2>/dev/null)"
unmunge ${{socket:+--socket="$socket"}} --input="$folder/$name.credential" --metadata=- --output=/dev/null
[ -x "$python" ] || exit 93
cd /
"$python" -c 'import ownlab, msgspec' || exit 94
exec "$python" -m ownlab.instruments.doctor.cluster.node_report "$folder" "$name"
"""


def node_script(folder: str, name: str, token: str, socket: str) -> str:
    """The batch script of one node."""
    values = {"folder": folder, "python": sys.executable, "socket": socket, "token": token, "name": name}
    return _SCRIPT.format(**{key: shlex.quote(value) for key, value in values.items()})


def check_nodes(
    slurm: Slurm,
    nodes: tuple[NodeFacts, ...],
    facts: ClusterFacts,
    partitions: Sequence[str],
    options: LabOptions,
    environ: Mapping[str, str],
    socket: str,
) -> tuple[NodeFacts, ...]:
    """Run the jobs, and add what they found to the nodes."""
    unchecked = {node.name: _why_unchecked(node, facts.node_jobs, partitions) for node in nodes}
    chosen = [node for node in nodes if not unchecked[node.name]]
    if not chosen:
        return tuple(msgspec.structs.replace(node, unchecked=unchecked[node.name]) for node in nodes)
    folder = Path(facts.folder, f"cluster-check-{secrets.token_hex(4)}")
    try:
        folder.mkdir(mode=0o700)
        checks = _Jobs(slurm, folder, [node.name for node in chosen], options, environ, socket).run(chosen, partitions)
    except OSError as exc:
        reason = text("{folder} cannot be written: {reason}", folder=facts.folder, reason=exc.strerror)
        return tuple(msgspec.structs.replace(node, unchecked=unchecked[node.name] or reason) for node in nodes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return tuple(
        msgspec.structs.replace(node, check=checks.get(node.name), unchecked=unchecked[node.name]) for node in nodes
    )


def _why_unchecked(node: NodeFacts, node_jobs: str, partitions: Sequence[str]) -> str:
    if not node.usable:
        return text("it takes no jobs")
    if not set(node.partitions) & set(partitions):
        return text("no open partition has it")
    if node_jobs == "idle" and node.state != "IDLE":
        return text("it is in use; --node-jobs all asks it, too")
    return ""


class _Jobs:
    """The jobs of one check. Whatever happens, none is left behind."""

    def __init__(
        self, slurm: Slurm, folder: Path, names: list[str], options: LabOptions, environ: Mapping[str, str], socket: str
    ) -> None:
        self._slurm, self._folder, self._names, self._options = slurm, folder, names, options
        self._environ, self._socket = environ, socket
        self._token = secrets.token_hex(8)
        self._numbers: dict[str, str] = {}
        self._from_here: dict[str, str] = {}
        self._checks: dict[str, NodeCheck] = {}

    def run(self, nodes: Sequence[NodeFacts], partitions: Sequence[str]) -> dict[str, NodeCheck]:
        """Submit a job to each node, wait for their ends, and return what they found."""
        (self._folder / "token").write_text(self._token)
        users = {"users": known_users(), "nodes": self._names, "current": _identity(os.curdir)}
        replace_file(self._folder / "question.json", json.dumps(users))
        try:
            for node in nodes:
                self._submit(node, next(name for name in partitions if name in node.partitions))
            self._wait()
        finally:
            for name, number in self._numbers.items():
                if name not in self._checks:
                    self._cancel(number)
        return self._checks

    def _submit(self, node: NodeFacts, partition: str) -> None:
        credential = value_of(make_credential(self._socket, self._environ)) or ""
        replace_file(self._folder / f"{node.name}.credential", credential)
        script = self._folder / f"{node.name}.sh"
        script.write_text(node_script(str(self._folder), node.name, self._token, self._socket))
        preferred = self._options.slurm_partition
        given = [
            "--job-name=ownlab-doctor",
            "--output=/dev/null",
            "--chdir=/",
            "--export=NONE",
            "--no-requeue",
            f"--nodelist={node.name}",
            "--nodes=1",
            "--ntasks=1",
            f"--time={_MINUTES}",
            f"--partition={preferred if preferred in node.partitions else partition}",
        ]
        for option, value in (("account", self._options.slurm_account), ("qos", self._options.slurm_qos)):
            if value:
                given.append(f"--{option}={value}")
        try:
            self._numbers[node.name] = self._slurm.submit(str(script), given)
        except OwnlabError as exc:
            self._checks[node.name] = NodeCheck("", "failed", exc.message)

    def _wait(self) -> None:
        deadline = time.monotonic() + self._options.slurm_deadline_seconds
        jobs: dict[str, SlurmJob | None] = {}
        while waiting := [name for name in self._names if name not in self._checks]:
            is_late = time.monotonic() >= deadline
            for name in waiting:
                self._try_to_reach(name)
                if (self._folder / f"{name}.{REPORT}").exists():
                    self._try_to_reach(name)  # it listened before it wrote this
                    self._checks[name] = self._read(name, self._numbers[name])
                    continue
                jobs[name] = job = self._job(self._numbers[name])
                if job is not None and job.state in _ENDED:
                    self._checks[name] = self._ended(name, job)
                elif is_late and job is not None:
                    self._cancel(self._numbers[name])
                    self._checks[name] = self._unfinished(name, job)
                elif is_late:
                    self._checks[name] = NodeCheck(
                        self._numbers[name], "failed", text("Slurm does not know the job any more")
                    )
            time.sleep(_BETWEEN_LOOKS)

    def _job(self, number: str) -> SlurmJob | None:
        try:
            return self._slurm.job(number.partition(";")[0])
        except OwnlabError:  # it is asked again
            return None

    def _cancel(self, number: str) -> None:
        try:
            self._slurm.cancel(number.partition(";")[0])
        except OwnlabError:  # it ends by its time limit
            return

    def _try_to_reach(self, name: str) -> None:
        """Connect to the free port on which the job listens, as a lab does to a notebook on the node."""
        if name in self._from_here:
            return
        place = _read_json(self._folder / f"{name}.{LISTENING}")
        if place:
            self._from_here[name] = connection_to(str(place.get("address", "")), int(place.get("port", 0)))

    def _unfinished(self, name: str, job: SlurmJob) -> NodeCheck:
        if job.state == "PENDING":
            return NodeCheck(job.number, "pending", job.reason)
        return self._ended(name, job)

    def _ended(self, name: str, job: SlurmJob) -> NodeCheck:
        """A job that has left no report."""
        log = _log_of(self._folder / f"{name}.log")
        problem = _PROBLEMS.get(job.exit_code or 0, "failed")
        if log is None and problem == "failed":
            detail = text("{state}, {reason}", state=job.state, reason=job.reason or text("no reason"))
            return NodeCheck(job.number, problem, detail)
        check = self._from_log(job.number, log or "")
        lines = [line for line in (log or "").splitlines() if line.strip()]
        return msgspec.structs.replace(check, problem=problem, detail=lines[-1] if lines else "")

    def _from_log(self, number: str, log: str) -> NodeCheck:
        encoded, decoded = read_credential_times(log)
        fields = dict(line.split(": ", 1) for line in log.splitlines() if line.startswith(("host: ", "user: ")))
        return NodeCheck(
            job=number,
            host=fields.get("host", ""),
            user=fields.get("user", ""),
            credential=read_status(log),
            encoded_at=encoded,
            decoded_at=decoded,
            seen_at=time.time(),
        )

    def _read(self, name: str, number: str) -> NodeCheck:
        report = _read_json(self._folder / f"{name}.{REPORT}")
        check = self._from_log(number, _log_of(self._folder / f"{name}.log") or "")
        cards: Fact[int] = Known(int(report["cards"]), source="/sys/bus/pci/devices")
        if report.get("no_cards"):
            cards = Unknown(str(report["no_cards"]))
        return msgspec.structs.replace(
            check,
            python=str(report["python"]),
            ownlab=str(report["ownlab"]),
            cards=cards,
            current_folder=str(report["current_folder"]),
            users=tuple(UserDifference(*each) for each in report["users"]),
            unreachable=tuple(report["unreachable"]),
            from_here=self._from_here.get(name, ""),
        )


def _identity(path: str) -> list[Any]:
    """A folder, and its number in its file system, which is the same on all machines that share it; [] if it is gone."""
    try:
        return [os.path.realpath(path), os.stat(path).st_ino]
    except OSError:
        return []


def _log_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}

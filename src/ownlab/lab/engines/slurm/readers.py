"""Reads what Slurm's commands print: text formats that are the same from Slurm 20.11 on.

`--json` is not used: it came with 21.08, and its shape changed in 23.11 and 24.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from ownlab.errors import LabError
from ownlab.lab.engines.slurm.records import ClusterConfig, ClusterNode, Gpus, Partition, SlurmJob
from ownlab.text import text

__all__ = [
    "QUEUE_FORMAT",
    "expand_hosts",
    "munge_socket",
    "read_config",
    "read_gpus",
    "read_job",
    "read_nodes",
    "read_partitions",
    "read_queue",
    "read_submitted",
    "read_time",
    "read_version",
]

# The comment stands last: it may contain the separator.
QUEUE_FORMAT = "%i|%u|%T|%N|%S|%e|%r|%k"
_MOST_HOSTS = 100_000
_DAY = 86_400.0

# `Key=value` pairs on one line. Values may contain spaces: OS=Linux 6.1.0 #1 SMP, Reason=bad disk [root@2026-11-18T10:00:00]
_PAIR = re.compile(r"(?:^| )([A-Za-z][A-Za-z0-9_:/]*)=")
# gpu:4, gpu:a100:4, gpu:a100:4(S:0-1), gpu:a100:2(IDX:0,2-3), gres/gpu:4
_GRES = re.compile(
    r"(?:gres[/:])?gpu(?::(?P<type>[^:,()]*[^:,()\d][^:,()]*|\d+(?=:)))?(?::(?P<number>\d+))?(?:\((?P<detail>[^)]*)\))?$"
)


def read_version(printed: str) -> tuple[int, int]:
    """Read `sinfo --version`: "slurm 23.11.4", and "slurm-wlm 22.05.8" on Debian. LabError if it is not Slurm's."""
    found = re.match(r"\s*slurm\S*\s+(\d+)\.(\d+)", printed)
    if found is None:
        message = text("This is not the version of a Slurm: {printed}", printed=printed.strip()[:200] or "(nothing)")
        raise LabError(
            message, hint=text("`sinfo --version` prints it. Is another program of that name first on PATH?")
        )
    return int(found[1]), int(found[2])


def read_submitted(printed: str) -> str:
    """Read `sbatch --parsable`: "1234", or "1234;cluster" with several clusters. Sites may print more lines before it."""
    for line in reversed(printed.splitlines()):
        if re.fullmatch(r"\d+(;[\w.-]+)?", line.strip()):
            return line.strip()
    raise _unreadable("sbatch", printed)


def read_queue(printed: str) -> tuple[SlurmJob, ...]:
    """Read `squeue -h -r -o QUEUE_FORMAT`. Lines of other programs (a site's wrapper) are passed over."""
    jobs = []
    for line in printed.splitlines():
        fields = line.split("|", QUEUE_FORMAT.count("|"))
        if len(fields) != QUEUE_FORMAT.count("|") + 1 or not re.match(r"\d+", fields[0]):
            continue
        number, user, state, nodes, starts, ends, reason, comment = (each.strip() for each in fields)
        jobs.append(
            SlurmJob(
                number=number,
                user=user,
                state=state,
                reason=_known(reason),
                nodes=_known(nodes),
                starts_at=read_time(starts),
                ends_at=read_time(ends),
                comment=_known(comment),
            )
        )
    return tuple(jobs)


def read_job(printed: str) -> SlurmJob:
    """Read `scontrol -d -o show job NUMBER`."""
    pairs = next((pairs for pairs in map(_pairs, printed.splitlines()) if "JobId" in pairs), None)
    if pairs is None or "JobState" not in pairs:
        raise _unreadable("scontrol show job", printed)
    code, _, ended_by = pairs.get("ExitCode", "").partition(":")
    number = pairs["JobId"]
    if pairs.get("ArrayJobId") and pairs.get("ArrayTaskId", "").isdigit():
        number = f"{pairs['ArrayJobId']}_{pairs['ArrayTaskId']}"
    return SlurmJob(
        number=number,
        user=pairs.get("UserId", "").partition("(")[0],
        state=pairs["JobState"],
        reason=_known(pairs.get("Reason", "")),
        nodes=_known(pairs.get("NodeList", "")),
        starts_at=read_time(pairs.get("StartTime", "")),
        ends_at=read_time(pairs.get("EndTime", "")),
        comment=_known(pairs.get("Comment", "")),
        exit_code=int(code) if code.isdigit() else None,
        signal=int(ended_by) if ended_by.isdigit() else None,
        cards=_card_numbers(printed),
    )


def read_nodes(printed: str) -> tuple[ClusterNode, ...]:
    """Read `scontrol -d -o show node`."""
    nodes = []
    for pairs in map(_pairs, printed.splitlines()):
        if "NodeName" in pairs and "State" in pairs:
            base, *flags = pairs["State"].split("+")
            marks = {"NOT_RESPONDING"} if base.endswith("*") else set()
            nodes.append(
                ClusterNode(
                    name=pairs["NodeName"],
                    state=re.sub(r"\W+$", "", base),
                    flags=frozenset({re.sub(r"\W+$", "", flag) for flag in flags} | marks),
                    partitions=tuple(filter(None, _known(pairs.get("Partitions", "")).split(","))),
                    gpus=read_gpus(pairs.get("Gres", "")),
                    used_gpus=sum(each.number for each in read_gpus(pairs.get("GresUsed", ""))),
                    cpus=int(pairs["CPUTot"]) if pairs.get("CPUTot", "").isdigit() else 0,
                    reason=_known(pairs.get("Reason", "")),
                    address=_known(pairs.get("NodeAddr", "")),
                    port=int(pairs["Port"]) if pairs.get("Port", "").isdigit() else None,
                    version=_known(pairs.get("Version", "")),
                )
            )
    return tuple(nodes)


def read_partitions(printed: str) -> tuple[Partition, ...]:
    """Read `scontrol -o show partition`."""
    return tuple(
        Partition(
            name=pairs["PartitionName"],
            is_default=pairs.get("Default") == "YES",
            is_up=pairs.get("State", "UP") == "UP",
            time_limit=_duration(pairs.get("MaxTime", "")),
            default_time=_duration(pairs.get("DefaultTime", "")),
            nodes=_known(pairs.get("Nodes", "")),
            most_nodes=int(pairs["MaxNodes"]) if pairs.get("MaxNodes", "").isdigit() else None,
        )
        for pairs in map(_pairs, printed.splitlines())
        if "PartitionName" in pairs
    )


def read_config(printed: str) -> ClusterConfig:
    """Read `scontrol show config`: a "Name = value" on each line."""
    values = {}
    for line in printed.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            values[name.strip()] = value.strip()
    if "SLURM_VERSION" not in values:
        raise _unreadable("scontrol show config", printed)
    hosts = [value for name, value in values.items() if re.fullmatch(r"SlurmctldHost\[\d+\]", name)]
    return ClusterConfig(
        cluster=values.get("ClusterName", ""),
        version=read_version(f"slurm {values['SLURM_VERSION']}"),
        kill_wait=_seconds(values.get("KillWait", ""), 30.0),
        keeps_ended=_seconds(values.get("MinJobAge", ""), 300.0),
        controllers=tuple(host.partition("(")[0] for host in hosts),
        node_port=_port(values.get("SlurmdPort", "")),
        socket=munge_socket(values.get("AuthInfo", "")),
        most_in_array=int(size) - 1 if (size := values.get("MaxArraySize", "")).isdigit() else 1000,
    )


def munge_socket(auth_info: str) -> str:
    """The socket that AuthInfo names: "socket=/run/munge/socket,ttl=60"; "" if it names none."""
    return next((each.partition("=")[2] for each in auth_info.split(",") if each.strip().startswith("socket=")), "")


def read_gpus(gres: str) -> tuple[Gpus, ...]:
    """Read the GPUs of `Gres=` or `GresUsed=`; other resources are left out."""
    found = []
    for each in re.split(r",(?![^(]*\))", _known(gres)):
        match = _GRES.match(each.strip())
        if match is not None:
            found.append(Gpus(match["type"] or "", int(match["number"] or 1)))
    return tuple(found)


def read_time(given: str) -> float | None:
    """Read a time stamp: seconds since the epoch, or "2026-11-18T14:20:00" in local time. None if there is none."""
    given = given.strip()
    if given.isdigit():
        return float(given) or None
    try:
        return datetime.fromisoformat(given).timestamp()
    except ValueError:  # N/A, Unknown, (null), NONE
        return None


def expand_hosts(hosts: str) -> tuple[str, ...]:
    """Expand a host list: "n[1-2,08],login" -> n1, n2, n08, login. LabError if it is not one."""
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", _known(hosts)):
        if part:
            names += _expand(part)
            if len(names) > _MOST_HOSTS:
                raise _unreadable("Slurm", hosts)
    return tuple(names)


def _expand(part: str) -> Iterator[str]:
    match = re.fullmatch(r"([^\[\]]*)\[([\d,-]+)\](.*)", part)
    if match is None:
        if re.search(r"[\[\]]", part):
            raise _unreadable("Slurm", part)
        yield part
        return
    for piece in match[2].split(","):
        first, _, last = piece.partition("-")
        if not re.fullmatch(r"\d+(-\d+)?", piece) or int(last or first) - int(first) > _MOST_HOSTS:
            raise _unreadable("Slurm", part)
        for number in range(int(first), int(last or first) + 1):
            for rest in _expand(match[3]):
                yield f"{match[1]}{number:0{len(first)}d}{rest}"


def _pairs(line: str) -> dict[str, str]:
    """The pairs of one line. Of a key that stands twice (CPU_IDs of several nodes) the first."""
    pairs: dict[str, str] = {}
    marks = list(_PAIR.finditer(line))
    ends = [mark.start() for mark in marks[1:]] + [len(line)] * bool(marks)
    for mark, end in zip(marks, ends, strict=True):
        pairs.setdefault(mark[1], line[mark.end() : end].strip())
    return pairs


def _card_numbers(printed: str) -> tuple[int, ...]:
    """The numbers of `GRES=gpu:a100:2(IDX:0,2-3)` of the first node."""
    match = re.search(r"GRES=\S*?gpu[^\s(]*\(IDX:([\d,-]+)\)", printed)
    if match is None:
        return ()
    numbers: list[int] = []
    for piece in match[1].split(","):
        first, _, last = piece.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def _duration(given: str) -> float | None:
    """Read "1-02:03:04", "02:03:04" or "03:04"; None for UNLIMITED, NONE and what is no duration."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", given.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return days * _DAY + hours * 3600 + minutes * 60 + seconds


def _port(given: str) -> int | None:
    """The first of "6818" or "6818-6820"; None if there is none."""
    match = re.match(r"\d+", given)
    return int(match[0]) if match else None


def _seconds(given: str, default: float) -> float:
    match = re.match(r"(\d+) sec", given)
    return float(match[1]) if match else default


def _known(value: str) -> str:
    """A value, or "" for what Slurm prints if there is none."""
    value = value.strip()
    return "" if value in ("(null)", "N/A", "None", "NONE", "n/a", "none") else value


def _unreadable(command: str, printed: str) -> LabError:
    shown = printed.strip()[:200] or "(nothing)"
    message = text("What {command} printed cannot be read: {printed}", command=command, printed=shown)
    return LabError(message, hint=text("ownlab reads the text output of Slurm 20.11 and newer."))

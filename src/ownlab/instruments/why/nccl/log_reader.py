"""Reads logs of NCCL_DEBUG=INFO line by line. What is kept grows with the ranks and their pairs, not with the lines.

The text of the messages is NCCL's own, from 2.4 to 2.28 (init.cc, transport/*.cc, misc/*.cc of its source, and public logs), and that of
PyTorch's watchdog (ProcessGroupNCCL.cpp). Launchers put words before each line, and several ranks write into one file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ownlab.instruments.why.nccl.machine_facts import MachineFacts
from ownlab.instruments.why.nccl.records import Communicator, Connection, Failure, NcclLog, Rank, Timeout

__all__ = ["LogReader"]

_LINE = re.compile(
    r"(?:(?P<host>[^\s:\[\]|<>]+):(?P<pid>\d+):(?P<tid>\d+) )?\[(?P<device>\d+)\] (?:\S+:\d+ )?NCCL (?P<level>INFO|WARN|ERROR) (?P<message>.*)"
)
_VERSION = re.compile(r"NCCL version (\d[\w.+-]*)")
_RANK = re.compile(r"comm (0x[0-9a-f]+) rank (\d+) n[rR]anks (\d+)(.*)")
_BUS = re.compile(r"busId (\w+)")
_ID = re.compile(r"commId (0x[0-9a-f]+)")
_CONNECTION = re.compile(
    r"(?:Channel|Ring) (\d+)(?:/\d+)? : (\d+)(?:\[\w+\])? -> (\d+)(?:\[\w+\])?(?: \[(?:send|receive)\])? via (.+)"
)
_NET = re.compile(r"NET/(?P<network>[^/]+)/\d+(?:\(\d+\))?(?P<flags>.*)")
_RING = re.compile(r"Channel 00/\d+ :((?: +\d+)+)\s*$")
_CHANNELS = re.compile(r"(\d+) coll channels")

_WATCHDOG = re.compile(
    r"\[(?:PG (?:ID )?(?P<group>\d+)[^\]]* )?Rank (?P<rank>\d+)\] Watchdog caught collective operation timeout: "
    r"WorkNCCL\(SeqNum=(?P<sequence>\d+), OpType=(?P<operation>\w+)(?:, NumelIn=(?P<elements>\d+))?.*?\) ran for (?P<ran>\d+) milli"
)
_STATUS = re.compile(
    r"\[PG (?:ID )?(?P<group>\d+)[^\]]*Rank (?P<rank>\d+)\].*?(?:at work: |sequence id: )(?P<sequence>\d+).*?"
    r"last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)"
)

# The first that matches says what a warning is about. Groups: rank, other, peer, detail.
_FAILURES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "version",
        re.compile(r"Mismatched NCCL version detected : rank (?P<rank>\d+) version (?P<peer>\d+) rank (?P<other>\d+) version (?P<detail>\d+)"),
    ),
    ("duplicate", re.compile(r"Duplicate GPU detected : rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA device (?P<detail>\w+)")),
    (
        "shared-memory",
        re.compile(r"(?:Error while (?:creating|attaching to) shared memory segment|Call to posix_fallocate failed|failed to extend /dev/shm)(?P<detail>.*)"),
    ),
    (
        "connect",
        re.compile(
            r"[Cc]onnect to (?P<peer>[^\s<]+)<\d+> (?:failed : |returned \d+\()(?P<detail>[^)]*)|Call to connect (?:timeout|failed) : (?P<reason>.*)"
        ),
    ),
    ("interface", re.compile(r"(?P<detail>No interface found in the same subnet.*|[Nn]o (?:socket|usable listening) interface found.*)")),
    ("link", re.compile(r"Got completion (?:from peer (?P<peer>[^\s<]*)\S* )?with (?:status=|error )(?P<detail>\d+)")),
    ("locked-memory", re.compile(r"Call to ibv_\w+ failed with error (?P<detail>Cannot allocate memory)")),
    ("collective", re.compile(r"(?:collective mismatch error|Mismatched collective detected)(?P<detail>.*)")),
    ("cuda", re.compile(r"Cuda failure (?:\d+ )?'(?P<detail>[^']*)'")),
)  # fmt: skip

_MOST_CONNECTIONS = 200_000
_MOST_FAILURES = 1000
_MOST_TIMEOUTS = 5000
# A line of a log that is longer has something else in it.
_LONGEST_LINE = 20_000


class _Thread(NamedTuple):
    host: str
    pid: int
    tid: int
    device: int


class _Group:
    """A communicator while it is read."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.ranks: dict[int, Rank] = {}
        self.channels: dict[tuple[int, int, str], set[int]] = {}
        self.ring: tuple[int, ...] = ()
        self.complete: set[int] = set()

    def take(self, pending: dict[tuple[int, int, str], set[int]]) -> None:
        for key, channels in pending.items():
            self.channels.setdefault(key, set()).update(channels)


class LogReader:
    """Takes lines, and gives what they say."""

    def __init__(self) -> None:
        self._lines = self._connections = 0
        self._informative = False
        self._versions: dict[str, None] = {}
        self._channels: int | None = None
        self._machines: dict[str, MachineFacts] = {}
        self._groups: dict[str, _Group] = {}
        self._names: dict[tuple[str, int, str], str] = {}  # host, process and pointer of a communicator -> its name
        self._of_thread: dict[_Thread, _Group] = {}
        self._of_process: dict[tuple[str, int, int], _Group] = {}
        self._pending: dict[_Thread, dict[tuple[int, int, str], set[int]]] = {}
        self._failures: dict[tuple[str, str, tuple[int, ...], str, str], list[str | int]] = {}
        self._timeouts: dict[tuple[int, int, str], Timeout] = {}

    def read(self, lines: Iterable[bytes]) -> None:
        """Read the lines of one file."""
        for raw in lines:
            if b"NCCL" in raw:
                self._read_line(raw[:_LONGEST_LINE].decode(errors="replace").rstrip())

    def _read_line(self, line: str) -> None:
        match = _LINE.search(line)
        if match is None:
            self._read_other(line)
            return
        self._lines += 1
        host, message = match["host"] or "", match["message"]
        thread = _Thread(host, int(match["pid"] or 0), int(match["tid"] or 0), int(match["device"]))
        if match["level"] == "INFO":
            self._informative = True
            self._read_info(thread, message)
        else:
            self._machine(host).read(message)
            self._read_warning(host, message)

    def _read_other(self, line: str) -> None:
        """Lines without NCCL's prefix: its version, and what PyTorch's watchdog says."""
        version = _VERSION.match(line.strip()) or (None if "ProcessGroup" in line else _VERSION.search(line))
        if version is not None and "error" not in line.lower():
            self._lines += 1
            self._versions[version[1]] = None
        timeout = _WATCHDOG.search(line)
        if timeout is not None and len(self._timeouts) < _MOST_TIMEOUTS:
            self._lines += 1
            elements = timeout["elements"]
            rank, sequence, operation = int(timeout["rank"]), int(timeout["sequence"]), timeout["operation"]
            self._timeouts.setdefault(
                (rank, sequence, operation),
                Timeout(
                    rank=rank,
                    group=timeout["group"] or "",
                    sequence=sequence,
                    operation=operation,
                    elements=int(elements) if elements else None,
                    ran_ms=int(timeout["ran"]),
                ),
            )
        status = _STATUS.search(line)
        if status is not None:
            self._add_status(status)

    def _add_status(self, status: re.Match[str]) -> None:
        for key, timeout in self._timeouts.items():
            if key[:2] == (int(status["rank"]), int(status["sequence"])):
                self._timeouts[key] = Timeout(
                    rank=timeout.rank,
                    group=status["group"],
                    sequence=timeout.sequence,
                    operation=timeout.operation,
                    elements=timeout.elements,
                    ran_ms=timeout.ran_ms,
                    last_enqueued=int(status["enqueued"]),
                    last_completed=int(status["completed"]),
                )

    def _machine(self, host: str) -> MachineFacts:
        return self._machines.setdefault(host, MachineFacts(host))

    # --- INFO ---------------------------------------------------------------------------------------------------------

    def _read_info(self, thread: _Thread, message: str) -> None:
        if (rank := _RANK.search(message)) is not None:
            self._add_rank(thread, rank)
        elif (connection := _CONNECTION.match(message)) is not None:
            self._add_connection(thread, connection)
        elif (ring := _RING.match(message)) is not None:
            group = self._group_of(thread)
            if group is not None and not group.ring:
                group.ring = tuple(int(number) for number in ring[1].split())
        elif (channels := _CHANNELS.match(message)) is not None:
            self._channels = int(channels[1])
        else:
            version = _VERSION.match(message)
            if version is not None:
                self._versions[version[1]] = None
                self._machine(thread.host).versions[version[1]] = None
            self._machine(thread.host).read(message)

    def _add_rank(self, thread: _Thread, match: re.Match[str]) -> None:
        pointer, rank, size, rest = match[1], int(match[2]), int(match[3]), match[4]
        identity = _ID.search(rest)
        place = (thread.host, thread.pid, pointer)
        name = identity[1] if identity else self._names.get(place) or f"{size} ranks"
        self._names[place] = name
        group = self._groups.setdefault(name, _Group(name, size))
        bus = _BUS.search(rest)
        known = group.ranks.get(rank)
        bus_id = bus[1] if bus else known.bus_id if known else ""
        group.ranks[rank] = Rank(rank, thread.host, thread.pid, bus_id)
        group.take(self._pending.pop(thread, {}))
        self._of_thread[thread] = self._of_process[thread.host, thread.pid, thread.device] = group
        if "COMPLETE" in rest:
            group.complete.add(rank)
        self._machine(thread.host)

    def _group_of(self, thread: _Thread) -> _Group | None:
        return self._of_thread.get(thread) or self._of_process.get((thread.host, thread.pid, thread.device))

    def _add_connection(self, thread: _Thread, match: re.Match[str]) -> None:
        if self._connections >= _MOST_CONNECTIONS:
            return
        group = self._group_of(thread)
        # Before 2.18 a rank says to which communicator its connections belong only at the end.
        channels = self._pending.setdefault(thread, {}) if group is None else group.channels
        key = (int(match[2]), int(match[3]), match[4].strip())
        if key not in channels:
            self._connections += 1
        channels.setdefault(key, set()).add(int(match[1]))

    # --- WARN ---------------------------------------------------------------------------------------------------------

    def _read_warning(self, host: str, message: str) -> None:
        for kind, pattern in _FAILURES:
            match = pattern.search(message)
            if match is None:
                continue
            found = match.groupdict()
            ranks = tuple(int(found[name]) for name in ("rank", "other") if found.get(name))
            detail = (found.get("detail") or found.get("reason") or "").strip(" :")
            key = (kind, host, ranks, found.get("peer") or "", detail if kind != "shared-memory" else "")
            self._count_failure(key, message)
            return
        self._count_failure(("other", host, (), "", message[:200]), message)

    def _count_failure(self, key: tuple[str, str, tuple[int, ...], str, str], message: str) -> None:
        if key in self._failures:
            self._failures[key][1] = int(self._failures[key][1]) + 1
        elif len(self._failures) < _MOST_FAILURES:
            self._failures[key] = [message[:300], 1]

    # --- the result ---------------------------------------------------------------------------------------------------

    def result(self, files: Iterable[str]) -> NcclLog:
        """Everything that was read."""
        # A rank that did not finish its initialisation: of the only communicator, if there is one.
        unfinished = next(iter(self._groups.values())) if len(self._groups) == 1 else None
        for pending in self._pending.values():
            (unfinished or self._groups.setdefault("", _Group("", 0))).take(pending)
        communicators = sorted((_finished(group) for group in self._groups.values()), key=lambda each: -each.size)
        return NcclLog(
            files=tuple(files),
            lines=self._lines,
            informative=self._informative,
            versions=tuple(self._versions),
            channels=self._channels,
            machines=tuple(facts.as_record() for facts in self._machines.values()),
            communicators=tuple(communicators),
            failures=tuple(
                Failure(kind, machine, str(message), ranks, peer, detail, int(count))
                for (kind, machine, ranks, peer, detail), (message, count) in self._failures.items()
            ),
            timeouts=tuple(sorted(self._timeouts.values(), key=lambda each: (each.rank, each.sequence))),
        )


def _finished(group: _Group) -> Communicator:
    connections = []
    for (sender, receiver, how), channels in sorted(group.channels.items()):
        ends = group.ranks.get(sender), group.ranks.get(receiver)
        known = ends[0] is not None and ends[1] is not None and bool(ends[0].machine)
        network = _NET.match(how)
        connections.append(
            Connection(
                sender=sender,
                receiver=receiver,
                transport="SHM" if how == "direct shared memory" else how.partition("/")[0],
                network=network["network"] if network else "",
                gpu_direct=bool(network) and "GDRDMA" in how,
                how=how,
                channels=len(channels),
                same_machine=ends[0].machine == ends[1].machine if known and ends[0] and ends[1] else None,
            )
        )
    ranks = tuple(group.ranks[number] for number in sorted(group.ranks))
    return Communicator(group.name, group.size, ranks, tuple(connections), group.ring, len(group.complete))

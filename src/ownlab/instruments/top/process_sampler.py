"""Samples of processes that use a card or belong to a runtime, each with all its descendants.

One pass over /proc serves all process trees. Constant properties are read once per process.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ownlab.instruments.top.records import CardSample, Owner, ProcessSample
from ownlab.processes.procfs import UNSEEN, Stat, all_processes, children_of, descendants_of

__all__ = ["Owners", "ProcessSampler"]

# The known processes of each runtime, the outermost first and its kernel last. Their descendants belong to it too.
Owners = Callable[[], Mapping[int, Owner]]

_TICKS = os.sysconf("SC_CLK_TCK")
# Big machines have thousands of kernel threads, which are skipped. Process ids are reused, so the skip list expires.
_SKIP_SECONDS = 10.0
# How container engines name control groups. Long ids are shortened to twelve digits, as the engines do.
_CONTAINERS = (
    (re.compile(r"libpod-(?:conmon-)?([0-9a-f]{64})"), "podman"),
    (re.compile(r"docker[-/]([0-9a-f]{64})"), "docker"),
    (re.compile(r"kubepods.*?([0-9a-f]{64})"), "kubernetes"),
    (re.compile(r"(?:cri-)?containerd[-:/]([0-9a-f]{64})"), "containerd"),
    (re.compile(r"/lxc(?:\.payload)?[./]([^/\n]+)"), "lxc"),
)


class _Properties(NamedTuple):
    """Properties that do not change during the life of a process."""

    started: int
    command: str
    user: str
    container: str


class _Counts(NamedTuple):
    """Counters of a process tree since its start. Parents inherit the counters of children that ended."""

    at: float
    ticks: int
    disks: tuple[int, int] | None  # bytes read and written


class _Tree(NamedTuple):
    root: int
    owner: Owner | None
    members: frozenset[int]


class ProcessSampler:
    """Reads processes; keeps the counters of each process tree from the last reading."""

    def __init__(self, owners: Owners = dict, root: Path = Path("/")) -> None:
        self._owners = owners
        self._root = root
        self._booted = _boot_time(root)
        self._properties: dict[int, _Properties] = {}
        self._before: dict[tuple[int, int], _Counts] = {}
        self._first: tuple[float, Mapping[int, tuple[int, int]]] | None = None  # time; start and ticks by pid
        self._on_cards: set[tuple[int, int]] = set()  # pid and start of processes that use a card
        self._roots: tuple[int, ...] = ()
        self._skip: set[int] = set()  # processes of no interest
        self._skip_since = float("-inf")
        self.members: dict[str, tuple[Stat, ...]] = {}  # all processes of each runtime at the last reading

    def begin(self) -> None:
        """Start the interval for the CPU use of the first reading."""
        self._first = (
            time.monotonic(),
            {pid: (stat.started, stat.ticks) for pid, stat in all_processes(self._root).items()},
        )

    def read(
        self, cards: Iterable[CardSample], elsewhere: Mapping[int, ProcessSample] | None = None
    ) -> tuple[ProcessSample, ...]:
        """Return all relevant processes. `elsewhere`: the cards, and the processes on them, are those of another machine."""
        owners = self._owners()
        pids = dict.fromkeys(running.pid for card in cards for running in card.processes or ())
        if not owners and not pids:
            self._forget({})
            self.members = {}
            return ()
        table = self._table((*owners, *pids))
        foreign = [pid for pid in pids if elsewhere is not None or not self._is_here(pid, table)]
        trees = _trees(owners, [pid for pid in pids if pid not in foreign], table)
        self._skip.update(set(table).difference(pids, *(tree.members for tree in trees)))
        samples = [self._sample(tree, table) for tree in trees]
        # Reversed: the first tree of a runtime contains all of it, and must win.
        owned = [(tree.owner.runtime, tree.members) for tree in reversed(trees) if tree.owner is not None]
        self.members = {runtime: tuple(table[pid] for pid in members) for runtime, members in owned}
        known = elsewhere or {}
        self._forget(table)
        self._first = None
        return (*samples, *(known.get(pid, ProcessSample(pid, here=False)) for pid in foreign))

    def _table(self, roots: tuple[int, ...]) -> dict[int, Stat]:
        """Return the processes that may belong to one of these trees. Others never join one, so they are rarely read."""
        if self._booted is None:
            return {}
        now = time.monotonic()
        if roots != self._roots or now - self._skip_since > _SKIP_SECONDS:
            self._roots, self._skip, self._skip_since = roots, set(), now
        return all_processes(self._root, but=self._skip)

    def _is_here(self, pid: int, table: Mapping[int, Stat]) -> bool:
        """Whether the process with this id is the one that the driver reports."""
        if pid not in table:
            return False
        key = (pid, table[pid].started)
        if key not in self._on_cards and _uses_card(self._root, pid):
            self._on_cards.add(key)
        return key in self._on_cards

    def _sample(self, tree: _Tree, table: Mapping[int, Stat]) -> ProcessSample:
        stat, properties = table[tree.root], self._describe(table[tree.root])
        now = _Counts(
            time.monotonic(), sum(table[pid].ticks for pid in tree.members), self._disks(tree.root, tree.members)
        )
        key = (tree.root, stat.started)
        before, self._before[key] = self._before.get(key) or self._first_counts(tree, table), now
        cpu, read, written = _rates(before, now)
        return ProcessSample(
            pid=tree.root,
            command=properties.command or stat.command,
            user=properties.user,
            container=properties.container,
            owner=tree.owner,
            started=None if self._booted is None else self._booted + stat.started / _TICKS,
            cpu=cpu,
            memory=sum(table[pid].rss for pid in tree.members),
            disk_read=read,
            disk_written=written,
            processes=len(tree.members),
        )

    def _disks(self, root: int, members: Iterable[int]) -> tuple[int, int] | None:
        """Return bytes read and written; None if the process belongs to another user and cannot be read."""
        first = _read_io(self._root, root)
        if first is None:
            return None
        others = [_read_io(self._root, pid) or (0, 0) for pid in members if pid != root]
        return first[0] + sum(read for read, _ in others), first[1] + sum(written for _, written in others)

    def _first_counts(self, tree: _Tree, table: Mapping[int, Stat]) -> _Counts | None:
        """Return the counters of a tree at `begin`, if it was called."""
        if self._first is None:
            return None
        at, ticks = self._first
        known = [ticks[pid] for pid in tree.members if ticks.get(pid, (0, 0))[0] == table[pid].started]
        return _Counts(at, sum(used for _, used in known), None) if known else None

    def _describe(self, stat: Stat) -> _Properties:
        known = self._properties.get(stat.pid)
        if known is None or known.started != stat.started:
            known = self._properties[stat.pid] = _describe(self._root, stat)
        return known

    def _forget(self, table: Mapping[int, Stat]) -> None:
        self._properties = {pid: properties for pid, properties in self._properties.items() if pid in table}
        self._before = {key: counts for key, counts in self._before.items() if key[0] in table}
        self._on_cards = {key for key in self._on_cards if key[0] in table}


def _trees(owners: Mapping[int, Owner], on_cards: Iterable[int], table: Mapping[int, Stat]) -> list[_Tree]:
    """Return one tree per runtime, with its kernel as root, and one per other process on a card."""
    children = children_of(table)
    roots: dict[str, int] = {}
    members: dict[str, set[int]] = {}
    for pid, owner in owners.items():
        if pid in table:
            roots[owner.runtime] = pid
            members.setdefault(owner.runtime, set()).update((pid, *descendants_of(pid, children)))
    owner_by_pid = {pid: owners[root] for runtime, root in roots.items() for pid in members[runtime]}
    runtimes = [_Tree(root, owners[root], frozenset(members[runtime])) for runtime, root in roots.items()]
    kernels = set(roots.values())
    others = [pid for pid in on_cards if pid not in kernels]
    return [
        *runtimes,
        *(_Tree(pid, owner_by_pid.get(pid), frozenset((pid, *descendants_of(pid, children)))) for pid in others),
    ]


def _rates(before: _Counts | None, now: _Counts) -> tuple[float | None, float | None, float | None]:
    """Return percent of a core and bytes per second. The counters of a tree that lost a member may go backwards: 0."""
    if before is None or now.at <= before.at:
        return None, None, None
    seconds = now.at - before.at
    cpu = 100.0 * max(0, now.ticks - before.ticks) / _TICKS / seconds
    if before.disks is None or now.disks is None:
        return cpu, None, None
    read, written = (max(0, new - old) / seconds for new, old in zip(now.disks, before.disks, strict=True))
    return cpu, read, written


def _read_io(root: Path, pid: int) -> tuple[int, int] | None:
    content = _read(root, pid, "io")
    if not content:
        return None
    fields = dict(line.split(b": ") for line in content.splitlines())
    return int(fields[b"read_bytes"]), int(fields[b"write_bytes"])


def _describe(root: Path, stat: Stat) -> _Properties:
    # Imported here: it loads much of `machine`, which is not needed while no process is of interest.
    from ownlab.machine.facts import value_of
    from ownlab.machine.nvidia.processes import read_command, read_user

    folder = root / "proc" / str(stat.pid)
    return _Properties(
        started=stat.started,
        command=value_of(read_command(folder, stat.pid)) or "",
        user=value_of(read_user(folder, stat.pid)) or "",
        container=_container(_read(root, stat.pid, "cgroup").decode(errors="replace")),
    )


def _uses_card(root: Path, pid: int) -> bool:
    from ownlab.machine.nvidia.processes import why_other_process

    return why_other_process(root / "proc" / str(pid), pid) is None


def _container(groups: str) -> str:
    """Return "docker 3f4a5b6c7d8e", from /proc/PID/cgroup; "" outside of containers, and inside one, where it is not visible."""
    matches = ((engine, match.group(1)) for sign, engine in _CONTAINERS if (match := sign.search(groups)))
    engine, name = next(matches, ("", ""))
    return f"{engine} {name[:12] if len(name) == 64 else name}" if engine else ""


def _read(root: Path, pid: int, name: str) -> bytes:
    try:
        return (root / "proc" / str(pid) / name).read_bytes()
    except UNSEEN:
        return b""


def _boot_time(root: Path) -> float | None:
    """Return the boot time in seconds since the epoch; None without a Linux /proc."""
    try:
        lines = (root / "proc/stat").read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), None)

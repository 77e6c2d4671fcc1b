"""Whose the work is: processes that use a card or belong to a runtime, each with all that descends from it.

One pass over /proc serves all trees. What does not change is read once for each process.
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

__all__ = ["Owners", "Processes"]

# Of each runtime its processes that are known by number, the outermost first and its kernel last: their descendants are its.
Owners = Callable[[], Mapping[int, Owner]]

_TICKS = os.sysconf("SC_CLK_TCK")
# Big machines have thousands of threads of the kernel alone. Their numbers are used again, so this is not for ever.
_ASIDE_SECONDS = 10.0
# How engines name the control group of a container; of a long number people write the first twelve digits.
_CONTAINERS = (
    (re.compile(r"libpod-(?:conmon-)?([0-9a-f]{64})"), "podman"),
    (re.compile(r"docker[-/]([0-9a-f]{64})"), "docker"),
    (re.compile(r"kubepods.*?([0-9a-f]{64})"), "kubernetes"),
    (re.compile(r"(?:cri-)?containerd[-:/]([0-9a-f]{64})"), "containerd"),
    (re.compile(r"/lxc(?:\.payload)?[./]([^/\n]+)"), "lxc"),
)


class _Described(NamedTuple):
    """What stays as it is."""

    started: int
    command: str
    user: str
    container: str


class _Counts(NamedTuple):
    """Of a tree, since its beginning: what children had used stays with their parents."""

    at: float
    ticks: int
    disks: tuple[int, int] | None  # bytes read and written


class _Tree(NamedTuple):
    root: int
    owner: Owner | None
    members: frozenset[int]


class Processes:
    """Keeps what each tree had used at the last look."""

    def __init__(self, owners: Owners = dict, root: Path = Path("/")) -> None:
        self._owners = owners
        self._root = root
        self._booted = _boot_time(root)
        self._described: dict[int, _Described] = {}
        self._before: dict[tuple[int, int], _Counts] = {}
        self._first: tuple[float, Mapping[int, tuple[int, int]]] | None = None  # when, and of each its start and ticks
        self._on_cards: set[tuple[int, int]] = set()  # pid and start of those that were seen to use a card
        self._roots: tuple[int, ...] = ()
        self._aside: set[int] = set()  # those who belong to nobody here
        self._aside_at = float("-inf")
        self.members: dict[str, tuple[Stat, ...]] = {}  # by runtime, every process of it at the last look

    def begin(self) -> None:
        """From this moment the first look's CPU shares count, whoever it is about."""
        self._first = (
            time.monotonic(),
            {pid: (stat.started, stat.ticks) for pid, stat in all_processes(self._root).items()},
        )

    def read(
        self, cards: Iterable[CardSample], elsewhere: Mapping[int, ProcessSample] | None = None
    ) -> tuple[ProcessSample, ...]:
        """Everyone who matters now. `elsewhere`: the cards are another machine's, and so are the processes on them."""
        owners = self._owners()
        pids = dict.fromkeys(each.pid for card in cards for each in card.processes or ())
        if not owners and not pids:
            self._forget({})
            self.members = {}
            return ()
        table = self._table((*owners, *pids))
        strangers = [pid for pid in pids if elsewhere is not None or not self._is_here(pid, table)]
        trees = _trees(owners, [pid for pid in pids if pid not in strangers], table)
        self._aside.update(set(table).difference(pids, *(tree.members for tree in trees)))
        found = [self._sample(tree, table) for tree in trees]
        # Backwards: the first tree of a runtime is all of it.
        owned = [(tree.owner.runtime, tree.members) for tree in reversed(trees) if tree.owner is not None]
        self.members = {runtime: tuple(table[pid] for pid in members) for runtime, members in owned}
        known = elsewhere or {}
        self._forget(table)
        self._first = None
        return (*found, *(known.get(pid, ProcessSample(pid, here=False)) for pid in strangers))

    def _table(self, roots: tuple[int, ...]) -> dict[int, Stat]:
        """Everyone who may belong to one of these. Nobody outside of their trees ever joins one: once in a while will do."""
        if self._booted is None:
            return {}
        now = time.monotonic()
        if roots != self._roots or now - self._aside_at > _ASIDE_SECONDS:
            self._roots, self._aside, self._aside_at = roots, set(), now
        return all_processes(self._root, but=self._aside)

    def _is_here(self, pid: int, table: Mapping[int, Stat]) -> bool:
        """Whether the process of this number is the one that the driver means."""
        if pid not in table:
            return False
        key = (pid, table[pid].started)
        if key not in self._on_cards and _uses_card(self._root, pid):
            self._on_cards.add(key)
        return key in self._on_cards

    def _sample(self, tree: _Tree, table: Mapping[int, Stat]) -> ProcessSample:
        stat, described = table[tree.root], self._describe(table[tree.root])
        now = _Counts(
            time.monotonic(), sum(table[pid].ticks for pid in tree.members), self._disks(tree.root, tree.members)
        )
        key = (tree.root, stat.started)
        before, self._before[key] = self._before.get(key) or self._at_first(tree, table), now
        cpu, read, written = _rates(before, now)
        return ProcessSample(
            pid=tree.root,
            command=described.command or stat.command,
            user=described.user,
            container=described.container,
            owner=tree.owner,
            started=None if self._booted is None else self._booted + stat.started / _TICKS,
            cpu=cpu,
            memory=sum(table[pid].rss for pid in tree.members),
            disk_read=read,
            disk_written=written,
            processes=len(tree.members),
        )

    def _disks(self, root: int, members: Iterable[int]) -> tuple[int, int] | None:
        """What the disks gave and took; None where the process itself may not be asked: another user's."""
        first = _read_io(self._root, root)
        if first is None:
            return None
        others = [_read_io(self._root, pid) or (0, 0) for pid in members if pid != root]
        return first[0] + sum(each[0] for each in others), first[1] + sum(each[1] for each in others)

    def _at_first(self, tree: _Tree, table: Mapping[int, Stat]) -> _Counts | None:
        """What a tree had used when all began, where that was taken down."""
        if self._first is None:
            return None
        at, ticks = self._first
        found = [ticks[pid] for pid in tree.members if ticks.get(pid, (0, 0))[0] == table[pid].started]
        return _Counts(at, sum(used for _, used in found), None) if found else None

    def _describe(self, stat: Stat) -> _Described:
        known = self._described.get(stat.pid)
        if known is None or known.started != stat.started:
            known = self._described[stat.pid] = _describe(self._root, stat)
        return known

    def _forget(self, table: Mapping[int, Stat]) -> None:
        self._described = {pid: each for pid, each in self._described.items() if pid in table}
        self._before = {key: each for key, each in self._before.items() if key[0] in table}
        self._on_cards = {key for key in self._on_cards if key[0] in table}


def _trees(owners: Mapping[int, Owner], on_cards: Iterable[int], table: Mapping[int, Stat]) -> list[_Tree]:
    """One of each runtime, named by its kernel; and one of each process on a card that is not such a kernel."""
    children = children_of(table)
    roots: dict[str, int] = {}
    members: dict[str, set[int]] = {}
    for pid, owner in owners.items():
        if pid in table:
            roots[owner.runtime] = pid
            members.setdefault(owner.runtime, set()).update((pid, *descendants_of(pid, children)))
    whose = {pid: owners[root] for runtime, root in roots.items() for pid in members[runtime]}
    found = [_Tree(root, owners[root], frozenset(members[runtime])) for runtime, root in roots.items()]
    kernels = set(roots.values())
    others = [pid for pid in on_cards if pid not in kernels]
    return [*found, *(_Tree(pid, whose.get(pid), frozenset((pid, *descendants_of(pid, children)))) for pid in others)]


def _rates(before: _Counts | None, now: _Counts) -> tuple[float | None, float | None, float | None]:
    """Percent of a core, and bytes a second; a tree that lost a member to others may have gone back: 0."""
    if before is None or now.at <= before.at:
        return None, None, None
    seconds = now.at - before.at
    cpu = 100.0 * max(0, now.ticks - before.ticks) / _TICKS / seconds
    if before.disks is None or now.disks is None:
        return cpu, None, None
    read, written = (max(0, new - old) / seconds for new, old in zip(now.disks, before.disks, strict=True))
    return cpu, read, written


def _read_io(root: Path, pid: int) -> tuple[int, int] | None:
    text = _read(root, pid, "io")
    if not text:
        return None
    fields = dict(line.split(b": ") for line in text.splitlines())
    return int(fields[b"read_bytes"]), int(fields[b"write_bytes"])


def _describe(root: Path, stat: Stat) -> _Described:
    # It loads much of `machine`, which a machine where nothing runs can do without.
    from ownlab.machine.facts import value_of
    from ownlab.machine.nvidia.processes import read_command, read_user

    folder = root / "proc" / str(stat.pid)
    return _Described(
        started=stat.started,
        command=value_of(read_command(folder, stat.pid)) or "",
        user=value_of(read_user(folder, stat.pid)) or "",
        container=_container(_read(root, stat.pid, "cgroup").decode(errors="replace")),
    )


def _uses_card(root: Path, pid: int) -> bool:
    from ownlab.machine.nvidia.processes import why_other_process

    return why_other_process(root / "proc" / str(pid), pid) is None


def _container(groups: str) -> str:
    """ "docker 3f4a5b6c7d8e", from /proc/PID/cgroup; "" for none, and from inside one, which sees no further."""
    found = ((engine, match.group(1)) for sign, engine in _CONTAINERS if (match := sign.search(groups)))
    engine, name = next(found, ("", ""))
    return f"{engine} {name[:12] if len(name) == 64 else name}" if engine else ""


def _read(root: Path, pid: int, name: str) -> bytes:
    try:
        return (root / "proc" / str(pid) / name).read_bytes()
    except UNSEEN:
        return b""


def _boot_time(root: Path) -> float | None:
    """In seconds since the epoch; None where there is no /proc as Linux has it."""
    try:
        lines = (root / "proc/stat").read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), None)

"""A stress test on four cards: many processes lease, hold and release cards, and are killed at any moment.

    python tests/lab/store/storm.py FOLDER --seconds 600 --seed 7

Whether a card was ever in two hands is not asked of the store. Each holder writes a ledger, under a lock; and it flocks a
file of each of its cards, alone where it has all of it, and hands that lock to the processes that it leaves behind. A card
that is handed on too early is therefore found locked. One process forks all the others, so that fifty start quickly.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ownlab.lab.store.orphans import boot_id
from ownlab.lab.store.rows import CardRequest, Device, Process, QueuePosition, RuntimeRow
from ownlab.lab.store.store import Store
from ownlab.processes.procfs import process_started
from ownlab.units import PARTS

KIND = "Fake card"
DEVICES = [Device(f"GPU-{number}", "nvidia", number, KIND) for number in range(4)]
WANTS = [
    CardRequest(KIND, 1),
    CardRequest(KIND, 1),
    CardRequest(KIND, 2),
    CardRequest(KIND, 4),
    CardRequest(KIND, 1, 6),
    CardRequest(KIND, 1, 4),
    CardRequest(),
]
PR_SET_CHILD_SUBREAPER = 36
ENOUGH = 10  # so many are killed at least, however slow the machine
PATIENCE = 100.0  # nobody waits longer than this: the queue is fair


class Ledger:
    """The claims of all holders, in the order in which they were made."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger"
        self.path.touch()

    @contextlib.contextmanager
    def writing(self) -> Iterator[int]:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def write(self, *entry: object) -> None:
        with self.writing() as descriptor:
            put(descriptor, *entry)

    def verify(self) -> Counter[str]:
        """Replay it; raises at the first card that is in too many hands."""
        held: dict[str, dict[str, int]] = {}
        seen: Counter[str] = Counter()
        for line in self.path.read_text().splitlines():
            what, runtime, cards = json.loads(line)
            seen[what] += 1
            if what == "+":
                held[runtime] = cards
            elif what in ("-", "x"):
                held.pop(runtime, None)
            else:
                raise AssertionError(line)
            booked: Counter[str] = Counter()
            for some in held.values():
                booked.update(some)
            assert all(parts <= PARTS for parts in booked.values()), (line, held)
        assert held == {}, f"held to the end: {held}"
        return seen


def put(descriptor: int, *entry: object) -> None:
    os.write(descriptor, json.dumps(entry).encode() + b"\n")


def lock_card(folder: Path, device: str, parts: int) -> int:
    card = os.open(folder / f"{device}.card", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(card, (fcntl.LOCK_EX if parts == PARTS else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise AssertionError(f"{parts} parts of {device} were handed out while another uses it") from exc
    return card


class Worker:
    """One runtime after another, until the storm is over or it is killed."""

    def __init__(self, folder: Path, number: int, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(f"{seed}-{number}")
        self.ledger = Ledger(folder)
        os.setsid()
        self.me = Process(os.getpid(), process_started(os.getpid()) or 0)
        self.store = Store.open(folder / "store")
        self.store.set_busy_timeout(PATIENCE)  # SQLite lets nobody queue: on a busy machine one of 50 may wait long
        self.number = number

    def work(self) -> None:
        turn = 0
        while not (self.folder / "over").exists():
            self.live(f"w{self.number}-{os.getpid()}-{turn}", self.random.choice(WANTS))
            turn += 1

    def live(self, runtime: str, want: CardRequest) -> None:
        lock = self.store.hold(runtime)
        now = self.random.uniform(-1e9, 1e10)  # a clock that jumps
        rest = (self.me, self.me, None, False, now, None, "", True, 0.0)
        self.store.enqueue(
            RuntimeRow(runtime, os.getuid(), "ann", None, "", "t", "", want, "waiting", now, None, boot_id(), *rest)
        )
        deadline = time.monotonic() + PATIENCE
        while isinstance(leases := self.store.acquire(runtime, DEVICES), QueuePosition):
            assert time.monotonic() < deadline, f"{runtime} waits for ever: {leases}"
            time.sleep(self.random.uniform(0.05, 0.15))
        assert [lease.parts for lease in leases] == [want.parts] * want.cards
        self.ledger.write("+", runtime, {lease.device: lease.parts for lease in leases})
        cards = [lock_card(self.folder, lease.device, lease.parts) for lease in leases]
        time.sleep(self.random.uniform(0.0, 0.03))
        fate = self.random.random()
        if fate < 0.15:
            self.leave_something(runtime, cards)
        if fate < 0.3:
            self.die(runtime)
        self.ledger.write("-", runtime, {})
        for card in cards:
            os.close(card)
        self.store.release(runtime)
        os.close(lock)

    def leave_something(self, runtime: str, cards: list[int]) -> None:
        env = {"PATH": os.environ["PATH"], "OWNLAB_RUNTIME": runtime}
        alone = self.random.random() < 0.5
        quiet = subprocess.DEVNULL
        subprocess.Popen(
            ["sleep", "600"], env=env, pass_fds=cards, start_new_session=alone, stdin=quiet, stdout=quiet, stderr=quiet
        )

    def die(self, runtime: str) -> None:
        with self.ledger.writing() as descriptor:
            put(descriptor, "x", runtime, {})
            os.kill(os.getpid(), signal.SIGKILL)


class Storm:
    """Keeps so many workers going, kills some, and looks at what is left in the end."""

    def __init__(self, folder: Path, workers: int, seconds: float, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.random = random.Random(seed)
        self.ledger = Ledger(folder)
        self.until = time.monotonic() + seconds
        self.over = False
        self.workers: dict[int, int] = {}
        self.started = self.killed = 0
        self.failures: list[str] = []
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what workers leave behind comes to us
        for _ in range(workers):
            self.start()

    def end(self) -> None:
        """Nothing that was started here is left."""
        while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            for pid in map(int, children):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def start(self) -> None:
        self.started += 1
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                Worker(self.folder, self.started, self.seed).work()
                code = 0
            except BaseException as exc:  # noqa: BLE001 - reported to the parent, whatever it is
                (self.folder / f"failure-{os.getpid()}").write_text(f"{type(exc).__name__}: {exc}")
            finally:
                os._exit(code)
        self.workers[pid] = self.started

    def collect(self) -> None:
        """Bury the dead, and start others in their stead."""
        while self.workers and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            known = ended[0] in self.workers
            self.bury(*ended)
            if known and not self.over:
                self.start()

    def bury(self, pid: int, status: int) -> None:
        if self.workers.pop(pid, None) is None:
            return  # left behind by a worker, and ended by the store
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, -signal.SIGKILL):
            failure = self.folder / f"failure-{pid}"
            self.failures.append(failure.read_text() if failure.exists() else f"worker {pid} ended with {code}")

    def kill(self) -> None:
        """One of them, wherever it stands. Nobody writes the ledger between its death and the entry of it."""
        with self.ledger.writing() as descriptor:
            pid = self.random.choice(list(self.workers))
            os.kill(pid, signal.SIGKILL)
            self.bury(*os.waitpid(pid, 0))
            self.killed += 1
            for line in self.ledger.path.read_text().splitlines()[-400:]:
                runtime = json.loads(line)[1]
                if f"-{pid}-" in runtime:
                    put(descriptor, "x", runtime, {})
        self.start()

    def blow(self) -> None:
        while not self.failures and (time.monotonic() < self.until or self.killed < ENOUGH):
            self.collect()
            if self.random.random() < 0.3:
                self.kill()
            time.sleep(0.05)
        self.over = True
        (self.folder / "over").touch()
        deadline = time.monotonic() + PATIENCE
        while self.workers:
            self.collect()
            assert time.monotonic() < deadline, f"{len(self.workers)} workers do not end"
            time.sleep(0.02)

    def look_back(self) -> dict[str, object]:
        seen = self.ledger.verify()
        with Store.open(self.folder / "store") as store:
            store.reap()
            left = [row.id for row in store.runtimes()], store.leases(), os.listdir(self.folder / "store" / "locks")
        for device in DEVICES:
            os.close(lock_card(self.folder, device.uuid, PARTS))  # nobody has it, also not what was left behind
        return {
            "failures": self.failures,
            "left": left,
            "taken": seen["+"],
            "given_back": seen["-"],
            "started": self.started,
            "killed": self.killed,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    storm = Storm(given.folder, given.workers, given.seconds, given.seed)
    try:
        storm.blow()
        sys.stdout.write(json.dumps(storm.look_back()) + "\n")
    finally:
        storm.end()


if __name__ == "__main__":
    main()

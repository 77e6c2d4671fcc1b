"""A user of a store in a process of their own. It reads commands as JSON lines, and is run by path."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from typing import Any

from ownlab.errors import OwnlabError
from ownlab.lab.store.orphans import boot_id
from ownlab.lab.store.rows import CardRequest, Device, Process, QueuePosition, RuntimeRow
from ownlab.lab.store.store import Store
from ownlab.processes.procfs import process_started

PR_SET_DUMPABLE = 4


def become(uid: int, groups: list[int]) -> None:
    """An ordinary user. Everything is imported by now: this interpreter may stand in a folder that they cannot read."""
    os.setgroups(groups)
    os.setgid(uid)
    os.setuid(uid)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as after an exec: /proc shows a process to its own user


class Person:
    def __init__(self, folder: str, name: str) -> None:
        self.store = Store.open(folder)
        self.name = name
        self.held: dict[str, int] = {}
        self.me = Process(os.getpid(), process_started(os.getpid()) or 0)
        self.devices: list[Device] = []

    def look(self, devices: list[dict[str, Any]]) -> None:
        self.devices = [Device(**{**fields, "strangers": tuple(fields["strangers"])}) for fields in devices]

    def come(self, runtime: str, want: list[Any], at: float | None = None) -> None:
        """Take the lock, and a place in the queue."""
        self.held[runtime] = self.store.hold(runtime)
        now = time.time() if at is None else at
        self.store.enqueue(
            RuntimeRow(
                id=runtime,
                uid=os.getuid(),
                person=self.name,
                lab=None,
                notebook=f"/home/{self.name}/{runtime}.ipynb",
                type="ownlab-test",
                label="Python 3 (test)",
                want=CardRequest(*want),
                state="waiting",
                queued_at=now,
                started_at=None,
                boot=boot_id(),
                keeper=self.me,
                supervisor=self.me,
                kernel=None,
                busy=False,
                changed_at=now,
                ends_at=None,
                ends_why="",
                may_extend=True,
                units_per_hour=1.0,
            )
        )

    def acquire(self, runtime: str, quota: float | None = None) -> dict[str, Any]:
        got = self.store.acquire(runtime, self.devices, quota=quota)
        if isinstance(got, QueuePosition):
            return got._asdict()
        return {"devices": [lease.device for lease in got], "parts": [lease.parts for lease in got]}

    def release(self, runtime: str) -> None:
        self.store.release(runtime)
        os.close(self.held.pop(runtime))

    def reap(self) -> list[str]:
        return self.store.reap()

    def runtimes(self) -> list[list[Any]]:
        return [[row.id, row.person, row.uid, self.store.is_alive(row.id)] for row in self.store.runtimes()]

    def use(self, runtime: str, card_seconds: float) -> None:
        self.store.add_usage(runtime, card_seconds, card_seconds, 0.0)

    def leave(self, runtime: str, *, marked: bool, session: bool) -> int:
        """Start a process that outlives us: with the runtime's marker or without, in a session of its own or in ours."""
        env = {"PATH": os.environ["PATH"]} | ({"OWNLAB_RUNTIME": runtime} if marked else {})
        return subprocess.Popen(["sleep", "120"], env=env, cwd="/", start_new_session=session).pid

    def lead(self) -> int:
        """Lead a session, as supervisors do."""
        os.setsid()
        return os.getpid()

    def signal(self, pid: int, number: int) -> None:
        os.kill(pid, number)

    def read(self, path: str) -> str:
        with open(path, encoding="utf-8") as file:
            return file.read()

    def remove(self, path: str) -> None:
        os.unlink(path)

    def link(self, old: str, new: str) -> None:
        os.link(old, new)

    def blame(self, runtime: str, pid: int) -> None:
        """Write into a row that a process is its kernel."""
        self.store.update(runtime, kernel=Process(pid, process_started(pid) or 0))


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main(folder: str, name: str, uid: str, groups: str) -> None:
    os.umask(0o077)  # the strictest there is: nothing may hang on it
    if uid:
        become(int(uid), json.loads(groups))
    try:
        person = Person(folder, name)
    except OwnlabError as exc:
        say({"error": type(exc).__name__, "message": exc.message, "hint": exc.hint})
        return
    say({"answer": person.me.pid})
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"answer": getattr(person, order.pop("do"))(**order)}
        except (OwnlabError, OSError) as exc:
            hint = exc.hint if isinstance(exc, OwnlabError) else ""
            answer = {"error": type(exc).__name__, "message": str(exc), "hint": hint}
        say(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])

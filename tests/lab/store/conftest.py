"""Fixtures: users of a shared store in processes of their own, fake cards, and clean-up."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.store.rows import Device
from ownlab.lab.store.store import Store

KIND = "NVIDIA H200"
PERSON = Path(__file__).with_name("person.py")


class Refused(Exception):
    """The error that the other process raised."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint


class Someone:
    """A process of tests/lab/store/person.py."""

    def __init__(self, folder: Path, name: str, uid: int | None, groups: list[int]) -> None:
        argv = [sys.executable, str(PERSON), str(folder), name, "" if uid is None else str(uid), json.dumps(groups)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.left: list[int] = []
        self.pid: int = self._answer()

    def ask(self, do: str, **values: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **values}).encode() + b"\n")
        self.process.stdin.flush()
        answer = self._answer()
        if do == "leave":
            self.left.append(answer)
        return answer

    def die(self) -> None:
        """At once, without a word."""
        self.process.kill()
        self.process.wait(20)

    def end(self) -> None:
        self.die()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        for pid in self.left:
            with contextlib.suppress(ProcessLookupError):
                if Path(f"/proc/{pid}/comm").exists() and Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                    os.kill(pid, signal.SIGKILL)

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 30)
        assert ready, "no answer for 30 s"
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"], answer["message"], answer["hint"])
        return answer["answer"]


@pytest.fixture(name="refused")
def refused_fixture() -> type[Refused]:
    return Refused


@pytest.fixture
def devices() -> list[Device]:
    return [Device(f"GPU-{number}", "nvidia", number, KIND) for number in range(2)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with Store.open(folder) as opened:
        yield opened


@pytest.fixture
def someone(folder: Path, devices: list[Device]) -> Iterator[Callable[..., Any]]:
    """Start a process that uses the store: `someone("ann")`, or `someone("bob", uid=54322, groups=[100])`."""
    started: list[Someone] = []

    def start(name: str = "ann", *, uid: int | None = None, groups: tuple[int, ...] = (), at: Path = folder) -> Someone:
        process = Someone.__new__(Someone)
        started.append(process)
        process.__init__(at, name, uid, list(groups))  # type: ignore[misc]  # so that it is ended even if it is refused
        process.ask("look", devices=[device._asdict() for device in devices])
        return process

    yield start
    for process in started:
        process.end()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="ownlab-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    def wait(condition: Callable[[], object], seconds: float = 180.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not so after {seconds} s"
            time.sleep(0.01)

    return wait

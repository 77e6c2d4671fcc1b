"""What cells have printed leaves the kernel before the next cell runs."""

from __future__ import annotations

import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ownlab_guest.kernel.output_flush import OutputFlush, wait_until_asleep

PATIENCE = 90.0
# Begins, computes for a while without a pause, ends, and sleeps.
WORK = """
import os
os.write(1, b"begins ")
sum(range(20_000_000))
os.write(1, b"ends")
os.read(0, 1)
"""


def test_it_waits_until_a_thread_has_nothing_to_do() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", WORK], stdin=pipe, stdout=pipe, bufsize=0) as worker:
        assert worker.stdout is not None
        assert worker.stdout.read(7) == b"begins "
        state = f"/proc/{worker.pid}/stat"
        assert wait_until_asleep([state], time.monotonic() + PATIENCE)
        assert select.select([worker.stdout], [], [], 0)[0]  # it has ended its work
        assert worker.stdout.read(4) == b"ends"


def test_it_does_not_wait_for_ever(tmp_path: Any) -> None:
    busy = tmp_path / "stat"
    busy.write_text("1 (ZMQbg/IO/0) R 0")
    assert not wait_until_asleep([str(busy)], time.monotonic())
    assert wait_until_asleep([str(tmp_path / "gone")], time.monotonic())
    busy.write_text("1 (odd) R name) S 0")
    assert wait_until_asleep([str(busy)], time.monotonic())


class Publisher:
    """As ipykernel's thread: calls what is scheduled, later."""

    def __init__(self) -> None:
        self.scheduled: list[Callable[[], object]] = []
        self.came = threading.Event()

    def schedule(self, function: Callable[[], object]) -> None:
        self.scheduled.append(function)
        self.came.set()


class Kernel:
    """Says what it does, as ipykernel's does."""

    def __init__(self, publisher: Publisher, happened: list[str]) -> None:
        self._publisher, self._happened = publisher, happened

    def _publish_status(self, status: str, channel: str, parent: object = None) -> None:
        self._publisher.schedule(lambda: self._happened.append(f"{status} {channel}"))


def _run_next_cell(flush: OutputFlush, happened: list[str]) -> threading.Thread:
    def run() -> None:
        flush.finish()
        happened.append("the next cell")

    cell = threading.Thread(target=run)
    cell.start()
    return cell


def test_it_waits_for_what_was_published_before() -> None:
    publisher, happened = Publisher(), list[str]()
    flush = OutputFlush(publisher, PATIENCE)
    publisher.schedule(lambda: happened.append("output"))
    publisher.came.clear()
    cell = _run_next_cell(flush, happened)
    assert publisher.came.wait(PATIENCE)
    for function in publisher.scheduled:
        function()
    cell.join(PATIENCE)
    assert happened == ["output", "the next cell"]


def test_it_waits_for_the_end_of_the_cell_before_and_not_for_what_came_later() -> None:
    publisher, happened = Publisher(), list[str]()
    kernel, flush = Kernel(publisher, happened), OutputFlush(publisher, PATIENCE)
    flush.follow(kernel)
    kernel._publish_status("idle", "control")
    assert len(publisher.scheduled) == 1, "a message of the control channel ends no cell"
    kernel._publish_status("idle", "shell")
    until_idle = list(publisher.scheduled)
    kernel._publish_status("busy", "shell", parent=None)
    for function in until_idle:
        function()
    _run_next_cell(flush, happened).join(PATIENCE)
    assert happened == ["idle control", "idle shell", "the next cell"]
    assert len(publisher.scheduled) == len(until_idle) + 1, "nothing more was scheduled"


def test_a_cell_runs_although_nobody_reads_what_was_published() -> None:
    publisher, happened = Publisher(), list[str]()
    flush = OutputFlush(publisher, 0.01)
    flush.begin()
    _run_next_cell(flush, happened).join(PATIENCE)
    assert happened == ["the next cell"]

"""Followers that do not read: a supervisor's memory does not grow with the output, and they miss nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# As a server follows: live, and from disk whenever it was dropped. It prints how often that was, when it has seen the end.
FOLLOWER = """
import asyncio, sys
from pathlib import Path
from ownlab.lab.journal.reader import compacted_to, records_after
from ownlab.lab.runtimes.launch_plan import read_plan
from ownlab.lab.transport.journal_client import Dropped, Hello, JournalClient

folder, position, drops, done = Path(sys.argv[2]), 0, 0, asyncio.Event()

def take(record):
    global position
    assert record.number == position + 1, (record.number, position)
    position = record.number
    if b"THE END" in record.parts[-1] and record.channel == "iopub" and b'"stream"' in record.parts[0]:
        done.set()

def read_to(number):
    global position
    for record in records_after(folder, position):
        if record.number > number:
            break
        # Records that were compacted meanwhile have become fewer ones.
        position = max(position, min(record.number - 1, compacted_to(folder)))
        if record.number > position:
            take(record)
    position = max(position, min(number, compacted_to(folder)))
    assert position == number, (position, number)

def receive(message):
    global position, drops
    if isinstance(message, Hello) and not position:
        position = message.position
        print("follows", flush=True)
    elif isinstance(message, Hello):
        read_to(message.position)
    elif isinstance(message, Dropped):
        drops += 1
        read_to(message.position)
    else:
        take(message)

async def main():
    client = JournalClient(read_plan(sys.argv[1]).journal_endpoint, receive)
    await asyncio.wait_for(done.wait(), 120)
    client.close()
    print(drops, flush=True)

asyncio.run(main())
"""
# Not faster than a disk on a busy machine: what waits for the journal is not what waits for clients.
OUTPUT = "import time\nfor n in range({megabytes}):\n    print(n, 'x' * 1_000_000, flush=True)\n    time.sleep(0.03)\nprint('THE END')"


def resident(pid: int) -> int:
    """The peak of a process's memory in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


@pytest.fixture
def follow(start_program: Callable[..., subprocess.Popen[str]]) -> Callable[[Any], subprocess.Popen[str]]:
    def follow(runtime: Any) -> subprocess.Popen[str]:
        plan = runtime.plan
        return start_program(FOLLOWER, str(Path(plan.home, "plan.json")), plan.journal, first="follows")

    return follow


def test_a_follower_that_hangs_is_dropped_and_rejoins(
    bench: Any, follow: Callable[[Any], subprocess.Popen[str]]
) -> None:
    runtime = bench.start_in_lab(backlog_mb=8)
    own = runtime.follow()
    own.run("1")
    hanging, reading = follow(runtime), follow(runtime)
    os.kill(hanging.pid, signal.SIGSTOP)
    before = resident(runtime.pid("supervisor"))
    own.close()
    own = runtime.follow(["status"])
    own.run(OUTPUT.format(megabytes=150))
    grown = resident(runtime.pid("supervisor")) - before
    os.kill(hanging.pid, signal.SIGCONT)

    assert hanging.stdout is not None
    assert reading.stdout is not None
    assert int(hanging.stdout.readline()) >= 1
    assert reading.stdout.readline() != "", "it has seen everything, too"
    assert hanging.wait(60) == reading.wait(60) == 0
    assert grown < 80, f"{grown} MB for 150 MB of output"


def test_one_record_larger_than_the_backlog_is_sent(bench: Any, follow: Callable[[Any], subprocess.Popen[str]]) -> None:
    runtime = bench.start_in_lab(backlog_mb=4)
    own = runtime.follow(["status"])
    reading = follow(runtime)
    own.run("print('x' * 20_000_000, flush=True)\nprint('THE END')")
    assert reading.stdout is not None
    assert reading.stdout.readline() in ("0\n", "1\n")

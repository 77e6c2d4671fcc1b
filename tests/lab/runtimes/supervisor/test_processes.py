"""What /proc tells of process trees, asked of a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ownlab.lab.runtimes.supervisor.processes import cpu_seconds, descendants, identify, read_stat

# A name that ends its own entry in /proc/PID/stat, for a reader that looks for the first bracket.
TREE = """
import ctypes, os, subprocess, sys, time
ctypes.CDLL(None).prctl(15, b') R 1 (', 0, 0, 0)
child = subprocess.Popen([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.3: pass\\ntime.sleep(600)'])
print(child.pid, flush=True)
try: time.sleep(600)
finally: child.kill()
"""


@pytest.fixture
def tree() -> Iterator[tuple[int, int]]:
    with subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        yield parent.pid, child
        os.kill(child, 9)
        parent.kill()


def test_descendants_and_their_work_are_found(tree: tuple[int, int], waiting: Callable[..., Any]) -> None:
    parent, child = tree
    assert {parent, child} <= set(descendants(os.getpid()))
    assert descendants(parent) == [child]
    waiting(lambda: cpu_seconds(parent) >= 0.29, "it has worked")
    assert cpu_seconds(parent, without=child) == 0


def test_a_process_is_known_by_its_start() -> None:
    own = identify(os.getpid())
    stat = read_stat(os.getpid())
    assert stat is not None
    assert (own.pid, own.started, stat.parent) == (os.getpid(), stat.started, os.getppid())
    assert read_stat(2**22 + 1) is None

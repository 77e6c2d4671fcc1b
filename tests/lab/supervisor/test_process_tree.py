"""Process trees in /proc, with a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ownlab.lab.supervisor.process_tree import cpu_seconds, descendants, identify
from ownlab.processes.procfs import read_stat

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


def test_descendants_and_their_cpu_time(tree: tuple[int, int], waiting: Callable[..., Any]) -> None:
    parent, child = tree
    assert {parent, child} <= set(descendants(os.getpid()))
    assert descendants(parent) == [child]
    waiting(lambda: cpu_seconds(parent) >= 0.29, "it has worked")
    assert cpu_seconds(parent, without=[child]) == 0


def test_a_process_is_identified_by_its_start_time() -> None:
    own = identify(os.getpid())
    stat = read_stat(os.getpid())
    assert stat is not None
    assert (own.pid, own.started, stat.parent) == (os.getpid(), stat.started, os.getppid())
    assert read_stat(2**22 + 1) is None


SPARED = """
import os, subprocess, sys
from ownlab.lab.supervisor.process_tree import end_descendants
spared, other = (subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']) for _ in range(2))
def reap():
    spared.poll(), other.poll()
print(end_descendants(reap, 30.0, spare=[spared.pid]), spared.returncode, other.returncode)
print(end_descendants(reap, 30.0), spared.returncode)
"""


def test_our_own_processes_are_spared_until_the_end() -> None:
    ran = subprocess.run([sys.executable, "-c", SPARED], capture_output=True, text=True, timeout=300, check=True)
    assert ran.stdout == "[] None -9\n[] -9\n"


HIDDEN = """
import ctypes, os, signal
from ownlab.lab.supervisor.process_tree import descendants
os.setgid(54321)
os.setuid(54321)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, as after an exec: /proc shows it to its own user
assert not os.access('/proc/1/stat', os.R_OK)
child = os.fork()
if child == 0:
    signal.pause()
try: print(descendants(os.getpid()) == [child])
finally: os.kill(child, 9)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount /proc again")
def test_our_own_processes_are_found_even_if_others_are_hidden() -> None:
    mounted = ["unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=1 proc /proc && exec "$0" -c "$1"']
    ran = subprocess.run([*mounted, sys.executable, HIDDEN], capture_output=True, text=True, timeout=300, check=False)
    if "unshare:" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"not in this container: {ran.stderr.strip()}")
    assert (ran.stdout, ran.stderr) == ("True\n", "")

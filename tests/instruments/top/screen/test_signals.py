"""Signals to processes: only to one's own, and only to the process that was shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from ownlab.errors import UsageError
from ownlab.instruments.top.records import ProcessSample
from ownlab.instruments.top.screen.signals import refusal_reason, send_signal


def test_ones_own_process_gets_the_signal() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    process = ProcessSample(child.pid)
    assert refusal_reason(process) == ""
    send_signal(process, signal.SIGTERM)
    assert child.wait(10) == -signal.SIGTERM
    with pytest.raises(UsageError, match="has ended"):
        send_signal(process, signal.SIGTERM)


def test_a_reused_pid_gets_no_signal() -> None:
    with pytest.raises(UsageError, match="its number was reused"):
        send_signal(ProcessSample(os.getpid(), started=1.0), signal.SIGTERM)


def test_processes_of_other_namespaces_are_refused() -> None:
    assert "PID namespace" in refusal_reason(ProcessSample(os.getpid(), here=False))
    with pytest.raises(UsageError, match="PID namespace"):
        send_signal(ProcessSample(os.getpid(), here=False), signal.SIGKILL)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start another user's process")
def test_another_users_process_is_refused_even_for_root() -> None:
    child = subprocess.Popen(["sleep", "60"], user=65534)
    try:
        assert "belongs to nobody" in refusal_reason(ProcessSample(child.pid, user="nobody"))
        with pytest.raises(UsageError, match="only your own"):
            send_signal(ProcessSample(child.pid, user="nobody"), signal.SIGKILL)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()

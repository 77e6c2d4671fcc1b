"""For all tests: signals as a terminal leaves them, a driver that is not there, and patience."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from tests.command_line import machines, ownlab, running_lab, valid, world
from tests.quick_tests import (
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_logfinish,
    pytest_runtest_logstart,
)

__all__ = [  # fixtures of the command line and hooks, for all tests
    "machines",
    "ownlab",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_logfinish",
    "pytest_runtest_logstart",
    "running_lab",
    "valid",
    "world",
]

# By default Hypothesis fails an example that takes 0.2 s: on a busy machine that says nothing about what is tested.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")

FAKES = Path(__file__).resolve().parent / "fakes"

# A shell starts what runs in the background with these ignored, and children inherit that: none of ours could be interrupted.
for _signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, signal.default_int_handler if _signal == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture
def until() -> Callable[..., Any]:
    """Waits for a condition to be true, and returns what it was; fails after a while."""

    def wait(condition: Callable[[], Any], seconds: float = 180.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (met := condition()):
            assert time.monotonic() < deadline, f"not in {seconds} s: {condition}"
            time.sleep(0.02)
        return met

    return wait


@pytest.fixture
def fake_nvml(tmp_path: Path) -> Callable[[dict[str, Any]], dict[str, str]]:
    """The environment in which a child finds our stand-in of pynvml, which follows the given plan."""

    def environment(plan: dict[str, Any]) -> dict[str, str]:
        path = tmp_path / "nvml.json"
        part = tmp_path / "nvml.json.part"
        part.write_text(json.dumps(plan))
        part.replace(path)  # the stand-in may read it at any time
        return {**os.environ, "PYTHONPATH": str(FAKES), "OWNLAB_FAKE_NVML": str(path)}

    return environment

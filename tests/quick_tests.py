"""Which tests `make quick` leaves out: those that start processes, and a few that take long.

They get the marker `not_quick`, and `pytest -m "not not_quick"` runs the others. In such a run a test that starts a process
fails, so that the lists below stay complete.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent

# Fixtures that start processes.
FIXTURES = frozenset({"cluster", "fake_nvml", "kernel", "ownlab", "running_lab", "torch_python", "world"})

# Files and folders with tests that start processes in another way.
PATHS = (
    "cli/test_cli.py",
    "cli/test_input_files.py",
    "docs/test_chinese_commands.py",
    "guest/bench/test_run.py",
    "guest/colab",
    "guest/data/test_checking.py",
    "guest/data/test_interruption.py",
    "guest/fit/test_errors.py",
    "guest/probe",
    "guest/test_activation.py",
    "guest/test_files.py",
    "guest/test_kernel.py",
    "guest/test_kernel_language.py",
    "guest/test_output_flush.py",
    "guest/test_packages.py",
    "guest/test_removal.py",
    "guest/test_startup.py",
    "guest/test_text.py",
    "guest/test_variables.py",
    "instruments/bench/test_measurement.py",
    "instruments/cluster/test_cluster_starts.py",
    "instruments/data/archives",
    "instruments/data/download",
    "instruments/data/staging",
    "instruments/data/test_packed_cli.py",
    "instruments/data/test_python.py",
    "instruments/data/test_special_files.py",
    "instruments/doctor/cluster/test_real_cluster.py",
    "instruments/doctor/paste/test_reader.py",  # starts none, but measures the time of long inputs
    "instruments/doctor/test_verification.py",
    "instruments/fit/test_measurement.py",
    "instruments/fit/test_notebook.py",
    "instruments/top/screen/test_app.py",
    "instruments/top/screen/test_pty.py",
    "instruments/top/screen/test_signals.py",
    "instruments/top/test_chart.py",
    "instruments/top/test_cli.py",
    "instruments/top/test_notebook.py",
    "instruments/top/test_nvml_child.py",
    "instruments/top/test_process_sampler.py",
    "instruments/top/test_recording.py",
    "instruments/why/attach/test_running_processes.py",
    "instruments/why/test_cli.py",
    "instruments/why/test_gpu_measurement.py",
    "instruments/why/test_notebook.py",
    "instruments/why/test_planted.py",
    "instruments/why/trials/test_no_trace.py",
    "instruments/why/trials/test_trials.py",
    "instruments/why/trace/test_torch_traces.py",
    "lab/engines/slurm/test_failures.py",
    "lab/environments/test_registry.py",
    "lab/environments/test_uv.py",
    "lab/forms/test_page.py",
    "lab/journal/test_compaction.py",
    "lab/journal/test_damage.py",
    "lab/journal/test_jupyterlab.py",
    "lab/journal/test_reader.py",
    "lab/journal/test_state.py",
    "lab/journal/test_writer.py",
    "lab/relay",
    "lab/runs/test_run.py",
    "lab/runtimes/test_cards.py",
    "lab/runtimes/test_direct_launch.py",
    "lab/runtimes/test_live_usage.py",
    "lab/runtimes/test_node_usage.py",
    "lab/runtimes/test_papermill.py",
    "lab/runtimes/test_provisioner.py",
    "lab/runtimes/test_snapshot.py",
    "lab/runtimes/test_start.py",
    "lab/runtimes/test_without_a_relay.py",
    "lab/secrets/test_store.py",
    "lab/server",
    "lab/service/test_examples_run.py",
    "lab/service/test_labs.py",
    "lab/service/test_watchdog.py",
    "lab/store/test_damage.py",
    "lab/store/test_errors.py",
    "lab/store/test_locks.py",
    "lab/store/test_orphans.py",
    "lab/store/test_shared.py",
    "lab/store/test_store.py",
    "lab/store/test_storm.py",
    "lab/supervisor",
    "lab/transport/test_control.py",
    "lab/transport/test_endpoints.py",
    "lab/transport/test_tcp_gate.py",
    "machine/host/test_kernel.py",
    "machine/host/test_macos_windows.py",
    "machine/host/test_reader.py",
    "machine/nvidia/test_fake_pynvml.py",
    "machine/test_interpreter.py",
    "machine/test_reader.py",
    "machine/test_toolkits.py",
    "machine/vendors/test_ascend.py",
    "processes/test_runner.py",
    "questions/test_questions.py",
    "test_architecture.py",
    "test_chinese_outputs.py",
    "test_distributions.py",
    "test_guest_client.py",
    "test_languages.py",
    "test_notebook_on_end.py",
    "test_paste.py",
    "test_pseudo_language.py",
)

# Audit events of Python that precede a new process.
EVENTS = frozenset({"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"})

_running: list[str] = []


class ProcessStarted(Exception):
    """A quick test has tried to start a process."""


def pytest_configure(config: pytest.Config) -> None:
    """Refuse processes if only quick tests run."""
    if config.option.markexpr == "not not_quick":
        sys.addaudithook(_refuse)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that are not quick."""
    for item in items:
        if item.path.is_relative_to(TESTS) and not is_quick(item):
            item.add_marker("not_quick")


def is_quick(item: pytest.Item) -> bool:
    """Return whether a test belongs to `make quick`."""
    if FIXTURES.intersection(getattr(item, "fixturenames", ())):
        return False
    path = item.path.relative_to(TESTS).as_posix()
    return not any(path == entry or path.startswith(f"{entry}/") for entry in PATHS)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Remember the test that runs."""
    _running.append(nodeid)


def pytest_runtest_logfinish(nodeid: str) -> None:
    """Forget the test that has ended."""
    _running.remove(nodeid)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event in EVENTS and _running:
        message = (
            f"{_running[-1]} starts a process ({event}: {arguments[0] if arguments else ''}): "
            f"add its file to PATHS in tests/quick_tests.py"
        )
        raise ProcessStarted(message)

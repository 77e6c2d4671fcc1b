"""A lab under tmp_path: four fake cards, kernelspecs and a store; everything started is ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import kernels_folder
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.kernelspecs import write_specs
from ownlab.lab.runtimes.runtime_types import runtime_types
from ownlab.lab.store.rows import CardRequest, Lease, Process, RuntimeRow
from ownlab.lab.store.store import Store

MACHINES = Path(__file__).resolve().parents[2] / "machines"


@pytest.fixture
def row() -> Callable[..., RuntimeRow]:
    """A runtime's row, like one that is at work; each field can be given."""

    def make(runtime: str, **fields: Any) -> RuntimeRow:
        plain = RuntimeRow(
            id=runtime,
            uid=os.geteuid(),
            person="ann",
            lab=None,
            notebook="train.ipynb",
            type="ownlab-cpu",
            label="Python 3 (CPU)",
            want=CardRequest(),
            state="running",
            queued_at=1_000.0,
            started_at=1_000.0,
            boot="",
            keeper=Process(os.getpid(), 0),
            supervisor=Process(os.getpid(), 0),
            kernel=None,
            busy=False,
            changed_at=1_000.0,
            ends_at=None,
            ends_why="",
            may_extend=False,
            units_per_hour=0.0,
        )
        return plain._replace(**fields)

    return make


class Lab:
    """A lab environment of its own: where things are, and what is there."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder, self.environ = folder, environ
        self.runtimes = folder / "home" / "runtimes"
        self.cpu = "ownlab-cpu"
        self.card = "ownlab-1-nvidia-geforce-gtx-1080-ti"
        self.half = "ownlab-half-nvidia-geforce-gtx-1080-ti"
        self.all = "ownlab-4-nvidia-geforce-gtx-1080-ti"

    def rows(self) -> list[RuntimeRow]:
        with Store.open(self.folder / "store") as store:
            return store.runtimes()

    def leases(self) -> list[Lease]:
        with Store.open(self.folder / "store") as store:
            return store.leases()

    def processes(self) -> list[int]:
        """Every process of a runtime that was started here: all of them have our OWNLAB_HOME, and are marked."""
        mark = f"OWNLAB_HOME={self.environ['OWNLAB_HOME']}".encode()
        pids = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError):
                    variables = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
                    if mark in variables and any(each.startswith(b"OWNLAB_RUNTIME=") for each in variables):
                        pids.append(int(name))
        return pids

    def left(self) -> dict[str, list[Any]]:
        """Return what runtimes left behind, by kind; empty if all have ended cleanly."""
        leftovers: dict[str, list[Any]] = {
            "processes": self.processes(),
            "rows": self.rows(),
            "leases": self.leases(),
            "locks": os.listdir(self.folder / "store" / "locks"),
            "folders": os.listdir(self.runtimes) if self.runtimes.exists() else [],
        }
        return {kind: entries for kind, entries in leftovers.items() if entries}

    def end(self) -> None:
        """Kill what a failed test has left; their keepers first, which would only wait for the rest."""
        deadline = time.monotonic() + 180
        while (pids := self.processes()) and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Four GTX 1080 Ti, as they were recorded; our own environment sees the lab as its children do."""
    runtime_dir = tmp_path / "jupyter"
    runtime_dir.mkdir()
    given = {
        "OWNLAB_HOME": tmp_path / "home",
        "OWNLAB_STORE": tmp_path / "store",
        "OWNLAB_CONFIG": tmp_path / "config.toml",
        "OWNLAB_KERNELS": tmp_path / "share" / "kernels",
        "OWNLAB_MACHINE": MACHINES / "gtx1080ti-x4.json",
        "JUPYTER_PATH": tmp_path / "share",
        "JUPYTER_RUNTIME_DIR": runtime_dir,
        "IPYTHONDIR": tmp_path / "ipython",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    options = resolve_lab_options()
    write_specs(runtime_types(read_devices(), (), options), kernels_folder())
    Store.open(tmp_path / "store").close()
    here = Lab(tmp_path, dict(os.environ))
    try:
        yield here
    finally:
        here.end()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened

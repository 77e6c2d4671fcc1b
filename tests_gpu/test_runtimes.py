"""Runtimes on a real NVIDIA card: they see exactly what they hold, and their memory is what NVML says of it.

Plain functions without fixtures. Needs jupyter_client, ipykernel, pyzmq, msgspec and psutil beside torch; our
provisioner need not be installed: an entry point is written beside the kernelspecs.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from ownlab.config.loader import resolve_lab_options
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.kernelspecs import write_specs
from ownlab.lab.runtimes.live_usage import LiveUsage, UsageSampler
from ownlab.lab.runtimes.records import RuntimeType, Snapshot
from ownlab.lab.runtimes.runtime_types import runtime_types
from ownlab.lab.runtimes.snapshot import take_snapshot
from ownlab.lab.store.store import Store

SECONDS = 120.0
GIB = 1024**3
SEES = """
import torch
print(torch.cuda.device_count(), *("GPU-" + str(torch.cuda.get_device_properties(number).uuid)
                                   for number in range(torch.cuda.device_count())))
"""
FILLS = """
import torch
held = torch.ones(2 * 1024**3, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held")
"""


class Lab:
    """Everything under one folder, with the machine's own cards."""

    def __init__(self, folder: Path) -> None:
        self.devices = read_devices()
        assert self.devices, "there is no card"
        self.types = runtime_types(self.devices, (), resolve_lab_options())
        write_specs(self.types, Path(os.environ["OWNLAB_KERNELS"]))
        self.store = Store.open(folder / "store")

    def type_of(self, cards: int, parts: int) -> RuntimeType:
        return next(each for each in self.types if (each.cards, each.parts) == (cards, parts))

    @contextlib.contextmanager
    def kernel(self, kind: RuntimeType) -> Iterator[tuple[str, BlockingKernelClient]]:
        manager = KernelManager(kernel_name=kind.name)
        manager.start_kernel()
        client = manager.client()
        try:
            client.start_channels()
            client.wait_for_ready(timeout=SECONDS)
            yield str(manager.kernel_id), client
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)

    def sample(self, meter: UsageSampler) -> LiveUsage:
        """Once the child that asks NVML has answered."""
        usage: LiveUsage = wait_for(lambda: (now := meter.sample(self.store.runtimes(), self.devices)).cards and now)
        return usage

    def snapshot(self, figures: LiveUsage) -> Snapshot:
        return take_snapshot(self.store, read_devices(), resolve_lab_options(), self.types, figures)


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (met := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return met


@contextlib.contextmanager
def laboratory() -> Iterator[Lab]:
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="ownlab-") as name:
        folder = Path(name)
        for path in ("jupyter", "site/ownlab_provisioner-0.dist-info"):
            (folder / path).mkdir(parents=True)
        info = folder / "site" / "ownlab_provisioner-0.dist-info"
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ownlab-provisioner\nVersion: 0\n")
        (info / "entry_points.txt").write_text(
            "[jupyter_client.kernel_provisioners]\n"
            "ownlab-provisioner = ownlab.lab.runtimes.provisioner:OwnlabProvisioner\n"
        )
        sys.path.insert(0, str(folder / "site"))
        os.environ.update(
            OWNLAB_HOME=str(folder / "home"),
            OWNLAB_STORE=str(folder / "store"),
            OWNLAB_CONFIG=str(folder / "config.toml"),
            OWNLAB_KERNELS=str(folder / "share" / "kernels"),
            JUPYTER_PATH=str(folder / "share"),
            JUPYTER_RUNTIME_DIR=str(folder / "jupyter"),
            IPYTHONDIR=str(folder / "ipython"),
        )
        os.environ.pop("OWNLAB_MACHINE", None)
        lab = Lab(folder)
        try:
            yield lab
            assert lab.store.runtimes() == []
            assert lab.store.leases() == []
        finally:
            lab.store.close()
            sys.path.remove(str(folder / "site"))
            os.environ.clear()
            os.environ.update(before)


def execute(client: BlockingKernelClient, code: str) -> str:
    printed: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
            printed.append(message["content"]["text"])

    reply = client.execute_interactive(code, timeout=SECONDS, output_hook=hear, allow_stdin=False)
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(printed).strip()


def nvml_memory_of(pid: int) -> int | None:
    """Return the memory of a process in bytes according to nvidia-smi; None if it does not list this pid."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    listed = subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout
    rows = [line.split(", ") for line in listed.splitlines()]
    return next((int(used) * 1024**2 for number, used in rows if int(number) == pid), None)


def test_a_runtime_sees_exactly_its_card() -> None:
    with laboratory() as lab, lab.kernel(lab.type_of(1, 12)) as (runtime, client):
        (lease,) = lab.store.leases()
        assert lease.runtime == runtime
        assert execute(client, SEES) == f"1 {lease.device}"


def test_a_cpu_runtime_sees_none() -> None:
    with laboratory() as lab, lab.kernel(lab.type_of(0, 12)) as (_, client):
        assert execute(client, SEES) == "0"
        assert lab.store.leases() == []


def test_memory_of_a_runtime_is_what_nvml_says() -> None:
    with (
        laboratory() as lab,
        lab.kernel(lab.type_of(1, 12)) as (runtime, client),
        contextlib.closing(UsageSampler()) as meter,
    ):
        (lease,) = lab.store.leases()
        assert execute(client, FILLS) == "held"
        pid = int(execute(client, "import os; print(os.getpid())"))
        expected = nvml_memory_of(pid)
        figures = lab.sample(meter)
        assert expected is not None, "NVML counts in the numbers of another PID namespace here"
        used = figures.vram[runtime, lease.device]
        assert used > 2 * GIB
        assert abs(used - expected) <= 0.01 * expected, (used, expected)
        (seen,) = lab.snapshot(figures).runtimes
        assert seen.vram == used
        assert seen.ram is not None
        assert seen.ram > 100 * 1024**2


def test_our_own_processes_are_no_strangers() -> None:
    with laboratory() as lab, lab.kernel(lab.type_of(1, 12)) as (_, client):
        assert execute(client, FILLS) == "held"
        (lease,) = lab.store.leases()
        assert [device.strangers for device in read_devices() if device.uuid == lease.device] == [()]


def test_two_halves_share_one_card() -> None:
    with laboratory() as lab:
        half = lab.type_of(1, 6)
        with lab.kernel(half) as (_, first), lab.kernel(half) as (_, second):
            first_lease, second_lease = lab.store.leases()
            assert first_lease.device == second_lease.device
            assert execute(first, SEES) == execute(second, SEES) == f"1 {first_lease.device}"
            assert execute(first, FILLS) == execute(second, FILLS) == "held"
            with contextlib.closing(UsageSampler()) as meter:
                card = next(each for each in lab.snapshot(lab.sample(meter)).cards if each.uuid == first_lease.device)
            assert (card.free_parts, len(card.holders)) == (0, 2)
            assert card.memory_used is not None
            assert card.memory_used > 4 * GIB

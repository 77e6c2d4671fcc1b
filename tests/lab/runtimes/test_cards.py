"""Which cards can be leased, and who uses them without a lease."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.runtimes.cards import KnownRuntimes, descends_from, probe_argv, read_devices, read_known_runtimes
from ownlab.lab.store.rows import CardRequest, Device, Process, RuntimeRow
from ownlab.lab.store.store import Store
from ownlab.machine.facts import Known
from ownlab.machine.machine_file import save_machine
from ownlab.machine.records import Card, Machine, MigInstance
from ownlab.units import GIB

MACHINES = Path(__file__).resolve().parents[2] / "machines"
H200 = "GPU-00000000-1111-2222-3333-444444444444"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses_v3"
KEEPER = Process(100, 77)
NOBODY = KnownRuntimes()

Nvml = Callable[[dict[str, Any]], dict[str, str]]
Read = Callable[..., tuple[Device, ...]]


def memory(used: int) -> dict[str, Any]:
    return {"nvmlDeviceGetMemoryInfo": {"total": 140 * GIB, "reserved": GIB // 2, "used": used}}


def busy(*processes: tuple[int, int], kind: str = COMPUTE) -> dict[str, Any]:
    listed = [{"pid": pid, "usedGpuMemory": size} for pid, size in processes]
    return {kind: listed, **memory(sum(size for _, size in processes))}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with NVIDIA's driver, and processes of our making."""
    made = tmp_path / "root"
    (made / "proc/driver/nvidia").mkdir(parents=True)
    return made


def add_process(root: Path, pid: int, command: str, parent: int = 1, started: int = 5) -> None:
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "fd" / "7").symlink_to("/dev/nvidia0")
    (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
    fields = ["S", str(parent), *["0"] * 17, str(started), "0", "0"]
    (folder / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}\n")


@pytest.fixture
def read(fake_nvml: Nvml, root: Path) -> Read:
    """The NVIDIA devices, as a driver with these cards tells."""

    def devices(*cards: dict[str, Any], known: KnownRuntimes = NOBODY, **environ: str) -> tuple[Device, ...]:
        given = fake_nvml({"cards": list(cards)})
        given = {name: value for name, value in given.items() if name not in ("OWNLAB_MACHINE", "CUDA_VISIBLE_DEVICES")}
        devices = read_devices({**given, **environ}, known=known, root=root)
        return tuple(device for device in devices if device.vendor == "nvidia")

    return devices


# --- recorded machines ------------------------------------------------------------------------------------------------


def test_cards_of_a_recorded_machine_can_be_leased() -> None:
    environ = {"OWNLAB_MACHINE": str(MACHINES / "gtx1080ti-x4.json")}
    devices = read_devices(environ)
    assert [device.uuid for device in devices] == ["0", "1", "2", "3"], "without a UUID, what CUDA takes: the number"
    assert {device.name for device in devices} == {"NVIDIA GeForce GTX 1080 Ti"}
    assert probe_argv(environ) is None, "its cards never change"


def test_a_recorded_card_keeps_its_uuid_and_memory() -> None:
    (device,) = read_devices({"OWNLAB_MACHINE": str(MACHINES / "h200.json")})
    assert device == Device(H200, "nvidia", 0, "NVIDIA H200", 150754820096)


def recorded(path: Path, *cards: Card) -> dict[str, str]:
    save_machine(Machine(cards=Known(cards, source="test")), path / "machine.json")
    return {"OWNLAB_MACHINE": str(path / "machine.json")}


def card(index: int = 0, vendor: str = "nvidia", **facts: Any) -> Card:
    known = {name: Known(value, source="test") for name, value in {"name": "A card", **facts}.items()}
    return Card(vendor, index, **known)  # type: ignore[arg-type]


def test_unusable_cards_are_not_leased(tmp_path: Path) -> None:
    environ = recorded(
        tmp_path,
        Card("intel", 0, name=Known("Graphics", source="test"), integrated=True),
        card(vendor="apple"),
        card(0, health="GPU is lost"),
        card(1, compute_mode="prohibited"),
        card(2, mig=True, mig_instances=()),
        card(3, health="OK"),
        card(4, compute_mode="exclusive-process"),
        card(5, vendor="huawei", health="Warning"),
    )
    lent = [(device.vendor, device.number, device.whole_only) for device in read_devices(environ)]
    assert lent == [("nvidia", 3, False), ("nvidia", 4, True), ("huawei", 5, False)]


def test_mig_instances_of_a_record_are_devices(tmp_path: Path) -> None:
    instance = MigInstance("MIG-1", profile=Known("1g.18gb", source="test"), memory_total=Known(18, source="test"))
    environ = recorded(tmp_path, card(mig=True, mig_instances=(instance, MigInstance("MIG-2"))))
    assert read_devices(environ) == (
        Device("MIG-1", "nvidia", 0, "1g.18gb of A card", 18, whole_only=True),
        Device("MIG-2", "nvidia", 0, "MIG instance of A card", None, whole_only=True),
    )


@pytest.mark.parametrize(
    ("visible", "lent"),
    [("1,3", [1, 3]), ("", []), ("3", [3]), (None, [0, 1, 2, 3])],
)
def test_hidden_cards_are_not_leased(visible: str | None, lent: list[int]) -> None:
    environ = {"OWNLAB_MACHINE": str(MACHINES / "gtx1080ti-x4.json")}
    if visible is not None:
        environ["CUDA_VISIBLE_DEVICES"] = visible
    assert [device.number for device in read_devices(environ)] == lent
    inside = {**environ, "OWNLAB_RUNTIME": "x"}  # the variable is our own doing there
    assert len(read_devices(inside)) == 4


def test_a_mig_instance_assigned_to_us_is_the_only_device(tmp_path: Path) -> None:
    environ = recorded(tmp_path, card(mig=True, mig_instances=(MigInstance("MIG-1"), MigInstance("MIG-2"))))
    devices = read_devices({**environ, "CUDA_VISIBLE_DEVICES": "MIG-2"})
    assert [device.uuid for device in devices] == ["MIG-2"]


# --- live cards -------------------------------------------------------------------------------------------------------


def test_a_live_card_that_nobody_uses(read: Read) -> None:
    assert read({}) == (Device(H200, "nvidia", 0, "NVIDIA H200", 150754820096),)


def test_a_stranger_is_described_by_user_and_memory_without_its_options(read: Read, root: Path) -> None:
    add_process(root, 4711, "/usr/bin/python3 train.py --token=secret")
    (device,) = read(busy((4711, 12 * GIB)))
    assert device.strangers == (f"python3 train.py (pid 4711) of {getpass.getuser()}, 12 GiB",)


def test_processes_of_runtimes_are_not_strangers(read: Read, root: Path) -> None:
    add_process(root, KEEPER.pid, "keeper", started=KEEPER.started)
    add_process(root, 200, "supervisor", parent=KEEPER.pid)
    add_process(root, 300, "python kernel", parent=200)
    (device,) = read(busy((300, 12 * GIB)), known=KnownRuntimes(frozenset([KEEPER])))
    assert device.strangers == ()
    (device,) = read(busy((300, 12 * GIB)), known=KnownRuntimes(frozenset([KEEPER._replace(started=78)])))
    assert len(device.strangers) == 1, "the keeper's number is another process's now"


def test_graphics_processes_are_not_strangers(read: Read, root: Path) -> None:
    add_process(root, 50, "/usr/lib/xorg/Xorg")
    add_process(root, 51, "/usr/bin/nvidia-cuda-mps-server")
    (device,) = read({**busy((51, GIB // 8)), **busy((50, 9 * GIB), kind=GRAPHICS)})
    assert device.strangers == ()


def test_memory_that_no_visible_process_accounts_for(read: Read) -> None:
    words = "12 GiB used by processes that are not visible here"
    assert read(memory(12 * GIB))[0].strangers == (words,)
    assert read(busy((4711, 12 * GIB)))[0].strangers == (words,), "NVML counts in another PID namespace"
    assert read(memory(12 * GIB), known=KnownRuntimes(leased=frozenset([H200])))[0].strangers == ()
    assert read(memory(GIB))[0].strangers == (), "what a driver holds for itself"


def test_a_process_with_unknown_memory_may_use_the_rest(read: Read, root: Path) -> None:
    add_process(root, 4711, "python3 train.py")
    (device,) = read({COMPUTE: [{"pid": 4711, "usedGpuMemory": None}], **memory(12 * GIB)})
    assert device.strangers == (f"python3 train.py (pid 4711) of {getpass.getuser()}",)


def test_each_mig_instance_has_its_own_strangers(read: Read, root: Path) -> None:
    add_process(root, 4711, "python3 train.py")
    name = {"nvmlDeviceGetName": "NVIDIA H200 MIG 1g.18gb"}
    slices = [
        {**name, "nvmlDeviceGetUUID": "MIG-1", **busy((4711, GIB))},
        {**name, "nvmlDeviceGetUUID": "MIG-2"},
    ]
    devices = read({"nvmlDeviceGetMigMode": [1, 1], "mig": slices, **busy((4711, GIB))})
    assert [(device.uuid, device.name, device.whole_only) for device in devices] == [
        ("MIG-1", "1g.18gb of NVIDIA H200", True),
        ("MIG-2", "1g.18gb of NVIDIA H200", True),
    ]
    assert [len(device.strangers) for device in devices] == [1, 0]


def test_a_lost_card_does_not_affect_the_others(read: Read) -> None:
    assert [device.number for device in read({"handle": 15}, {"errors": {"nvmlDeviceGetUUID": 15}}, {})] == [2]


@pytest.mark.parametrize("init", [18, "crash"])
def test_nvidia_smi_is_used_if_nvml_fails(fake_nvml: Nvml, root: Path, tmp_path: Path, init: Any) -> None:
    tool, xml = tmp_path / "bin" / "nvidia-smi", MACHINES.parent / "machine/nvidia/data/h200.xml"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\nexec /bin/cat {xml}\n")
    tool.chmod(0o755)
    environ = {**fake_nvml({"init": init, "cards": []}), "PATH": f"{tool.parent}:/bin"}
    environ.pop("OWNLAB_MACHINE", None)
    (device,) = read_devices(environ, known=KnownRuntimes(), root=root)
    assert device.name == "NVIDIA H200"


# --- processes and the store, for real --------------------------------------------------------------------------------


def started(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_grandchild_descends_from_us_and_not_vice_versa() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import os; print(os.getpid()); input()'])"
    me = Process(os.getpid(), started(os.getpid()))
    with subprocess.Popen(
        [sys.executable, "-u", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        assert descends_from(grandchild, {me})
        assert descends_from(os.getpid(), {me})
        assert not descends_from(os.getpid(), {Process(grandchild, started(grandchild))})
        child.communicate("\n")
    assert not descends_from(grandchild, {me}), "it has ended"


def test_known_runtimes_are_read_from_the_store(
    tmp_path: Path, row: Callable[..., RuntimeRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWNLAB_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OWNLAB_CONFIG", str(tmp_path / "none.toml"))
    assert read_known_runtimes() == KnownRuntimes(), "there is no store yet"
    assert not (tmp_path / "store").exists()
    device = Device(H200, "nvidia", 0, "NVIDIA H200")
    with Store.open(tmp_path / "store") as store:
        lock = store.hold("r1")
        store.enqueue(row("r1", want=CardRequest("NVIDIA H200", 1), keeper=KEEPER, state="waiting"))
        store.acquire("r1", [device])
        os.close(lock)
    assert read_known_runtimes() == KnownRuntimes(frozenset([KEEPER]), frozenset([H200]))
    assert read_known_runtimes({}, store=str(tmp_path / "store")) == read_known_runtimes()


def test_the_probe_prints_devices_as_a_supervisor_reads_them(fake_nvml: Nvml, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").touch(0o755)  # a sign of a driver: so NVML is asked
    plan = {"cards": [{"nvmlDeviceGetUtilizationRates": {"gpu": 42, "memory": 0}}, {"nvmlDeviceGetUUID": "GPU-2"}]}
    environ = {**fake_nvml(plan), "OWNLAB_CONFIG": str(tmp_path / "none.toml"), "OWNLAB_STORE": str(tmp_path / "store")}
    environ.pop("OWNLAB_MACHINE", None)
    environ["CUDA_VISIBLE_DEVICES"] = "0"
    command = probe_argv(environ, store=str(tmp_path / "store"))
    assert command is not None
    # As a supervisor has it: the runtime's own variables are set, and say nothing of what may be leased.
    environ |= {"CUDA_VISIBLE_DEVICES": "", "OWNLAB_RUNTIME": "r1", "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, cwd="/")
    (card,) = [each for each in json.loads(ran.stdout) if each["vendor"] == "nvidia"]
    assert (card.pop("utilisation"), card["uuid"]) == (42, H200)
    assert Device(**{**card, "strangers": tuple(card["strangers"])}).name == "NVIDIA H200"


def test_a_probe_works_without_the_database_of_its_store(tmp_path: Path) -> None:
    """The locks of runtimes say which processes have a lease."""
    (tmp_path / "store" / "db").mkdir(parents=True)
    (tmp_path / "store" / "db" / "ownlab.db").write_text("this is no database at all" * 100)
    command = [sys.executable, "-m", "ownlab.lab.runtimes.cards", "--store", str(tmp_path / "store")]
    environ = {name: value for name, value in os.environ.items() if name != "OWNLAB_MACHINE"}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert isinstance(json.loads(ran.stdout), list)
    assert ran.stderr == ""

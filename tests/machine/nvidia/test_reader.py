"""read_nvidia() with drivers that work, fail, hang and crash; the child processes are real, the driver is a fake."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.nvidia import nvidia_smi
from ownlab.machine.nvidia.reader import read_nvidia
from ownlab.machine.records import Card, CardProcess

FakeNvml = Callable[[dict[str, Any]], dict[str, str]]
FakeSmi = Callable[[str], None]


def read_cards(root: Path, env: dict[str, str]) -> tuple[Card, ...]:
    _, cards = read_nvidia(root, env=env)
    assert cards is not None
    return cards


def test_without_a_sign_of_nvidia_nothing_runs_and_there_are_no_cards(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    env = fake_nvml({"init": "hang"})
    nvidia, cards = read_nvidia(tmp_path / "empty", env=env, deadline=60)
    assert cards == ()
    assert nvidia.nvml == Unknown("no sign of an NVIDIA card or driver")


def test_nvml_answers_everything_and_nvidia_smi_is_not_started(
    driver_root: Path, tmp_path: Path, fake_nvml: FakeNvml, fake_smi: FakeSmi
) -> None:
    fake_smi(f"touch {tmp_path}/started")
    nvidia, cards = read_nvidia(driver_root, env=fake_nvml({"cards": [{}]}))
    assert nvidia.driver == Known("580.159.04", source="NVML")
    assert nvidia.cuda == Known("13.0", source="NVML")
    assert nvidia.nvml == Known("13.580.159.04", source="NVML")
    assert nvidia.smi == Unknown("not needed: NVML answered")
    assert value_of(nvidia.module_flavour) == "open"
    assert not (tmp_path / "started").exists()
    assert cards is not None
    assert len(cards) == 1
    assert cards[0].compute_capability == Known("9.0", source="NVML")
    assert cards[0].memory_total == Known(150754820096, source="NVML", unit="B")
    assert cards[0].health == Known("OK", source="NVML")


def test_nvml_and_nvidia_smi_agree_on_the_h200(driver_root: Path, fake_nvml: FakeNvml, h200_xml: str) -> None:
    (by_nvml,) = read_cards(driver_root, fake_nvml({"cards": [{}]}))
    _, (by_smi,) = nvidia_smi.parse(h200_xml)
    known_to_one_only = {"compute_capability", "fabric"}
    for field in set(Card.__struct_fields__) - known_to_one_only:
        nvml_fact, smi_fact = getattr(by_nvml, field), getattr(by_smi, field)
        if isinstance(nvml_fact, (Known, Unknown)):
            assert value_of(nvml_fact) == value_of(smi_fact), field
        elif field in ("clocks", "pcie", "ecc"):
            for part in nvml_fact.__struct_fields__:
                assert value_of(getattr(nvml_fact, part)) == value_of(getattr(smi_fact, part)), f"{field}.{part}"


def test_one_card_of_three_is_lost(driver_root: Path, fake_nvml: FakeNvml) -> None:
    cards = read_cards(driver_root, fake_nvml({"cards": [{}, {"handle": 15}, {}]}))
    assert [value_of(card.health) for card in cards] == ["OK", "GPU is lost", "OK"]
    assert [card.index for card in cards] == [0, 1, 2]
    assert isinstance(cards[1].name, Unknown)


def test_a_card_that_is_lost_after_its_handle_was_opened(driver_root: Path, fake_nvml: FakeNvml) -> None:
    (card,) = read_cards(driver_root, fake_nvml({"cards": [{"errors": {"nvmlDeviceGetTemperatureV": 16}}]}))
    assert value_of(card.temperature) == 38  # the older function still answers
    broken = {"nvmlDeviceGetTemperatureV": 16, "nvmlDeviceGetTemperature": 16}
    (card,) = read_cards(driver_root, fake_nvml({"cards": [{"errors": broken}]}))
    assert card.health == Known("GPU requires restart", source="NVML")
    assert card.temperature == Unknown("NVML: GPU requires restart")


def test_a_failed_fact_does_not_affect_the_others(driver_root: Path, fake_nvml: FakeNvml) -> None:
    errors = {"nvmlDeviceGetUtilizationRates": 3, "nvmlDeviceGetPowerUsage": 4, "nvmlDeviceGetEccMode": 3}
    (card,) = read_cards(driver_root, fake_nvml({"cards": [{"errors": errors}]}))
    assert card.utilisation == Unknown("NVML: Not Supported")
    assert card.power_draw == Unknown("NVML: Insufficient Permissions")
    assert card.ecc.enabled == Unknown("NVML: Not Supported")
    assert card.driver_model == Unknown("NVML: Not Supported")
    assert card.power_limit == Known(700.0, source="NVML", unit="W")
    assert card.health == Known("OK", source="NVML")


def test_an_unknown_error_of_the_memory_query_affects_health(driver_root: Path, fake_nvml: FakeNvml) -> None:
    (card,) = read_cards(driver_root, fake_nvml({"cards": [{"errors": {"nvmlDeviceGetMemoryInfo": 999}}]}))
    assert card.health == Known("Unknown Error", source="NVML")


def test_a_card_that_waits_for_a_reset(driver_root: Path, fake_nvml: FakeNvml) -> None:
    (card,) = read_cards(driver_root, fake_nvml({"cards": [{"nvmlDeviceGetFieldValues": 1}]}))
    assert card.health == Known("recovery action: reset the GPU", source="NVML")


def test_old_driver_without_the_newer_functions(driver_root: Path, fake_nvml: FakeNvml) -> None:
    missing = [
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetRemappedRows",
    ]
    plan = {
        "missing": missing,
        "cards": [
            {
                "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4 | 0x20 | 0x40,
                "nvmlDeviceGetRetiredPagesPendingStatus": 1,
                "nvmlDeviceGetComputeRunningProcesses_v2": [{"pid": 7, "usedGpuMemory": 5}],
            }
        ],
    }
    (card,) = read_cards(driver_root, fake_nvml(plan))
    assert value_of(card.memory_used) == 645922816
    assert value_of(card.throttle_reasons) == ("sw-power-cap", "sw-thermal", "hw-thermal")
    assert value_of(card.ecc.remap_pending) is True
    assert card.ecc.remap_failed == Unknown("NVML: Function Not Found")
    assert value_of(card.power_limit) == 700.0
    assert value_of(card.fabric) == "completed"
    processes = value_of(card.processes)
    assert processes is not None
    assert [process.pid for process in processes] == [7]
    assert value_of(card.health) == "OK"


def test_throttling_ecc_and_pcie_are_read(driver_root: Path, fake_nvml: FakeNvml) -> None:
    plan = {
        "nvmlDeviceGetCurrentClocksEventReasons": 0x8 | 0x80 | 0x200,
        "nvmlDeviceGetTotalEccErrors": [12, 3],
        "nvmlDeviceGetRemappedRows": [1, 0, 1, 0],
        "nvmlDeviceGetCurrPcieLinkWidth": 8,
        "nvmlDeviceGetComputeMode": 3,
        "nvmlDeviceGetGpuFabricInfoV": {"state": 2, "status": 0},
        "nvmlDeviceGetArchitecture": 77,
    }
    (card,) = read_cards(driver_root, fake_nvml({"cards": [plan]}))
    assert value_of(card.throttle_reasons) == ("hw-slowdown", "hw-power-brake", "board-limit")
    assert (value_of(card.ecc.corrected), value_of(card.ecc.uncorrected)) == (12, 3)
    assert (value_of(card.ecc.remap_pending), value_of(card.ecc.remap_failed)) == (True, False)
    assert (value_of(card.pcie.width), value_of(card.pcie.width_max)) == (8, 16)
    assert value_of(card.compute_mode) == "exclusive-process"
    assert value_of(card.fabric) == "in-progress"
    assert isinstance(card.architecture, Unknown)
    assert "77" in card.architecture.reason


def test_mig_instances_in_a_container_without_access_to_the_card(driver_root: Path, fake_nvml: FakeNvml) -> None:
    slices = [
        {
            "nvmlDeviceGetUUID": "MIG-aaaa",
            "nvmlDeviceGetName": "NVIDIA H200 MIG 1g.18gb",
            "nvmlDeviceGetMemoryInfo": {"total": 100, "used": 10, "reserved": 1},
            "nvmlDeviceGetComputeRunningProcesses_v3": [{"pid": 41, "usedGpuMemory": 9}],
        },
        {"nvmlDeviceGetUUID": "MIG-bbbb", "nvmlDeviceGetName": "NVIDIA H200"},
    ]
    denied = {"nvmlDeviceGetMemoryInfo": 4, "nvmlDeviceGetComputeRunningProcesses_v3": 4}
    denied["nvmlDeviceGetComputeRunningProcesses_v2"] = 4
    (card,) = read_cards(
        driver_root, fake_nvml({"cards": [{"nvmlDeviceGetMigMode": [1, 1], "mig": slices, "errors": denied}]})
    )
    assert value_of(card.mig) is True
    assert value_of(card.health) == "OK"
    assert card.memory_total == Unknown("NVML: Insufficient Permissions")
    instances = value_of(card.mig_instances)
    assert instances is not None
    assert [(each.uuid, value_of(each.profile)) for each in instances] == [
        ("MIG-aaaa", "1g.18gb"),
        ("MIG-bbbb", "1g.18gb"),  # of its parts
    ]
    assert value_of(instances[0].memory_used) == 10
    processes = value_of(card.processes)
    assert processes is not None
    assert [process.pid for process in processes] == [41]


def test_processes_have_program_and_user_but_no_options(driver_root: Path, fake_nvml: FakeNvml) -> None:
    proc = driver_root / "proc" / "4711"
    (proc / "fd").mkdir(parents=True)
    (proc / "fd" / "3").symlink_to("/dev/nvidiactl")
    (proc / "cmdline").write_bytes(b"/opt/bin/python3.11\0train.py\0--token\0hf_secret\0")
    plan = {
        "nvmlDeviceGetComputeRunningProcesses_v3": [
            {"pid": 4711, "usedGpuMemory": 1024},
            {"pid": 99, "usedGpuMemory": None},
        ],
        "nvmlDeviceGetGraphicsRunningProcesses_v3": [
            {"pid": 4711, "usedGpuMemory": 1},
            {"pid": 98, "usedGpuMemory": 2**64 - 1},
        ],
    }
    (card,) = read_cards(driver_root, fake_nvml({"cards": [plan]}))
    processes = value_of(card.processes)
    assert processes is not None
    assert [(each.pid, each.kind) for each in processes] == [(4711, "compute"), (99, "compute"), (98, "graphics")]
    assert processes[0].memory == Known(1024, source="NVML", unit="B")
    assert processes[0].command == Known("/opt/bin/python3.11 train.py", source="/proc/4711/cmdline")
    assert value_of(processes[0].user) == proc.owner()
    assert isinstance(processes[1].memory, Unknown)
    assert isinstance(processes[2].memory, Unknown)
    assert processes[1].command == Unknown("process 99 is outside this PID namespace, or has ended")


def test_driver_535_54_uses_the_older_call_for_processes(driver_root: Path, fake_nvml: FakeNvml) -> None:
    nonsense = {"pid": 4294967295, "usedGpuMemory": 17}
    plan = {
        "driver": "535.54.03",
        "cards": [
            {
                "nvmlDeviceGetComputeRunningProcesses_v3": [nonsense],
                "nvmlDeviceGetComputeRunningProcesses_v2": [{"pid": 12, "usedGpuMemory": 17}],
            }
        ],
    }
    (card,) = read_cards(driver_root, fake_nvml(plan))
    (process,) = value_of(card.processes) or ()
    assert isinstance(process, CardProcess)
    assert process.pid == 12


def test_a_mismatch_of_driver_and_library_has_the_messages_of_both_tools(
    driver_root: Path, fake_nvml: FakeNvml, fake_smi: FakeSmi
) -> None:
    fake_smi(
        "echo 'Failed to initialize NVML: Driver/library version mismatch'; echo 'NVML library version: 535.183'; exit 18"
    )
    nvidia, cards = read_nvidia(driver_root, env=fake_nvml({"init": 18}))
    assert cards is None
    assert nvidia.nvml == Unknown("Failed to initialize NVML: Driver/library version mismatch")
    assert nvidia.smi == Unknown(
        "Failed to initialize NVML: Driver/library version mismatch; NVML library version: 535.183"
    )
    assert nvidia.driver == Known("580.159.04", source="/sys/module/nvidia/version")
    assert nvidia.cuda == nvidia.nvml


def test_driver_not_loaded_and_no_nvidia_smi(driver_root: Path, fake_nvml: FakeNvml) -> None:
    nvidia, cards = read_nvidia(driver_root, env=fake_nvml({"init": 9}))
    assert cards is None
    assert nvidia.nvml == Unknown("Failed to initialize NVML: Driver Not Loaded")
    assert nvidia.smi == Unknown("nvidia-smi is not installed, or not on PATH")


def test_bindings_that_cannot_be_imported(driver_root: Path, tmp_path: Path, fake_nvml: FakeNvml) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "pynvml.py").write_text("raise ImportError('no good')")
    nvidia, cards = read_nvidia(driver_root, env={**fake_nvml({}), "PYTHONPATH": str(tmp_path / "broken")})
    assert cards is None
    assert nvidia.nvml == Unknown("nvidia-ml-py cannot be imported: ImportError: no good")


def test_nvidia_smi_runs_when_nvml_hangs(
    driver_root: Path, tmp_path: Path, fake_nvml: FakeNvml, fake_smi: FakeSmi, h200_xml: str
) -> None:
    (tmp_path / "q.xml").write_text(h200_xml)
    fake_smi(f"cat {tmp_path}/q.xml")
    nvidia, cards = read_nvidia(driver_root, env=fake_nvml({"init": "hang"}), deadline=1.0)
    assert nvidia.nvml == Unknown("NVML did not answer in 1 s: the driver hangs, or is very slow to start")
    assert nvidia.smi == Known("580.159.04", source="nvidia-smi -q -x")
    assert nvidia.cuda == Known("13.0", source="nvidia-smi -q -x")
    assert cards is not None
    assert [value_of(card.name) for card in cards] == ["NVIDIA H200"]


def test_both_hang(driver_root: Path, fake_nvml: FakeNvml, fake_smi: FakeSmi) -> None:
    fake_smi("exec sleep 600")
    began = time.monotonic()
    nvidia, cards = read_nvidia(driver_root, env=fake_nvml({"cards": [{}, {"handle": "hang"}]}), deadline=1.0)
    assert time.monotonic() - began < 10
    assert cards is None
    assert nvidia.nvml == Unknown("NVML did not answer in 1 s: the driver hangs, or is very slow to start")
    assert nvidia.smi == Unknown("nvidia-smi did not answer in 1 s")


def test_a_driver_that_crashes_its_caller(driver_root: Path, fake_nvml: FakeNvml) -> None:
    nvidia, cards = read_nvidia(driver_root, env=fake_nvml({"init": "crash"}))
    assert cards is None
    assert isinstance(nvidia.nvml, Unknown)
    assert "died of SIGSEGV" in nvidia.nvml.reason


def test_nvidia_smi_that_fails_without_output(driver_root: Path, fake_nvml: FakeNvml, fake_smi: FakeSmi) -> None:
    fake_smi("exit 3")
    nvidia, cards = read_nvidia(driver_root, env=fake_nvml({"init": 999}))
    assert cards is None
    assert nvidia.nvml == Unknown("Failed to initialize NVML: Unknown Error")
    assert nvidia.smi == Unknown("nvidia-smi ended with exit code 3")


def test_libraries_alone_do_not_prove_a_card(tmp_path: Path, fake_nvml: FakeNvml) -> None:
    """An image for GPUs on a machine without one."""
    root = tmp_path / "root"
    for name in ("usr/lib64/libnvidia-ml.so.580.159.04", "sys/bus/pci/devices/0000:00:03.0/vendor", "dev/null"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    nvidia, cards = read_nvidia(root, env=fake_nvml({"init": 9}))
    assert cards == ()
    assert nvidia.nvml == Unknown("Failed to initialize NVML: Driver Not Loaded")


def test_there_is_time_to_initialize_all_cards_in_sequence() -> None:
    assert inspect.signature(read_nvidia).parameters["deadline"].default == 30.0

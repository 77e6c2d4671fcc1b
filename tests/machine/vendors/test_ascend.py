"""Ascend: tables of npu-smi, and trees with a driver, a toolkit and a tool that prints such a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ownlab.machine.facts import NOT_READ, Known, Unknown, value_of
from ownlab.machine.records import CardProcess
from ownlab.machine.vendors.ascend import parse_npu_smi, read_ascend

Plant = Callable[[Mapping[str, str]], Path]

# Tables in the layouts of npu-smi's releases, with made-up numbers. One 910B3 with two processes:
BUSY_910B3 = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc1                 Version: 24.1.rc1                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 101.3       44                0    / 0             |
| 0                         | 0000:81:00.0  | 7           0    / 0          4096 / 65536         |
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 1234          | python3                  | 128                     |
| 0       0                 | 5678          |                          | 64                      |
+===========================+===============+====================================================+
"""
# A 310P card with two chips, whose table of processes has no border of its own (npu-smi 24.1.0.1).
DUO_310P = """\
| npu-smi 24.1.0.1                                 Version: 24.1.0.1                                           |
| NPU     Name              | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)               |
| Chip    Device            | Bus-Id        | AICore(%)   Memory-Usage(MB)                                       |
+===========================+===============+====================================================================+
| 32768   310P3             | Warning       | NA          71                2048 / 2048                          |
| 0       2                 | 0000:41:00.0 | 93          9216 / 44280                                            |
| 32768   310P3             | OK            | NA          55                1024 / 1024                          |
| 1       3                 | 0000:41:00.0 | 4           5120 / 43693                                            |
+===========================+===============+====================================================================+
| NPU     Chip              | Process id    | Process name                      | Process memory(MB)          |
| 32768   0                 | 1234          | python3                           | 1500                        |
| 32768   1                 | 5678          | python3                           | 2500                        |
"""
# A 910A (npu-smi 21), with memory of the host's side and HBM.
OLD_910A = """\
| npu-smi 21.0.4                   Version: 21.0.4                                          |
| NPU   Name           | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                 | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
| 0     910A           | OK            | 68.5        46                8    / 8             |
| 0                    | 0000:81:00.0  | 0           900  / 15170      1    / 32768         |
"""
# A 310B on a developer board: no PCI bus.
BOARD_310B = """\
| npu-smi 23.0.rc3                                 Version: 23.0.rc3                                     |
| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |
| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |
| 0       310B1                 | OK              | 7.7          49                8     / 8             |
| 0       0                     | NA              | 0            2900 / 11577                            |
"""
# A 950 (npu-smi 25.7): number and name in cells of their own, processes by NPU alone.
BUSY_950 = """\
| npu-smi 25.7.rc1                                 Version: 25.7.rc1                              |
| NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |
|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         |
| 0      | Ascend950PR      | OK            | 199.0       51                0     / 0             |
|        |                  | 0000:21:00.0  | 0           0    / 0          4800  / 131072        |
| 1      | Ascend950PR      | OK            | 233.3       60                0     / 0             |
|        |                  | 0000:31:00.0  | 90          0    / 0          6200  / 131072        |
| NPU ID                    | Process id    | Process name             | Process memory(MB)       |
| No running processes found in NPU 0                                                             |
| 1                          | 1234          | python3                  | 512                     |
"""


def test_a_busy_910b() -> None:
    ascend, (card,) = parse_npu_smi(BUSY_910B3, source="pasted npu-smi info")
    source = "pasted npu-smi info"
    assert (value_of(ascend.smi), value_of(ascend.driver), ascend.cann) == ("24.1.rc1", "24.1.rc1", NOT_READ)
    assert (card.vendor, card.index) == ("huawei", 0)
    assert card.name == Known("Ascend 910B3", source=source)
    assert card.bus_id == Known("0000:81:00.0", source=source)
    assert card.memory_used == Known(4096 * 1024**2, source=source, unit="B")
    assert card.memory_total == Known(64 * 1024**3, source=source, unit="B")
    assert card.power_draw == Known(101.3, source=source, unit="W")
    assert card.temperature == Known(44, source=source, unit="°C")
    assert card.utilisation == Known(7, source=source, unit="%")
    assert card.health == Known("OK", source=source)
    first, second = value_of(card.processes) or ()
    memory = Known(128 * 1024**2, source=source, unit="B")
    assert first == CardProcess(1234, "compute", memory=memory, command=Known("python3", source=source))
    assert isinstance(second.command, Unknown)


def test_two_chips_of_a_310p() -> None:
    _, (first, second) = parse_npu_smi(DUO_310P)
    assert (value_of(first.health), value_of(second.health)) == ("Warning", "OK")
    assert (value_of(first.memory_used), value_of(first.memory_total)) == (9216 * 1024**2, 44280 * 1024**2)
    assert (value_of(first.utilisation), value_of(second.utilisation)) == (93, 4)
    assert first.power_draw == Unknown("npu-smi reports 'NA'")
    assert [process.pid for process in value_of(first.processes) or ()] == [1234]
    assert [process.pid for process in value_of(second.processes) or ()] == [5678]


def test_the_memory_of_a_910a_is_its_hbm() -> None:
    _, (card,) = parse_npu_smi(OLD_910A)
    assert (value_of(card.memory_used), value_of(card.memory_total)) == (1024**2, 32768 * 1024**2)
    assert card.processes == Unknown("this text has no table of processes")


def test_a_board_without_a_bus() -> None:
    _, (card,) = parse_npu_smi(BOARD_310B)
    assert (value_of(card.name), value_of(card.memory_total)) == ("Ascend 310B1", 11577 * 1024**2)
    assert card.bus_id == Unknown("npu-smi shows no bus ID")


def test_a_950() -> None:
    _, (first, second) = parse_npu_smi(BUSY_950)
    assert (value_of(first.name), value_of(first.processes)) == ("Ascend 950PR", ())
    assert (value_of(second.utilisation), value_of(second.bus_id)) == (90, "0000:31:00.0")
    assert [process.pid for process in value_of(second.processes) or ()] == [1234]


@pytest.mark.parametrize(
    ("name", "count", "total", "driver"),
    [
        ("310p3x2-23.0.rc3.txt", 2, 21527, "23.0.rc3"),
        ("layout-910b4-idle.txt", 1, 32768, "23.0.6"),
        ("910b4x2-24.1.1-full-memory.txt", 2, 32768, "24.1.1"),
        ("a3-ascend910-24.1rc3.txt", 2, 65536, "24.1.rc3.7"),
        ("a3-ascend910-dual-chip-26.0rc2.txt", 2, 65536, "26.0.rc2"),
    ],
)
def test_recorded_tables(pastes: Path, name: str, count: int, total: int, driver: str) -> None:
    ascend, cards = parse_npu_smi((pastes / "npu_smi" / name).read_text())
    assert value_of(ascend.driver) == driver
    assert [card.index for card in cards] == list(range(count))
    assert {value_of(card.memory_total) for card in cards} == {total * 1024**2}
    assert {value_of(card.health) for card in cards} == {"OK"}
    assert all(isinstance(card.bus_id, Known) for card in cards)


def test_only_the_first_of_two_chips_shows_the_power(pastes: Path) -> None:
    _, (first, second) = parse_npu_smi((pastes / "npu_smi/a3-ascend910-24.1rc3.txt").read_text())
    assert value_of(first.power_draw) == 178.8
    assert second.power_draw == Unknown("npu-smi reports '-'")


def test_a_table_truncated_in_the_middle_of_a_card() -> None:
    _, cards = parse_npu_smi(BUSY_950.partition("|        |                  | 0000:31")[0])
    assert [value_of(card.name) for card in cards] == ["Ascend 950PR", "Ascend 950PR"]
    assert value_of(cards[1].temperature) == 60
    assert cards[1].memory_total == Unknown("npu-smi shows no memory for this chip")


@pytest.mark.parametrize(
    "text", ["", "\0\x01", "|||||", "| a | b | c |", "dcmi module initialize failed. ret is -8005"]
)
def test_text_without_a_table_gives_no_card(text: str) -> None:
    assert parse_npu_smi(text)[1] == ()


def test_rows_of_nvidia_smi_are_not_npus() -> None:
    row = "|   0  Tesla T4                       Off | 00000000:00:04.0 Off |                    0 |\n"
    assert parse_npu_smi(row)[1] == ()


def _with_tool(plant: Plant, script: str, files: Mapping[str, str]) -> Path:
    root = plant({"/usr/local/bin/npu-smi": script, **files})
    (root / "usr/local/bin/npu-smi").chmod(0o755)
    return root


def test_reads_a_machine(plant: Plant) -> None:
    toolkit = "/usr/local/Ascend/ascend-toolkit"
    files = {
        "/dev/davinci0": "",
        "/usr/local/Ascend/driver/version.info": "Version=24.1.rc3\nascendhal_version=7.35.23\n",
        f"{toolkit}/8.1.RC1/aarch64-linux/ascend_toolkit_install.info": "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\n",
        f"{toolkit}/latest": "-> 8.1.RC1",
    }
    root = _with_tool(plant, f"#!/bin/sh\ncat <<'END'\n{BUSY_910B3}END\n", files)
    ascend, (card,) = read_ascend(root, {"PATH": "/usr/bin:/bin"})
    assert ascend.driver == Known("24.1.rc3", source="/usr/local/Ascend/driver/version.info")
    assert ascend.smi == Known("24.1.rc1", source="npu-smi info")
    assert ascend.cann == Known("8.1.RC1", f"{toolkit}/latest/aarch64-linux/ascend_toolkit_install.info")
    assert card.name == Known("Ascend 910B3", source="npu-smi info")


def test_the_toolkit_that_the_environment_names_comes_first(plant: Plant) -> None:
    files = {
        "/opt/cann/version.cfg": "# version: 1.0\nruntime_running_version=[7.6.0.1.220:8.0.0]\ntoolkit_running_version=[7.6.0.1.220:8.0.0]\n",
        "/usr/local/Ascend/ascend-toolkit/latest/version.cfg": "toolkit_running_version=[1.84.15.1.310:6.0.1]\n",
    }
    root = plant(files)
    assert value_of(read_ascend(root, {"ASCEND_TOOLKIT_HOME": "/opt/cann"})[0].cann) == "8.0.0"
    assert value_of(read_ascend(root, {})[0].cann) == "6.0.1"


def test_devices_are_listed_with_the_reason_when_the_tool_fails(plant: Plant) -> None:
    words = "dcmi module initialize failed. ret is -8005"
    root = _with_tool(plant, f"#!/bin/sh\necho '{words}'\nexit 1\n", {"/dev/davinci0": "", "/dev/davinci_manager": ""})
    ascend, (card,) = read_ascend(root, {"PATH": "/usr/bin:/bin"})
    assert ascend.smi == Unknown(f"npu-smi info ended with exit code 1: {words}")
    assert card.health == ascend.smi
    assert card.vendor == "huawei"


def test_devices_without_the_tool(plant: Plant) -> None:
    ascend, cards = read_ascend(plant({"/dev/davinci0": "", "/dev/davinci1": ""}), {})
    assert [card.index for card in cards] == [0, 1]
    assert cards[1].name == ascend.smi == Unknown("npu-smi is not installed")


def test_a_machine_without_ascend(tmp_path: Path) -> None:
    ascend, cards = read_ascend(tmp_path, {})
    assert cards == ()
    assert ascend.driver == Unknown("/usr/local/Ascend/driver/version.info does not exist")

"""nvidia-smi's output in all its forms: table, -q, CSV, -L, XML, dmon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ownlab.instruments.doctor.paste.reader import read_paste
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Machine
from ownlab.units import MIB

Read = Callable[[str], Machine]
CardsOf = Callable[[Machine], tuple[Card, ...]]

WIDE = """\
Sun Nov 15 02:38:37 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H200                    On  |   00000000:00:06.0 Off |                    2 |
| N/A   38C    P0            129W /  700W |   43147MiB / 143771MiB |     97%   E. Process |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GeForce RTX 2080 ...    Off |   00000000:01:00.0 Off |                  Off |
| 38%   33C    P8             N/A /  N/A  |     211MiB /   8192MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A           35577      C   python train.py                       43138MiB |
|    1   N/A  N/A            1720      G   /usr/bin/gnome-shell                    173MiB |
+-----------------------------------------------------------------------------------------+
"""


def test_a_wide_table(read: Read, cards_of: CardsOf) -> None:
    machine = read(WIDE)
    first, second = cards_of(machine)
    assert machine.nvidia.driver == Known("580.159.04", "pasted nvidia-smi")
    assert value_of(machine.nvidia.cuda) == "13.0"
    assert (first.index, value_of(first.name), value_of(first.bus_id)) == (0, "NVIDIA H200", "00000000:00:06.0")
    assert (value_of(first.memory_used), value_of(first.memory_total)) == (43147 * MIB, 143771 * MIB)
    assert (value_of(first.power_draw), value_of(first.power_limit), value_of(first.temperature)) == (129.0, 700.0, 38)
    assert (value_of(first.utilisation), value_of(first.compute_mode)) == (97, "exclusive-process")
    assert (value_of(first.ecc.enabled), value_of(first.ecc.uncorrected)) == (True, 2)
    assert (value_of(first.persistence), value_of(first.mig), value_of(first.health)) == (True, False, "OK")
    assert [(process.pid, process.kind) for process in value_of(first.processes) or ()] == [(35577, "compute")]
    assert [(process.pid, process.kind) for process in value_of(second.processes) or ()] == [(1720, "graphics")]
    assert value_of(second.name) == "NVIDIA GeForce RTX 2080 ..."
    assert (value_of(second.ecc.enabled), value_of(second.persistence)) == (False, False)
    assert isinstance(second.power_draw, Unknown)
    assert isinstance(second.mig, Unknown)
    assert "nvidia-smi -L" in read_paste(WIDE).missing[0]
    assert read_paste(WIDE).messages == ()


def test_the_list_has_the_name_that_the_table_truncates(read: Read, cards_of: CardsOf) -> None:
    names = "GPU 0: NVIDIA H200 (UUID: GPU-a)\nGPU 1: NVIDIA GeForce RTX 2080 SUPER (UUID: GPU-b)\n"
    for text in (f"{WIDE}\n{names}", f"{names}\n{WIDE}"):
        assert [value_of(card.name) for card in cards_of(read(text))] == [
            "NVIDIA H200",
            "NVIDIA GeForce RTX 2080 SUPER",
        ]
        assert value_of(cards_of(read(text))[1].uuid) == "GPU-b"


def test_spaces_removed_by_a_web_page(read: Read, cards_of: CardsOf) -> None:
    squeezed = "\n".join(" ".join(line.split()) for line in WIDE.splitlines())
    assert cards_of(read(squeezed)) == cards_of(read(WIDE))


def test_only_the_first_of_several_tables_counts(read: Read, cards_of: CardsOf) -> None:
    later = WIDE.replace("97%", "11%").replace("580.159.04", "590.48.01")
    for text in (f"{WIDE}\n{later}", f"{WIDE}some words\n{later}"):
        machine = read(text)
        assert value_of(machine.nvidia.driver) == "580.159.04"
        assert value_of(cards_of(machine)[0].utilisation) == 97
    assert read_paste(f"{WIDE}some words\n{later}").recognised[0] == "nvidia-smi table (the first of 2)"


def test_old_narrow_windows_and_broken_rows(read: Read, cards_of: CardsOf) -> None:
    machine = read(
        "| NVIDIA-SMI 331.62     Driver Version: 331.62         |\n"
        "|===============================+======================+======================|\n"
        "|   0  GeForce GTX 680     Off  | 0000:03:00.0     N/A |                  N/A |\n"
        "| 30%   35C  N/A     N/A /  N/A |      9MiB /  4095MiB |     N/A      Default |\n"
        "|   1  GeForce 840M       WDDM  | 0000:04:00.0     Off |                  N/A |\n"
        "|   5  ERR!                On   | 00000000:91:00.0 Off |                 ERR! |\n"
        "|ERR!  ERR! ERR!    ERR! / ERR! |      0MiB / 81920MiB |    ERR!      Default |\n"
        "| Processes:                                                       GPU Memory |\n"
        "|  GPU       PID   Type   Process name                             Usage      |\n"
        "|    0      1234      C   python                                      1234MiB |\n"
        "|    1      2140    C+G   C:\\Windows\\System32\\dwm.exe           N/A      |\n"
    )
    old, windows, broken = cards_of(machine)
    assert value_of(machine.nvidia.driver) == "331.62"
    assert isinstance(machine.nvidia.cuda, Unknown)
    assert (value_of(old.temperature), value_of(old.memory_total)) == (35, 4095 * MIB)
    assert [value_of(process.memory) for process in value_of(old.processes) or ()] == [1234 * MIB]
    assert value_of(windows.driver_model) == "WDDM"
    assert isinstance(windows.memory_total, Unknown)
    assert [process.pid for process in value_of(windows.processes) or ()] == [2140]
    assert (broken.index, value_of(broken.health)) == (5, "ERR!")
    assert isinstance(broken.name, Unknown)


def test_the_head_alone_and_the_newest_head(read: Read) -> None:
    machine = read("NVIDIA-SMI 535.104.12    Driver Version: 537.42    CUDA Version: 12.2\n")
    assert (value_of(machine.nvidia.smi), value_of(machine.nvidia.driver)) == ("535.104.12", "537.42")  # WSL
    newest = read("| NVIDIA-SMI 610.62                 KMD Version: 610.62        CUDA UMD Version: 13.3     |")
    assert (value_of(newest.nvidia.driver), value_of(newest.nvidia.cuda)) == ("610.62", "13.3")
    version = read(
        "NVIDIA-SMI version  : 610.62\nNVML version        : 610.62\nKMD version         : 610.62\nCUDA UMD version    : 13.3\n"
    )
    assert (value_of(version.nvidia.driver), value_of(version.nvidia.cuda)) == ("610.62", "13.3")


def test_mig_rows(read: Read, cards_of: CardsOf) -> None:
    (card,) = cards_of(
        read(
            "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:00:09.0 Off |                   On |\n"
            "| N/A   52C    P0            432W /  700W |   11125MiB /  81559MiB |     N/A      Default |\n"
            "|                                         |                        |              Enabled |\n"
            "| MIG devices:                                                                            |\n"
            "|  0    2   0   0  |           11091MiB / 40448MiB    | 60      0 |  3   0    3    0    3 |\n"
            "|                  |               0MiB / 24739MiB    |           |                       |\n"
            "|  0    3   0   1  |              17MiB / 20096MiB    | 32      0 |  2   0    2    0    2 |\n"
        )
    )
    assert value_of(card.mig) is True
    assert isinstance(card.utilisation, Unknown)
    assert [value_of(instance.memory_total) for instance in value_of(card.mig_instances) or ()] == [
        40448 * MIB,
        20096 * MIB,
    ]


@pytest.mark.parametrize("indented", [True, False])
def test_the_query_of_the_h200(indented: bool, pastes: Path, read: Read, cards_of: CardsOf) -> None:
    text = (pastes / "nvidia_smi/h200-580-q.txt").read_text()
    machine = read(text if indented else "\n".join(line.strip() for line in text.splitlines()))
    (card,) = cards_of(machine)
    assert (value_of(machine.nvidia.driver), value_of(machine.nvidia.cuda)) == ("580.159.04", "13.0")
    assert (value_of(card.name), value_of(card.architecture)) == ("NVIDIA H200", "Hopper")
    assert (value_of(card.memory_total), value_of(card.memory_used)) == (143771 * MIB, 0)
    assert (value_of(card.power_draw), value_of(card.power_limit)) == (129.84, 700.0)
    assert (value_of(card.pcie.generation), value_of(card.pcie.width), value_of(card.pcie.width_max)) == (5, 16, 16)
    assert (value_of(card.clocks.sm), value_of(card.clocks.memory_max)) == (1980, 3201)
    assert value_of(card.throttle_reasons) == ("gpu-idle",)
    assert (value_of(card.ecc.enabled), value_of(card.ecc.uncorrected), value_of(card.ecc.remap_pending)) == (
        True,
        0,
        False,
    )
    assert (value_of(card.mig), value_of(card.persistence), value_of(card.compute_mode)) == (False, True, "default")
    assert (value_of(card.temperature), value_of(card.utilisation)) == (38, 0)
    assert value_of(card.processes) == ()


def test_query_and_xml_of_the_same_card_agree(pastes: Path, read: Read, cards_of: CardsOf) -> None:
    """Two outputs of one machine, taken within a second: whatever both know is the same, but for the draw of power."""
    (query,) = cards_of(read((pastes / "nvidia_smi/h200-580-q.txt").read_text()))
    (xml,) = cards_of(read((pastes / "nvidia_smi/h200-580.xml").read_text()))
    for field in xml.__struct_fields__:
        by_query, by_xml = getattr(query, field), getattr(xml, field)
        if isinstance(by_xml, Known) and field != "power_draw":
            assert value_of(by_query) == by_xml.value, field


def test_a_query_with_two_cards_processes_and_notes(read: Read, cards_of: CardsOf) -> None:
    machine = read(
        "==============NVSMI LOG==============\n\nDriver Version                            : 550.90.07\n"
        "CUDA Version                              : 12.4\n\nAttached GPUs                             : 2\n"
        "GPU 00000000:52:00.0\n    Product Name                          : NVIDIA A100-SXM4-80GB\n"
        "    MIG Mode\n        Current                           : Enabled\n"
        "    MIG Device\n        Index                             : 0\n        GPU Instance ID                   : 2\n"
        "        Compute Instance ID               : 0\n        Shared FB Memory Usage\n"
        "            Total                         : 40448 MiB\n            Used                          : 11 MiB\n"
        "    Driver Model\n        Current                           : N/A\n"
        "    FB Memory Usage\n        Total                         : 81559 MiB\n"
        "    ECC Errors\n        Volatile\n            Single Bit\n                Total                     : 3\n"
        "            Double Bit\n                Total                     : 4\n"
        "        Aggregate\n            Double Bit\n                Total                     : 99\n"
        "    Remapped Rows\n        Pending                           : Yes                      <=== look\n"
        "    Processes\n        GPU instance ID                   : N/A\n        Process ID                        : 2140\n"
        "            Type                          : C\n            Name                          : python train.py --token x\n"
        "            Used GPU Memory               : 1024 MiB\n"
        "GPU 00000000:53:00.0\n    Product Name                          : Tesla T4\n    Processes                             : None\n"
    )
    first, second = cards_of(machine)
    assert (value_of(first.memory_total), value_of(first.ecc.corrected), value_of(first.ecc.uncorrected)) == (
        81559 * MIB,
        3,
        4,
    )
    assert value_of(first.ecc.remap_pending) is True
    assert [value_of(instance.memory_total) for instance in value_of(first.mig_instances) or ()] == [40448 * MIB]
    (process,) = value_of(first.processes) or ()
    assert (process.pid, value_of(process.command), value_of(process.memory)) == (2140, "python train.py", 1024 * MIB)
    assert (second.index, value_of(second.name), value_of(second.processes)) == (1, "Tesla T4", ())


def test_a_part_of_a_query_pasted_as_a_comment(read: Read, cards_of: CardsOf) -> None:
    (card,) = cards_of(
        read(
            "# Clocks Throttle Reasons\n#        Idle                              : Not Active\n"
            "#        SW Power Cap                      : Active\n#        SW Thermal Slowdown               : Active\n"
        )
    )
    assert value_of(card.throttle_reasons) == ("sw-power-cap", "sw-thermal")


HEADER = (
    "index, name, uuid, pci.bus_id, driver_version, memory.total [MiB], power.draw [W], compute_cap, mig.mode.current"
)


def test_csv_with_a_header(read: Read, cards_of: CardsOf) -> None:
    rows = (
        "0, NVIDIA L40S, GPU-a, 00000000:01:00.0, 595.80, 46068 MiB, 110.23 W, 8.9, [N/A]\n"
        "1, NVIDIA H200, GPU-b, 00000000:02:00.0, 595.80, 143771 MiB, [N/A], 9.0, Disabled\n"
        "0, NVIDIA L40S, GPU-a, 00000000:01:00.0, 595.80, 46068 MiB, 200.00 W, 8.9, [N/A]\n"
    )
    machine = read(f"{HEADER}\n{rows}")
    first, second = cards_of(machine)
    assert value_of(machine.nvidia.driver) == "595.80"
    assert (value_of(first.memory_total), value_of(first.power_draw)) == (46068 * MIB, 110.23)  # the first sample
    assert value_of(first.compute_capability) == "8.9"
    assert isinstance(first.mig, Unknown)
    assert (value_of(second.mig), value_of(second.uuid)) == (False, "GPU-b")
    assert isinstance(second.power_draw, Unknown)


def test_csv_without_units_after_its_command(read: Read, cards_of: CardsOf) -> None:
    (card,) = cards_of(
        read(
            "user@host:~$ nvidia-smi --query-gpu=name,memory.total,memory.used,temperature.gpu --format=csv,noheader,nounits\n"
            "GeForce RTX 2080, 7979, 12, 45\n"
        )
    )
    assert (value_of(card.memory_total), value_of(card.memory_used), value_of(card.temperature)) == (
        7979 * MIB,
        12 * MIB,
        45,
    )


def test_csv_without_a_header_gives_only_unambiguous_facts(read: Read, cards_of: CardsOf) -> None:
    machine = read(
        "0, NVIDIA H200, 580.159.04, 12 MiB, 143771 MiB, 38, 8.9\n1, NVIDIA H200, 580.159.04, 0 MiB, 143771 MiB, 39, 8.9\n"
    )
    assert value_of(machine.nvidia.driver) == "580.159.04"
    assert [(card.index, value_of(card.memory_total)) for card in cards_of(machine)] == [
        (0, 143771 * MIB),
        (1, 143771 * MIB),
    ]
    assert all(isinstance(card.temperature, Unknown) for card in cards_of(machine))
    assert all(isinstance(card.compute_capability, Unknown) for card in cards_of(machine))


def test_a_sentence_with_commas_is_not_csv() -> None:
    case = read_paste("NVIDIA GeForce RTX 5090, with CUDA capability sm_120, is not compatible\n")
    assert case.recognised == ("error text",)


def test_processes_and_dmon(read: Read, cards_of: CardsOf) -> None:
    (card,) = cards_of(
        read(
            "gpu_name, gpu_bus_id, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
            "NVIDIA L40S, 00000000:01:00.0, GPU-a, 20037, ffmpeg, 53\nNVIDIA L40S, 00000000:01:00.0, GPU-a, 20038, ffmpeg, 68 MiB\n"
        )
    )
    assert [(process.pid, value_of(process.memory)) for process in value_of(card.processes) or ()] == [
        (20037, 53 * MIB),
        (20038, 68 * MIB),
    ]
    (sampled,) = cards_of(
        read(
            "# gpu    pwr  gtemp     sm   pclk\n# Idx      W      C      %    MHz\n    0    109     53     10   2520\n    0    108     53      9   2520\n"
        )
    )
    assert (value_of(sampled.power_draw), value_of(sampled.utilisation), value_of(sampled.clocks.sm)) == (
        109.0,
        10,
        2520,
    )


def test_xml_inside_text_quoted_and_truncated(pastes: Path, read: Read, cards_of: CardsOf) -> None:
    xml = (pastes / "nvidia_smi/h200-580.xml").read_text()
    whole = cards_of(read(xml))
    assert cards_of(read(f"Here it is:\n```xml\n{xml}\n```\nWhat now?")) == whole
    assert cards_of(read("\n".join(f"> {line}" for line in xml.splitlines()))) == whole
    escaped = xml.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert cards_of(read(escaped)) == whole
    (cut,) = cards_of(read(xml[: len(xml) // 2]))
    assert value_of(cut.name) == "NVIDIA H200"
    assert isinstance(cut.processes, Unknown)


def test_the_failures_of_nvidia_smi() -> None:
    failed = "NVIDIA-SMI has failed because it couldn’t communicate with the NVIDIA driver."
    case = read_paste(f"$ nvidia-smi\n{failed}\n")
    assert case.machine.nvidia.smi == Unknown(failed.replace("’", "'"))
    assert [(message.where, message.text) for message in case.messages] == [("nvidia-smi", failed.replace("’", "'"))]
    assert case.recognised == ("failure of nvidia-smi",)
    assert [line.split("`")[1].split()[0] for line in case.missing] == ["sudo", "lspci", "python"]
    mismatch = read_paste(
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124\n"
    ).machine
    assert value_of(mismatch.nvidia.library_version) == "570.124"
    assert value_of(read_paste("# nvidia-smi\nNo devices were found\n").machine.cards) == ()
    wrapped = "Unable to determine the device handle for GPU 0000:03:00.0: GPU is lost.  Reboot\n the system to recover this GPU\n"
    assert read_paste(wrapped).messages[0].text.endswith("Reboot the system to recover this GPU")


def test_mig_is_on_without_any_instance(read: Read, cards_of: CardsOf) -> None:
    (card,) = cards_of(
        read(
            "|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:00:09.0 Off |                   On |\n"
            "| N/A   52C    P0             43W /  400W |       1MiB /  40960MiB |     N/A      Default |\n"
            "|                                         |                        |              Enabled |\n"
            "| MIG devices:                                                                            |\n"
            "|  No MIG devices found                                                                   |\n"
        )
    )
    assert value_of(card.mig_instances) == ()


def test_a_date_in_chinese_above_a_table_changes_nothing() -> None:
    date, _, table = WIDE.partition("\n")
    assert date.startswith("Sun")
    chinese = f"2026年 11月 15日 星期日 02:38:37 CST\n{table}"
    assert read_paste(chinese).machine == read_paste(WIDE).machine
    assert value_of(read_paste(chinese).machine.nvidia.driver) == "580.159.04"

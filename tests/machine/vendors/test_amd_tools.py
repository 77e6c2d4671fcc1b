"""The output of AMD's tools: samples in their layouts, and outputs from public reports (tests/pastes)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.vendors.amd_tools import parse_amd_smi, parse_amd_versions, parse_rocm_smi, parse_rocminfo

# The layout of AMD-SMI 26 (ROCm 7): a card that hides its sensors, and one that shows them.
AMD_SMI_TABLE = """\
+------------------------------------------------------------------------------+
| AMD-SMI 26.0.2+39589fda      amdgpu version: 6.16.6   ROCm version: 7.0.1    |
| Platform: Linux Baremetal                                                    |
|-------------------------------------+----------------------------------------|
| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |
| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |
|=====================================+========================================|
| 0000:05:00.0 ...Instinct MI300X OAM | N/A        N/A   0           N/A/750 W |
|   0       0       3        SPX/NPS1 | N/A        N/A         81920/196592 MB |
|-------------------------------------+----------------------------------------|
| 0000:0b:00.0     AMD Radeon RX 6800 | 3 %      47 °C   0            61/203 W |
|   1       1     N/A             N/A | 12 %    31.00            2048/16368 MB |
+-------------------------------------+----------------------------------------+
"""
AMD_SMI_LIST = """\
GPU: 0
    BDF: 0000:05:00.0
    UUID: 11ff74a1-0000-1000-8022-334455667788
    KFD_ID: 12345
    NODE_ID: 1
    PARTITION_ID: 0
"""
# The layout of ROCm 7.2: rocm-smi with node and ids instead of the model.
ROCM_SMI_NEW = """\
Device  Node  IDs              Temp    Power  Partitions          SCLK     MCLK     Fan    Perf  PwrCap  VRAM%  GPU%
              (DID,     GUID)  (Edge)  (Avg)  (Mem, Compute, ID)
====================================================================================================================
0       1     0x7551,   12345  52.0°C  88.0W  N/A, N/A, 0         2350Mhz  1258Mhz  34.9%  auto  300.0W  21%    64%
"""


def test_amd_smi_static_json(pastes: Path) -> None:
    (card,) = parse_amd_smi((pastes / "amd/amd-smi-static-mi210.json").read_text())
    assert card.name == Known("AMD Instinct MI210", source="amd-smi")
    assert value_of(card.architecture) == "gfx90a"
    assert card.memory_total == Known(65520 * 1024**2, source="amd-smi", unit="B")
    assert value_of(card.power_limit) == 300.0
    assert (value_of(card.pcie.generation_max), value_of(card.pcie.width_max)) == (4, 16)
    assert card.bus_id == Unknown("amd-smi does not report it")


def test_truncated_amd_smi_json_gives_the_complete_part(pastes: Path) -> None:
    text = (pastes / "amd/amd-smi-static-mi210.json").read_text()
    (card,) = parse_amd_smi("$ amd-smi static --json\n" + text[: text.index('"driver"')])
    assert value_of(card.architecture) == "gfx90a"
    assert value_of(card.pcie.width_max) == 16
    assert value_of(card.power_limit) == 300.0
    assert isinstance(card.memory_total, Unknown)


def test_amd_smi_json_on_one_line_and_as_a_plain_list(pastes: Path) -> None:
    document = json.loads((pastes / "amd/amd-smi-static-mi210.json").read_text())
    whole = parse_amd_smi(json.dumps(document))
    assert value_of(whole[0].name) == "AMD Instinct MI210"
    assert parse_amd_smi(json.dumps(document["gpu_data"])) == whole


def test_amd_smi_static_text(pastes: Path) -> None:
    (card,) = parse_amd_smi((pastes / "amd/amd-smi-static-mi350x.txt").read_text())
    assert value_of(card.name) == "AMD Instinct MI350X"
    assert value_of(card.architecture) == "gfx950"
    assert value_of(card.bus_id) == "0000:05:00.0"
    assert (value_of(card.pcie.generation_max), value_of(card.pcie.width_max)) == (5, 16)


def test_zero_watts_are_not_a_power_limit(pastes: Path) -> None:
    (card,) = parse_amd_smi((pastes / "amd/amd-smi-static-radeon-780m.txt").read_text())
    assert value_of(card.name) == "Phoenix3"
    assert card.power_limit == Unknown("amd-smi reports '0 W'")
    assert card.pcie.generation_max == Unknown("amd-smi does not report it")


def test_amd_smi_table() -> None:
    first, second = parse_amd_smi(AMD_SMI_TABLE)
    assert value_of(first.name) == "Instinct MI300X OAM"
    assert (value_of(first.memory_used), value_of(first.memory_total)) == (81920 * 1024**2, 196592 * 1024**2)
    assert value_of(first.power_limit) == 750.0
    assert isinstance(first.power_draw, Unknown)
    assert isinstance(first.temperature, Unknown)
    assert (second.index, value_of(second.name), value_of(second.bus_id)) == (1, "AMD Radeon RX 6800", "0000:0b:00.0")
    assert (value_of(second.utilisation), value_of(second.temperature), value_of(second.power_draw)) == (12, 47, 61.0)


def test_amd_smi_list_adds_to_the_table() -> None:
    card = parse_amd_smi(AMD_SMI_TABLE + AMD_SMI_LIST)[0]
    assert value_of(card.uuid) == "11ff74a1-0000-1000-8022-334455667788"
    assert value_of(card.name) == "Instinct MI300X OAM"


@pytest.mark.parametrize(
    ("name", "driver", "rocm"),
    [
        ("amd-smi-static-mi350x.txt", "6.18.3", None),
        ("amd-smi-static-radeon-780m.txt", "7.0.14-17-pve", None),
        ("layout-rocm-smi-all.txt", "6.8.5", None),
        ("layout-rocm-smi-602.json", "6.3.6", None),
    ],
)
def test_versions(pastes: Path, name: str, driver: str, rocm: str | None) -> None:
    amd = parse_amd_versions((pastes / "amd" / name).read_text(), source="pasted text")
    assert (value_of(amd.driver), value_of(amd.rocm)) == (driver, rocm)


def test_versions_of_the_table() -> None:
    amd = parse_amd_versions(AMD_SMI_TABLE, source="amd-smi")
    assert (value_of(amd.driver), value_of(amd.rocm)) == ("6.16.6", "7.0.1")


def test_rocm_smi_table(pastes: Path) -> None:
    cards = parse_rocm_smi((pastes / "amd/layout-rocm-smi-table.txt").read_text())
    assert [card.index for card in cards] == [0, 1]
    assert value_of(cards[1].name) == "AMD Instinct MI300X"
    assert (value_of(cards[1].temperature), value_of(cards[1].power_draw)) == (62, 503.0)
    assert (value_of(cards[1].power_limit), value_of(cards[1].utilisation)) == (750.0, 97)
    assert (value_of(cards[1].clocks.sm), value_of(cards[1].clocks.memory)) == (1840, 1300)
    assert (value_of(cards[0].utilisation), value_of(cards[0].clocks.sm)) == (0, 135)


def test_rocm_smi_table_of_rocm_7() -> None:
    (card,) = parse_rocm_smi(ROCM_SMI_NEW)
    assert (value_of(card.temperature), value_of(card.power_draw), value_of(card.power_limit)) == (52, 88.0, 300.0)
    assert (value_of(card.clocks.sm), value_of(card.utilisation)) == (2350, 64)


def test_rocm_smi_of_a_card_that_does_not_answer(pastes: Path) -> None:
    (card,) = parse_rocm_smi((pastes / "amd/rocm-smi-broken-mi-2021.txt").read_text())
    assert isinstance(card.temperature, Unknown)
    assert card.power_limit == Unknown("rocm-smi does not report it")


def test_rocm_smi_all(pastes: Path) -> None:
    cards = parse_rocm_smi((pastes / "amd/layout-rocm-smi-all.txt").read_text())
    assert len(cards) == 2
    assert value_of(cards[0].uuid) == "GPU-1122334455667788"
    assert value_of(cards[0].bus_id) == "0000:05:00.0"
    assert value_of(cards[0].temperature) == 41
    assert (value_of(cards[0].power_draw), value_of(cards[0].power_limit)) == (148.0, 750.0)
    assert (value_of(cards[0].clocks.sm), value_of(cards[0].clocks.memory)) == (135, 900)
    assert (value_of(cards[0].utilisation), value_of(cards[1].utilisation)) == (0, 97)


def test_rocm_smi_json_of_several_releases(pastes: Path) -> None:
    mi100 = parse_rocm_smi((pastes / "amd/layout-rocm-smi-602.json").read_text())
    assert len(mi100) == 2
    assert value_of(mi100[1].name) == "Arcturus GL-XL [Instinct MI100]"
    assert value_of(mi100[1].uuid) == "GPU-0abcdef012345678"  # 16 digits, as rocminfo writes it
    assert mi100[1].memory_total == Known(34342961152, source="rocm-smi", unit="B")
    (old,) = parse_rocm_smi((pastes / "amd/layout-rocm-smi-430.json").read_text())
    assert isinstance(old.name, Unknown)  # "0x1002" is the vendor's number
    assert isinstance(old.uuid, Unknown)
    (new,) = parse_rocm_smi((pastes / "amd/layout-rocm-smi-612.json").read_text())
    assert value_of(new.name) == "Navi 22 [Radeon RX 6700/6700 XT / 6800M]"
    assert value_of(new.architecture) == "gfx1031"
    assert value_of(new.memory_used) == 786432000


def test_truncated_rocm_smi_json(pastes: Path) -> None:
    text = (pastes / "amd/layout-rocm-smi-602.json").read_text()
    cards = parse_rocm_smi(text[: text.index("0000:C1:00.0")])
    assert len(cards) == 2
    assert value_of(cards[0].bus_id) == "0000:41:00.0"
    assert isinstance(cards[1].bus_id, Unknown)


def test_rocminfo(pastes: Path) -> None:
    cards = parse_rocminfo((pastes / "amd/layout-rocminfo-mi300x.txt").read_text())
    assert len(cards) == 2
    assert value_of(cards[1].name) == "AMD Instinct MI300X"
    assert value_of(cards[1].architecture) == "gfx942"
    assert value_of(cards[1].uuid) == "GPU-99aabbccddeeff00"
    assert value_of(cards[1].bus_id) == "0000:26:00.0"
    assert value_of(cards[1].memory_total) == 201310208 * 1024
    assert value_of(cards[1].clocks.sm_max) == 2100
    (radeon,) = parse_rocminfo((pastes / "amd/layout-rocminfo-radeon.txt").read_text())
    assert (value_of(radeon.name), value_of(radeon.architecture)) == ("Radeon RX 7900 XTX", "gfx1100")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\x01\x02",
        "no table here",
        "{",
        "[1, 2]",
        '{"gpu_data": 3}',
        "GPU: 0\n",
        "{}",
        "0 " + " " * 500_000,
        "[" * 100_000,
    ],
)
def test_text_without_a_report_gives_no_card(text: str) -> None:
    assert parse_amd_smi(text) == ()
    assert parse_rocm_smi(text) == ()
    assert parse_rocminfo(text) == ()

"""AMD through sysfs: the tree of a machine with one MI300X and one old Radeon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, CardProcess
from ownlab.machine.vendors.amd import decode_gfx, read_amd

Plant = Callable[[Mapping[str, str]], Path]

_PCI = "/sys/devices/pci0000:20"
_MI300X = f"{_PCI}/0000:26:00.0"
_RADEON = f"{_PCI}/0000:03:00.0"
_NODES = "/sys/class/kfd/kfd/topology/nodes"

# Names, formats and units of the kernel's amdgpu documentation; the numbers are made up.
MACHINE = {
    "/sys/class/drm/card1": "-> ../../devices/pci0000:20/0000:26:00.0/drm/card1",
    f"{_MI300X}/drm/card1/device": "-> ../..",
    f"{_MI300X}/vendor": "0x1002\n",
    f"{_MI300X}/device": "0x74a1\n",
    f"{_MI300X}/revision": "0x00\n",
    f"{_MI300X}/class": "0x120000\n",
    f"{_MI300X}/driver": "-> ../../../bus/pci/drivers/amdgpu",
    "/sys/bus/pci/drivers/amdgpu/module": "",
    f"{_MI300X}/unique_id": "1122334455667788\n",
    f"{_MI300X}/mem_info_vram_total": "206141652992\n",
    f"{_MI300X}/mem_info_vram_used": "301989888\n",
    f"{_MI300X}/gpu_busy_percent": "0\n",
    f"{_MI300X}/current_link_speed": "32.0 GT/s PCIe\n",
    f"{_MI300X}/max_link_speed": "32.0 GT/s PCIe\n",
    f"{_MI300X}/current_link_width": "16\n",
    f"{_MI300X}/max_link_width": "16\n",
    f"{_MI300X}/pp_dpm_sclk": "0: 500Mhz\n1: 135Mhz *\n2: 2100Mhz\n",
    f"{_MI300X}/pp_dpm_mclk": "0: 900Mhz *\n1: 1100Mhz\n2: 1300Mhz\n",
    f"{_MI300X}/ras/umc_err_count": "ue: 0\nce: 3\n",
    f"{_MI300X}/hwmon/hwmon4/power1_input": "148000000\n",
    f"{_MI300X}/hwmon/hwmon4/power1_cap": "750000000\n",
    f"{_MI300X}/hwmon/hwmon4/temp2_input": "41000\n",
    f"{_MI300X}/hwmon/hwmon4/freq1_input": "135000000\n",
    f"{_MI300X}/hwmon/hwmon4/freq2_input": "900000000\n",
    "/sys/class/drm/card0": "-> ../../devices/pci0000:20/0000:03:00.0/drm/card0",
    f"{_RADEON}/drm/card0/device": "-> ../..",
    f"{_RADEON}/vendor": "0x1002\n",
    f"{_RADEON}/device": "0x6779\n",
    f"{_RADEON}/revision": "0x00\n",
    f"{_RADEON}/class": "0x030000\n",
    f"{_RADEON}/driver": "-> ../../../bus/pci/drivers/radeon",
    "/sys/bus/pci/drivers/radeon/module": "",
    f"{_NODES}/0/properties": "cpu_cores_count 96\nsimd_count 0\ngfx_target_version 0\n",
    f"{_NODES}/2/gpu_id": "28851\n",
    f"{_NODES}/2/properties": "simd_count 1216\ngfx_target_version 90402\nvendor_id 4098\nlocation_id 9728\ndomain 0\n",
    "/sys/class/kfd/kfd/proc/4711/vram_28851": "1073741824\n",
    "/sys/class/kfd/kfd/proc/4712/vram_28851": "0\n",
    "/proc/4711/comm": "python3\n",
    "/sys/module/amdgpu/version": "6.7.0\n",
    "/opt/rocm/.info/version": "6.1.2-129\n",
    "/dev/kfd": "",
    "/usr/share/libdrm/amdgpu.ids": "# List of AMDGPU IDs\n1.0.0\n74A1,\t00,\tAMD Instinct MI300X\n74A1,\t01,\tother\n",
}


def test_reads_an_instinct_card(plant: Plant) -> None:
    amd, cards = read_amd(plant(MACHINE))
    assert value_of(amd.driver) == "6.7.0"
    assert value_of(amd.rocm) == "6.1.2"
    assert isinstance(amd.kfd, Known)
    assert amd.kfd.value.path == "/dev/kfd"
    card = cards[1]
    assert (card.vendor, card.index) == ("amd", 1)
    assert card.name == Known("AMD Instinct MI300X", source="/usr/share/libdrm/amdgpu.ids")
    assert value_of(card.uuid) == "GPU-1122334455667788"
    assert value_of(card.bus_id) == "0000:26:00.0"
    assert value_of(card.architecture) == "gfx942"
    assert card.memory_total == Known(206141652992, "/sys/class/drm/card1/device/mem_info_vram_total", "B")
    assert value_of(card.utilisation) == 0
    assert (value_of(card.power_draw), value_of(card.power_limit)) == (148.0, 750.0)
    assert card.temperature == Known(41, "/sys/class/drm/card1/device/hwmon/hwmon4/temp2_input", "°C")
    assert (value_of(card.clocks.sm), value_of(card.clocks.sm_max)) == (135, 2100)
    assert (value_of(card.clocks.memory), value_of(card.clocks.memory_max)) == (900, 1300)
    assert (value_of(card.pcie.generation), value_of(card.pcie.width_max)) == (5, 16)
    assert (value_of(card.ecc.corrected), value_of(card.ecc.uncorrected)) == (3, 0)
    assert value_of(card.health) == "OK"


def test_names_the_processes_that_hold_memory(plant: Plant) -> None:
    processes = value_of(read_amd(plant(MACHINE))[1][1].processes)
    path = "/sys/class/kfd/kfd/proc/4711/vram_28851"
    command = Known("python3", source="/proc/4711/comm")
    assert processes == (CardProcess(4711, "compute", memory=Known(1073741824, path, "B"), command=command),)


def test_an_old_card_that_rocm_cannot_use(plant: Plant) -> None:
    card = read_amd(plant(MACHINE))[1][0]
    assert value_of(card.health) == "driven by radeon, not by amdgpu: ROCm cannot use it"
    assert card.architecture == Unknown("KFD does not list this card, so ROCm cannot compute on it")
    assert isinstance(card.name, Unknown)
    assert isinstance(card.memory_total, Unknown)
    assert isinstance(card.processes, Unknown)


def test_garbage_is_unknown_and_quoted_in_the_reason(plant: Plant) -> None:
    spoilt = {
        **MACHINE,
        f"{_MI300X}/mem_info_vram_total": "many\n",
        f"{_MI300X}/gpu_busy_percent": "\n",
        f"{_MI300X}/current_link_speed": "Unknown\n",
        f"{_MI300X}/ras/umc_err_count": "???\n",
        f"{_MI300X}/pp_dpm_sclk": "-\n",
    }
    card = read_amd(plant(spoilt))[1][1]
    device = "/sys/class/drm/card1/device"
    assert card.memory_total == Unknown(f"{device}/mem_info_vram_total does not contain a number: 'many'")
    assert card.utilisation == Unknown(f"{device}/gpu_busy_percent is empty")
    assert card.pcie.generation == Unknown(
        f"{device}/current_link_speed has 'Unknown', which is not a known transfer rate"
    )
    assert isinstance(card.ecc.corrected, Unknown)
    assert isinstance(card.clocks.sm_max, Unknown)


def test_a_file_that_cannot_be_read_is_unknown(plant: Plant) -> None:
    root = plant({path: text for path, text in MACHINE.items() if not path.endswith("gpu_busy_percent")})
    (root / f"{_MI300X}/gpu_busy_percent".lstrip("/")).mkdir()  # reading it fails, for root too
    card = read_amd(root)[1][1]
    assert card.utilisation == Unknown("/sys/class/drm/card1/device/gpu_busy_percent cannot be read: Is a directory")


def test_an_amdgpu_module_of_the_kernel_has_no_version(plant: Plant) -> None:
    amd, _ = read_amd(
        plant({"/sys/module/amdgpu/parameters/vm_size": "-1\n", "/opt/rocm-6.0.2/.info/version": "6.0.2\n"})
    )
    assert amd.driver == Unknown("amdgpu is part of the kernel and has no version of its own")
    assert value_of(amd.rocm) == "6.0.2"
    assert amd.kfd == Unknown("/dev/kfd does not exist")


def test_a_machine_without_amd(tmp_path: Path) -> None:
    amd, cards = read_amd(tmp_path)
    assert cards == ()
    assert amd.driver == Unknown("the kernel module amdgpu is not loaded")
    assert amd.rocm == Unknown("ROCm is not installed in /opt")


def test_pci_ids_names_cards_that_libdrm_does_not_know(plant: Plant) -> None:
    ids = "# comment\n1001  Kolter\n\t6779  wrong\n1002  AMD/ATI\n\t6778  other\n\t6779  Caicos [Radeon HD 6450]\n\t\t1028 2120  sub\n"
    card = read_amd(plant({**MACHINE, "/usr/share/misc/pci.ids": ids}))[1][0]
    assert card.name == Known("Caicos [Radeon HD 6450]", source="/usr/share/misc/pci.ids")


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (90402, "gfx942"),
        (90010, "gfx90a"),
        (90006, "gfx906"),
        (100300, "gfx1030"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
    ],
)
def test_gfx_versions_are_decoded(version: int, name: str) -> None:
    assert decode_gfx(version) == name


def card_of_node(plant: Plant, properties: str) -> Card:
    files = {**MACHINE, f"{_NODES}/2/properties": f"{properties}vendor_id 4098\nlocation_id 9728\ndomain 0\n"}
    return read_amd(plant(files))[1][1]


@pytest.mark.parametrize(
    ("cores", "version", "integrated"),
    [
        (16, 90012, True),  # a Ryzen, on an older kernel one node with its CPU
        (0, 100306, True),  # on a newer one by itself: gfx1036
        (16, 110003, True),
        (24, 90402, False),  # MI300A
        (0, 90402, False),
        (0, 110501, False),  # Strix Halo
        (0, 110000, False),
    ],
)
def test_integrated_graphics(plant: Plant, cores: int, version: int, integrated: bool) -> None:
    properties = f"cpu_cores_count {cores}\nsimd_count 8\ngfx_target_version {version}\n"
    assert card_of_node(plant, properties).integrated is integrated


def test_without_kfd_nothing_is_guessed(plant: Plant) -> None:
    assert read_amd(plant(MACHINE))[1][0].integrated is False

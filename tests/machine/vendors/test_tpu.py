"""TPUs: trees as on a TPU machine, in a sandbox that hides the bus, and on Colab's old runtimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.vendors.tpu import read_tpu

Plant = Callable[[Mapping[str, str]], Path]

_PCI = "/sys/bus/pci/devices"


def _chips(device: str, count: int) -> dict[str, str]:
    files: dict[str, str] = {}
    for number in range(4, 4 + count):
        files |= {f"{_PCI}/0000:00:{number:02x}.0/vendor": "0x1ae0\n", f"{_PCI}/0000:00:{number:02x}.0/device": device}
    return files


def test_chips_on_the_bus(plant: Plant) -> None:
    files = {**_chips("0x005e\n", 2), "/dev/accel0": "", "/dev/accel1": "", "/lib/libtpu.so": ""}
    # Google's own network card is not a TPU.
    files |= {f"{_PCI}/0000:00:01.0/vendor": "0x1ae0\n", f"{_PCI}/0000:00:01.0/device": "0x0042\n"}
    tpu, cards = read_tpu(plant(files), {})
    assert [value_of(card.bus_id) for card in cards] == ["0000:00:04.0", "0000:00:05.0"]
    assert value_of(cards[0].name) == "TPU v4"
    assert (cards[0].vendor, value_of(cards[0].health)) == ("google", "OK")
    assert value_of(tpu.accelerator_type) == "2 × TPU v4"
    assert value_of(tpu.device_files) == ("/dev/accel0", "/dev/accel1")
    assert tpu.libtpu == Known("/lib/libtpu.so", source="/lib/libtpu.so")


def test_newer_chips_are_passed_through_vfio(plant: Plant) -> None:
    files = {
        **_chips("0x006f\n", 1),
        f"{_PCI}/0000:00:04.0/iommu_group": "-> ../../../../kernel/iommu_groups/0",
        "/sys/kernel/iommu_groups/0/type": "DMA\n",
        "/dev/vfio/0": "",
        "/dev/vfio/vfio": "",
    }
    tpu, (card,) = read_tpu(plant(files), {"TPU_ACCELERATOR_TYPE": "v6e-1"})
    assert value_of(tpu.device_files) == ("/dev/vfio/0",)
    assert card.health == Known("OK", source="/dev/vfio/0")
    assert tpu.accelerator_type == Known("v6e-1", source="TPU_ACCELERATOR_TYPE")


def test_a_chip_without_its_device_file(plant: Plant) -> None:
    _, (card,) = read_tpu(plant(_chips("0x0063\n", 1)), {})
    assert value_of(card.health) == "the device file /dev/accel0 does not exist"


def test_a_sandbox_that_hides_the_bus(plant: Plant) -> None:
    tpu, (card,) = read_tpu(plant({"/dev/accel0": ""}), {"TPU_LIBRARY_PATH": "/dev/accel0"})
    assert card.name == Known("TPU", source="/dev/accel0")
    assert isinstance(tpu.accelerator_type, Unknown)
    assert tpu.libtpu == Known("/dev/accel0", source="TPU_LIBRARY_PATH")


def test_other_accelerators_and_passed_through_devices_are_not_tpus(plant: Plant) -> None:
    tpu, cards = read_tpu(plant({"/dev/accel/accel0": "", "/dev/vfio/12": ""}), {})
    assert cards == ()
    assert tpu.device_files == Unknown("there is no TPU device file (/dev/accel*)")
    assert tpu.accelerator_type == Unknown("neither an environment variable nor the PCI bus shows a TPU")
    assert isinstance(tpu.libtpu, Unknown)


def test_a_tpu_on_another_machine(tmp_path: Path) -> None:
    tpu, cards = read_tpu(tmp_path, {"COLAB_TPU_ADDR": "10.0.0.2:8470"})
    assert cards == ()
    assert tpu.accelerator_type == Unknown(
        "COLAB_TPU_ADDR names a TPU on another machine (10.0.0.2:8470), but not its type"
    )


def test_a_forbidden_folder_in_the_library_path(tmp_path: Path) -> None:
    tpu, _ = read_tpu(tmp_path, {"TPU_LIBRARY_PATH": "/" + "x" * 300})
    assert isinstance(tpu.libtpu, Unknown)

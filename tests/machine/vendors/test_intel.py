"""Intel: a laptop with integrated graphics and an Arc card, and Gaudi accelerators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.vendors.intel import read_intel

Plant = Callable[[Mapping[str, str]], Path]

_IGPU = "/sys/devices/pci0000:00/0000:00:02.0"
_ARC = "/sys/devices/pci0000:00/0000:03:00.0"
_DRIVERS = "/sys/bus/pci/drivers"

MACHINE = {
    "/sys/class/drm/card0": "-> ../../devices/pci0000:00/0000:03:00.0/drm/card0",
    f"{_ARC}/drm/card0/device": "-> ../..",
    f"{_ARC}/drm/renderD128/dev": "226:128\n",
    f"{_ARC}/vendor": "0x8086\n",
    f"{_ARC}/device": "0x56a0\n",
    f"{_ARC}/driver": "-> ../../../bus/pci/drivers/xe",
    f"{_ARC}/current_link_speed": "2.5 GT/s PCIe\n",
    f"{_ARC}/max_link_width": "1\n",
    f"{_ARC}/hwmon/hwmon2/power1_max": "190000000\n",
    f"{_DRIVERS}/xe/module": "",
    "/sys/class/drm/card1": "-> ../../devices/pci0000:00/0000:00:02.0/drm/card1",
    f"{_IGPU}/drm/card1/device": "-> ../..",
    f"{_IGPU}/drm/renderD129/dev": "226:129\n",
    f"{_IGPU}/vendor": "0x8086\n",
    f"{_IGPU}/device": "0x7d55\n",
    f"{_IGPU}/driver": "-> ../../../bus/pci/drivers/i915",
    f"{_DRIVERS}/i915/module": "",
    "/dev/dri/renderD128": "",
    "/dev/dri/renderD129": "",
}


def test_discrete_and_integrated_graphics_are_distinguished(plant: Plant) -> None:
    integrated, arc = read_intel(plant(MACHINE))
    assert value_of(integrated.name) == "Intel GPU 0x7d55 (integrated graphics)"
    assert integrated.memory_total == Unknown("integrated graphics use the machine's memory")
    assert (arc.vendor, arc.index, value_of(arc.bus_id)) == ("intel", 1, "0000:03:00.0")
    assert value_of(arc.name) == "Intel Alchemist (Arc A series) 0x56a0 (discrete GPU)"
    assert value_of(arc.architecture) == "Alchemist (Arc A series)"
    assert arc.memory_total == Unknown("the kernel driver does not report the card's memory")
    assert value_of(arc.power_limit) == 190.0
    assert (value_of(arc.pcie.generation), value_of(arc.pcie.width_max)) == (1, 1)
    assert value_of(arc.health) == "OK"


def test_a_discrete_card_that_sits_where_integrated_ones_do(plant: Plant) -> None:
    """In a virtual machine a card that is passed through may get any place."""
    card, _ = read_intel(plant({**MACHINE, f"{_IGPU}/device": "0xe211\n"}))
    assert value_of(card.name) == "Intel Battlemage (Arc B series) 0xe211 (discrete GPU)"


def test_local_memory_if_the_driver_reports_it(plant: Plant) -> None:
    arc = read_intel(plant({**MACHINE, f"{_ARC}/drm/card0/lmem_total_bytes": "17079205888\n"}))[1]
    assert arc.memory_total == Known(17079205888, "/sys/class/drm/card0/lmem_total_bytes", "B")


def test_names_of_pci_ids(plant: Plant) -> None:
    ids = "8086  Intel Corporation\n\t56a0  DG2 [Arc A770]\n\t7d55  Meteor Lake-P [Intel Arc Graphics]\n"
    integrated, arc = read_intel(plant({**MACHINE, "/usr/share/hwdata/pci.ids": ids}))
    assert arc.name == Known("Intel DG2 [Arc A770] (discrete GPU)", source="/usr/share/hwdata/pci.ids")
    assert value_of(integrated.name) == "Intel Meteor Lake-P [Intel Arc Graphics] (integrated graphics)"


def test_a_render_node_that_is_missing(plant: Plant) -> None:
    arc = read_intel(plant({path: text for path, text in MACHINE.items() if path != "/dev/dri/renderD128"}))[1]
    assert value_of(arc.health) == "discrete GPU, driven by xe; /dev/dri/renderD128 does not exist"


def test_garbage_and_other_drivers(plant: Plant) -> None:
    spoilt = {**MACHINE, f"{_ARC}/device": "?\n", f"{_IGPU}/driver": "-> ../../../bus/pci/drivers/vfio-pci"}
    (card,) = read_intel(plant({**spoilt, f"{_DRIVERS}/vfio-pci/module": ""}))
    assert value_of(card.name) == "Intel GPU ? (discrete GPU)"


def test_gaudi(plant: Plant) -> None:
    pci = "/sys/bus/pci/devices"
    files = {
        f"{pci}/0000:19:00.0/vendor": "0x1da3\n",
        f"{pci}/0000:19:00.0/device": "0x1020\n",
        f"{pci}/0000:19:00.0/driver": "-> ../../drivers/habanalabs",
        f"{_DRIVERS}/habanalabs/module": "",
        f"{pci}/0000:1a:00.0/vendor": "0x1da3\n",
        f"{pci}/0000:1a:00.0/device": "0x1060\n",
    }
    first, second = read_intel(plant(files))
    assert (value_of(first.name), value_of(first.health)) == ("Intel Gaudi 2", "OK")
    assert (second.index, value_of(second.name)) == (1, "Intel Gaudi 3")
    assert value_of(second.health) == "the kernel driver habanalabs is missing"


def test_a_machine_without_intel(tmp_path: Path) -> None:
    assert read_intel(tmp_path) == ()

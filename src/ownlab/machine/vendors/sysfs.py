"""PCI devices of any vendor in sysfs: link, sensors, name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ownlab.machine.facts import Fact, Known, Unknown, first_known
from ownlab.machine.files import Tree
from ownlab.machine.records import Pcie
from ownlab.text import text

__all__ = ["link", "pci_name", "sensor"]

# Transfer rate in GT/s -> generation. PCI Express base specification, 1.0 to 6.0.
_GENERATIONS = {
    "2.5": 1,
    "5.0": 2,
    "5": 2,
    "8.0": 3,
    "8": 3,
    "16.0": 4,
    "16": 4,
    "32.0": 5,
    "32": 5,
    "64.0": 6,
    "64": 6,
}
_PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")


def link(tree: Tree, device: str) -> Pcie:
    """Read a PCI device's link to its bus."""

    def generation(path: str) -> Fact[int]:
        fact = tree.text(path)
        if isinstance(fact, Unknown):
            return fact
        rate = fact.value.split()[0]  # "16.0 GT/s PCIe"
        if rate not in _GENERATIONS:
            return Unknown(
                text("{path} has {value!r}, which is not a known transfer rate", path=path, value=fact.value)
            )
        return Known(_GENERATIONS[rate], source=path)

    return Pcie(
        generation=generation(f"{device}/current_link_speed"),
        generation_max=generation(f"{device}/max_link_speed"),
        width=tree.number(f"{device}/current_link_width"),
        width_max=tree.number(f"{device}/max_link_width"),
    )


def sensor(tree: Tree, device: str, names: Mapping[str, int], unit: str) -> Fact[float]:
    """Read the first of the card's sensors that has a value; `names` maps each to the divisor of its number."""
    hwmon = tree.names(f"{device}/hwmon", r"hwmon\d+")
    if not hwmon:
        return Unknown(text("the kernel driver has no sensors"))
    readings: list[Fact[float]] = []
    for name, divide in names.items():
        path = f"{device}/hwmon/{hwmon[0]}/{name}"
        fact = tree.number(path)
        readings.append(Known(fact.value / divide, source=path, unit=unit) if isinstance(fact, Known) else fact)
    return first_known(*readings)


def pci_name(tree: Tree, vendor: str, device: str) -> Fact[str]:
    """Look a device up in pci.ids, if that list is installed: "Navi 22 [Radeon RX 6700/6700 XT]"."""
    for path in _PCI_IDS:
        content = tree.word(path)
        block = re.search(rf"^{vendor} .*\n((?:[\t#].*\n|\n)*)", content + "\n", re.MULTILINE)
        line = re.search(rf"^\t{device} +(.+)$", block.group(1), re.MULTILINE) if block else None
        if line:
            return Known(line.group(1).strip(), source=path)
    return Unknown(text("no list on this machine names the PCI device {vendor}:{device}", vendor=vendor, device=device))

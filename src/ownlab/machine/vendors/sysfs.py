"""Reads the kernel's one-value files under a root, as facts; what is the same for every vendor's card stands here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown, first_known
from ownlab.machine.records import DeviceFile, Pcie

__all__ = ["Tree", "link", "pci_name", "sensor"]

# The transfer rate names the generation. PCI Express base specification, 1.0 to 6.0.
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


class Tree:
    """A file system as seen from `root`: paths are written as on the machine, and shown so in sources and reasons."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, path: str) -> Path:
        """Where the path of the machine lies for us."""
        return self.root / path.lstrip("/")

    def shown(self, path: Path) -> str:
        """The path as on the machine."""
        return "/" + str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def exists(self, path: str) -> bool:
        """Whether it is there for us. (pathlib's exists() raises under a closed folder until Python 3.12.)"""
        return os.path.exists(self.at(path))

    def names(self, folder: str, pattern: str = "") -> list[str]:
        """What a folder holds that matches the pattern as a whole, in natural order; nothing where it cannot be listed."""
        try:
            names = os.listdir(self.at(folder))
        except OSError:
            return []
        return sorted((name for name in names if not pattern or re.fullmatch(pattern, name)), key=_natural)

    def text(self, path: str) -> Fact[str]:
        """A file's text without the white space around it. An empty file says nothing, so it is unknown."""
        try:
            text = self.at(path).read_bytes().decode(errors="replace").strip("\0 \t\r\n")
        except FileNotFoundError:
            return Unknown(f"{path} is not there")
        except OSError as exc:  # amdgpu refuses to read sensors of a sleeping card, containers hide some files
            return Unknown(f"{path} cannot be read: {exc.strerror}")
        return Known(text, source=path) if text else Unknown(f"{path} is empty")

    def word(self, path: str) -> str:
        """A file's text, or nothing: for ids that only choose what is read next."""
        fact = self.text(path)
        return fact.value if isinstance(fact, Known) else ""

    def number(self, path: str, unit: str | None = None, *, divide: int = 1) -> Fact[int]:
        """A whole number, divided down to its unit."""
        fact = self.text(path)
        if isinstance(fact, Unknown):
            return fact
        try:
            return Known(round(int(fact.value, 0) / divide), source=path, unit=unit)
        except ValueError:
            return Unknown(f"{path} holds no number: {fact.value[:40]!r}")

    def device_file(self, path: str) -> Fact[DeviceFile]:
        """A device file, and whether we may open it."""
        place = self.at(path)
        if not os.path.exists(place):
            return Unknown(f"{path} is not there")
        return Known(DeviceFile(path, os.access(place, os.R_OK), os.access(place, os.W_OK)), source=path)

    def link_name(self, path: str) -> str:
        """The last part of where a link leads: sysfs names a card's bus id and its driver so."""
        return os.path.basename(os.path.realpath(self.at(path))) if self.exists(path) else ""


def _natural(name: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]


def link(tree: Tree, device: str) -> Pcie:
    """A PCI device's link to its bus."""

    def generation(path: str) -> Fact[int]:
        fact = tree.text(path)
        if isinstance(fact, Unknown):
            return fact
        rate = fact.value.split()[0]  # "16.0 GT/s PCIe"
        if rate not in _GENERATIONS:
            return Unknown(f"{path} says {fact.value!r}, which is no known rate")
        return Known(_GENERATIONS[rate], source=path)

    return Pcie(
        generation=generation(f"{device}/current_link_speed"),
        generation_max=generation(f"{device}/max_link_speed"),
        width=tree.number(f"{device}/current_link_width"),
        width_max=tree.number(f"{device}/max_link_width"),
    )


def sensor(tree: Tree, device: str, names: Mapping[str, int], unit: str) -> Fact[float]:
    """The first of the card's sensors that answers; `names` maps each to what its number is divided by."""
    hwmon = tree.names(f"{device}/hwmon", r"hwmon\d+")
    if not hwmon:
        return Unknown("the kernel driver gives no sensors")
    readings: list[Fact[float]] = []
    for name, divide in names.items():
        path = f"{device}/hwmon/{hwmon[0]}/{name}"
        fact = tree.number(path)
        readings.append(Known(fact.value / divide, source=path, unit=unit) if isinstance(fact, Known) else fact)
    return first_known(*readings)


def pci_name(tree: Tree, vendor: str, device: str) -> Fact[str]:
    """What pci.ids calls a device, where that list is installed: "Navi 22 [Radeon RX 6700/6700 XT]"."""
    for path in _PCI_IDS:
        text = tree.word(path)
        block = re.search(rf"^{vendor} .*\n((?:[\t#].*\n|\n)*)", text + "\n", re.MULTILINE)
        line = re.search(rf"^\t{device} +(.+)$", block.group(1), re.MULTILINE) if block else None
        if line:
            return Known(line.group(1).strip(), source=path)
    return Unknown(f"no list on this machine names the PCI device {vendor}:{device}")

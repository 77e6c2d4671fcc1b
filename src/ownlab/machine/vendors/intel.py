"""Intel's discrete and integrated GPUs as the kernel shows them (i915, xe), and Gaudi accelerators."""

from __future__ import annotations

from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown, first_known
from ownlab.machine.files import Tree
from ownlab.machine.records import Card
from ownlab.machine.vendors.sysfs import link, pci_name, sensor
from ownlab.text import text

__all__ = ["read_intel"]

_DRM = "/sys/class/drm"
_PCI = "/sys/bus/pci/devices"

# include/drm/intel/pciids.h of Linux (6.12 to 6.17), read 2026-11-15: first and last ID of each discrete family. No
# integrated GPU has an ID in these ranges.
_DISCRETE = (
    (0x0B69, 0x0BE5, "Ponte Vecchio (Data Center GPU Max)"),
    (0x4905, 0x4909, "DG1 (Iris Xe MAX)"),
    (0x5690, 0x56BF, "Alchemist (Arc A series)"),
    (0x56C0, 0x56C2, "Arctic Sound-M (Data Center GPU Flex)"),
    (0xE202, 0xE223, "Battlemage (Arc B series)"),
)
# Intel's integrated GPU is always this function of the first bus.
_INTEGRATED_BUS_ID = "0000:00:02.0"
# habanalabs' pci_ids.h of Linux 6.5, and Intel's Gaudi software for Gaudi 3; read 2026-11-15.
_GAUDI = {"0x1000": "Gaudi", "0x1010": "Gaudi", "0x1020": "Gaudi 2", "0x1030": "Gaudi 2", "0x1060": "Gaudi 3"}


def read_intel(root: Path = Path("/")) -> tuple[Card, ...]:
    """Read Intel's graphics with the driver i915 or xe, in bus order, then Gaudi accelerators."""
    tree = Tree(root)
    by_bus_id = {}
    for name in tree.names(_DRM, r"card\d+"):
        device = f"{_DRM}/{name}/device"
        if tree.word(f"{device}/vendor") == "0x8086" and tree.link_name(f"{device}/driver") in ("i915", "xe"):
            by_bus_id[tree.link_name(device)] = name
    gaudi = [
        bus_id
        for bus_id in sorted(tree.names(_PCI))
        if tree.word(f"{_PCI}/{bus_id}/vendor") == "0x1da3" and tree.word(f"{_PCI}/{bus_id}/device") in _GAUDI
    ]
    graphics = [_read_gpu(tree, index, bus_id, by_bus_id[bus_id]) for index, bus_id in enumerate(sorted(by_bus_id))]
    return (*graphics, *(_read_gaudi(tree, len(graphics) + index, bus_id) for index, bus_id in enumerate(gaudi)))


def _read_gpu(tree: Tree, index: int, bus_id: str, name: str) -> Card:
    device = f"{_DRM}/{name}/device"
    model = tree.word(f"{device}/device")
    memory = tree.number(f"{_DRM}/{name}/lmem_total_bytes", "B")
    family = _discrete_family(model)
    integrated = family is None and isinstance(memory, Unknown) and bus_id == _INTEGRATED_BUS_ID
    kind = "integrated graphics" if integrated else "discrete GPU"
    listed = pci_name(tree, "8086", model.removeprefix("0x"))
    generic: Fact[str] = Known(f"{family or 'GPU'} {model}", source=f"{device}/device")
    model_name = first_known(listed, generic)
    return Card(
        vendor="intel",
        index=index,
        name=Known(f"Intel {model_name.value} ({kind})", source=model_name.source)
        if isinstance(model_name, Known)
        else model_name,
        bus_id=Known(bus_id, source=_DRM),
        architecture=Known(family, source=f"{device}/device")
        if family
        else Unknown(text("the device ID is not in the list of families")),
        memory_total=Unknown(text("integrated graphics use the machine's memory"))
        if integrated
        else memory
        if isinstance(memory, Known)
        else Unknown(text("the kernel driver does not report the card's memory")),
        power_limit=sensor(tree, device, {"power1_max": 10**6, "power1_cap": 10**6}, "W"),
        pcie=link(tree, device),
        integrated=integrated,
        health=_health(tree, name, kind),
    )


def _discrete_family(model: str) -> str | None:
    try:
        number = int(model, 16)
    except ValueError:
        return None
    return next((family for first, last, family in _DISCRETE if first <= number <= last), None)


def _health(tree: Tree, name: str, kind: str) -> Fact[str]:
    """Check the render node, which compute needs and on many systems only the group `render` may open."""
    driver = tree.link_name(f"{_DRM}/{name}/device/driver")
    nodes = tree.names(f"{_DRM}/{name}/device/drm", r"renderD\d+")
    if not nodes:
        message = text("{kind}, driven by {driver}; it has no render node", kind=kind, driver=driver)
        return Known(message, source=f"{_DRM}/{name}")
    path = f"/dev/dri/{nodes[0]}"
    file = tree.device_file(path)
    if isinstance(file, Unknown):
        message = text("{kind}, driven by {driver}; {reason}", kind=kind, driver=driver, reason=file.reason)
        return Known(message, source=path)
    if not (file.value.readable and file.value.writable):
        message = text("{kind}, driven by {driver}; this user may not open {path}", kind=kind, driver=driver, path=path)
        return Known(message, source=path)
    return Known("OK", source=path)


def _read_gaudi(tree: Tree, index: int, bus_id: str) -> Card:
    device = f"{_PCI}/{bus_id}"
    driver = tree.link_name(f"{device}/driver")
    return Card(
        vendor="intel",
        index=index,
        name=Known(f"Intel {_GAUDI[tree.word(f'{device}/device')]}", source=f"{device}/device"),
        bus_id=Known(bus_id, source=_PCI),
        pcie=link(tree, device),
        health=Known("OK" if driver else text("the kernel driver habanalabs is missing"), source=f"{device}/driver"),
    )

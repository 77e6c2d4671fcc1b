"""Questions about a machine that several rules ask, and the formatting of facts as evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ownlab.catalog.architectures import Architecture, architecture_of, capability_of
from ownlab.catalog.versions import parse_version
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Machine, PciDevice
from ownlab.text import listing, text

__all__ = [
    "accelerator_on_bus",
    "accelerators_of",
    "any_framework_works",
    "architecture",
    "architecture_name",
    "capability",
    "card_name",
    "container_kind",
    "cuda_builds",
    "describe_cards",
    "describe_fact",
    "driver_family",
    "family_of",
    "framework",
    "framework_name",
    "frameworks_of",
    "has_accelerator",
    "is_healthy",
    "is_musl",
    "is_wsl",
    "known_facts",
    "module_loaded",
    "name_cards",
    "nvidia_cards",
    "nvidia_on_pci",
    "oldest_capability",
    "package_version",
    "sees_devices",
    "variable",
]

_NVIDIA, _AMD = "10de", "1002"  # PCI vendor ids
_MAKERS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple", "google": "Google", "huawei": "Huawei"}


# Cards


def accelerators_of(machine: Machine) -> tuple[Card, ...]:
    """Return the cards for deep learning; graphics integrated in the CPU are left out."""
    return tuple(card for card in value_of(machine.cards) or () if not card.integrated)


def has_accelerator(machine: Machine) -> bool:
    """Whether the machine has an accelerator, with or without a driver."""
    return bool(accelerators_of(machine)) or accelerator_on_bus(machine)


def accelerator_on_bus(machine: Machine) -> bool:
    """Whether the PCI bus shows an accelerator, with or without a driver.

    AMD display controllers do not count: most of them are graphics integrated in a Ryzen CPU.
    """
    return any(
        device.vendor == _NVIDIA or (device.vendor == _AMD and device.kind == "accelerator")
        for device in value_of(machine.host.pci) or ()
    )


def nvidia_cards(machine: Machine) -> tuple[Card, ...]:
    """Return the NVIDIA cards that the driver shows."""
    return tuple(card for card in value_of(machine.cards) or () if card.vendor == "nvidia")


def nvidia_on_pci(machine: Machine) -> tuple[PciDevice, ...] | None:
    """Return the NVIDIA devices on the PCI bus, with or without a driver; None where the bus is unknown.

    WSL shows no card on its bus (the card comes through /dev/dxg), so an empty list would mean nothing there.
    """
    devices = value_of(machine.host.pci)
    if devices is None or is_wsl(machine):
        return None
    return tuple(device for device in devices if device.vendor == _NVIDIA)


def is_healthy(card: Card) -> bool:
    """Whether the driver has just read this card without an error: then an older log line no longer applies."""
    return value_of(card.health) == "OK"


def capability(card: Card) -> str | None:
    """Return a card's compute capability, read from the driver or known by its name; None if neither is known."""
    from_driver = value_of(card.compute_capability)
    name = value_of(card.name)
    return from_driver or (capability_of(name) if name else None)


def oldest_capability(machine: Machine) -> str | None:
    """Return the oldest compute capability among the cards: a build that runs on all cards must have code for it."""
    known = [number for number in map(capability, nvidia_cards(machine)) if number]
    return min(known, key=parse_version, default=None)


def architecture(card: Card) -> Architecture | None:
    known = capability(card)
    return architecture_of(known) if known else None


def architecture_name(card: Card) -> str:
    """ "Volta", or that the architecture is unknown."""
    family = architecture(card)
    return family.name if family else text("unknown architecture")


# Frameworks and packages of the interpreter


def frameworks_of(machine: Machine) -> tuple[Framework, ...]:
    """Return the frameworks of the selected interpreter."""
    return value_of(machine.interpreter.frameworks) or ()


def framework(machine: Machine, name: str) -> Framework | None:
    """Return one framework by its name."""
    return next((each for each in frameworks_of(machine) if each.name == name), None)


def framework_name(installed: Framework) -> str:
    """ "torch 2.11.0+cu130"."""
    version = value_of(installed.version)
    return f"{installed.name} {version}" if version else installed.name


def cuda_builds(machine: Machine) -> tuple[Framework, ...]:
    """Return the frameworks that are built for CUDA."""
    return tuple(each for each in frameworks_of(machine) if value_of(each.build) == "cuda")


def sees_devices(installed: Framework) -> bool:
    """Whether a framework found an accelerator."""
    return isinstance(installed.devices, Known) and bool(installed.devices.value)


def any_framework_works(machine: Machine) -> bool:
    """Whether any framework found an accelerator: then a problem of another one does not block GPU work."""
    return any(sees_devices(each) for each in frameworks_of(machine))


def package_version(machine: Machine, name: str) -> str | None:
    """Return the version of a package in the selected interpreter."""
    packages = value_of(machine.interpreter.packages) or ()
    return next((each.version for each in packages if each.name.lower().replace("_", "-") == name), None)


# The system


def family_of(machine: Machine) -> str:
    """Return linux, darwin or windows; linux if unknown, because most machines with NVIDIA cards run it."""
    return value_of(machine.host.family) or "linux"


def variable(machine: Machine, name: str) -> str | None:
    """Return an environment variable's value; None if it is not set or unknown."""
    variables = value_of(machine.environment) or ()
    return next((each.value for each in variables if each.name == name), None)


def module_loaded(machine: Machine, name: str = "nvidia") -> bool | None:
    """Whether a kernel module is loaded; None if unknown."""
    if name == "nvidia" and isinstance(machine.nvidia.module_version, Known):
        return True
    modules = value_of(machine.host.modules)
    return None if modules is None else name in modules


def is_wsl(machine: Machine) -> bool:
    """Whether this is WSL: known as such, or nvidia-smi (535.104.12) is Linux's and the driver (537.42) Windows's."""
    virtualisation = value_of(machine.host.virtualisation)
    if virtualisation is not None:
        return virtualisation.startswith("wsl")
    smi, driver = (parse_version(value_of(fact) or "") for fact in (machine.nvidia.smi, machine.nvidia.driver))
    return len(smi) == 3 and len(driver) == 2 and smi[0] <= driver[0] and smi[:2] != driver


def is_musl(machine: Machine) -> bool:
    """Whether the C library is musl: framework wheels and NVIDIA's driver libraries are built for glibc."""
    return (value_of(machine.host.libc) or "").startswith("musl")


def container_kind(machine: Machine) -> str | None:
    """Return the kind of container around this process; None outside a container, or if unknown."""
    kind = value_of(machine.host.container)
    return None if kind in (None, "none") else kind


def driver_family(machine: Machine) -> str:
    """Return the system whose driver numbers apply: WSL uses the Windows driver."""
    return "windows" if is_wsl(machine) or value_of(machine.host.family) == "windows" else "linux"


# Formatting of names and evidence


def name_cards(cards: Iterable[Card]) -> str:
    """ "2 × NVIDIA A100, 1 × Tesla T4"."""
    counted = Counter(
        value_of(card.name) or text("{maker} card", maker=_MAKERS.get(card.vendor, card.vendor)) for card in cards
    )
    return listing(
        (text("{count} × {name}", count=count, name=name) for name, count in counted.items()), "{items}, {last}"
    )


def card_name(card: Card) -> str:
    """ "card 0 (NVIDIA H200)"."""
    name = value_of(card.name)
    return (
        text("card {index} ({name})", index=card.index, name=name) if name else text("card {index}", index=card.index)
    )


def describe_cards(cards: Iterable[Card], detail: Callable[[Card], str] | None = None) -> list[str]:
    """Return one line per card, or per group of cards with the same name and detail.

    "card 0 (Tesla T4): Turing"; "8 × Tesla V100-SXM2-16GB (cards 0 to 7): Volta".
    """
    groups: dict[tuple[str | None, str], list[Card]] = {}
    for card in cards:
        groups.setdefault((value_of(card.name), detail(card) if detail else ""), []).append(card)
    return [
        text("{cards}: {detail}", cards=_name_group(group, name), detail=about) if about else _name_group(group, name)
        for (name, about), group in groups.items()
    ]


def _name_group(cards: list[Card], name: str | None) -> str:
    if len(cards) == 1:
        return card_name(cards[0])
    indices = [card.index for card in cards]
    consecutive = len(indices) > 2 and indices == list(range(indices[0], indices[-1] + 1))
    numbers = (
        text("cards {first} to {last}", first=indices[0], last=indices[-1])
        if consecutive
        else text("cards {numbers}", numbers=listing(indices))
    )
    return text("{count} × {name} ({numbers})", count=len(cards), name=name, numbers=numbers) if name else numbers


def describe_fact(label: str | None, fact: Known[Any] | Unknown) -> str:
    """Return a fact as evidence: "driver 580.159.04 (NVML)"; "driver unknown: nvidia-smi is not installed"."""
    if isinstance(fact, Unknown):
        return text("{label} unknown: {reason}", label=label or "", reason=fact.reason)
    value = f"{fact.value:g}" if isinstance(fact.value, float) else str(fact.value)
    if fact.unit and fact.unit != "B":
        value = f"{value} {fact.unit}"
    if label is None:
        return text("{value} ({source})", value=value, source=fact.source)
    return text("{label} {value} ({source})", label=label, value=value, source=fact.source)


def known_facts(*labelled: tuple[str, Known[Any] | Unknown]) -> list[str]:
    """Return those of the labelled facts that are known, as evidence."""
    return [describe_fact(label, fact) for label, fact in labelled if isinstance(fact, Known)]

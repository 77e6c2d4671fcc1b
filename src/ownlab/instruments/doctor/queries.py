"""Questions about a machine that several rules ask, and how a fact is quoted as evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from ownlab.catalog.architectures import Architecture, architecture_of, capability_of
from ownlab.catalog.versions import parse_version
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Machine, PciDevice

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
    "join",
    "module_loaded",
    "name_cards",
    "nvidia_cards",
    "nvidia_on_pci",
    "oldest_capability",
    "package",
    "sees_devices",
    "variable",
]

T = TypeVar("T")

_NVIDIA, _AMD = "10de", "1002"


def nvidia_cards(machine: Machine) -> tuple[Card, ...]:
    """NVIDIA's cards, as far as the driver shows them."""
    return tuple(card for card in value_of(machine.cards) or () if card.vendor == "nvidia")


def card_name(card: Card) -> str:
    """ "card 0 (NVIDIA H200)"."""
    name = value_of(card.name)
    return f"card {card.index} ({name})" if name else f"card {card.index}"


def describe_cards(cards: Iterable[Card], say: Callable[[Card], str]) -> list[str]:
    """What is to be said of cards, each after its name; once for cards of one name of which the same is said.

    "card 0 (Tesla T4): Turing"; "8 × Tesla V100-SXM2-16GB (cards 0 to 7): Volta".
    """
    alike: dict[tuple[str | None, str], list[Card]] = {}
    for card in cards:
        alike.setdefault((value_of(card.name), say(card)), []).append(card)
    return [f"{_name_together(group, name)}{said}" for (name, said), group in alike.items()]


def _name_together(cards: list[Card], name: str | None) -> str:
    if len(cards) == 1:
        return card_name(cards[0])
    indices = [card.index for card in cards]
    in_a_row = len(indices) > 2 and indices == list(range(indices[0], indices[-1] + 1))
    numbers = f"cards {indices[0]} to {indices[-1]}" if in_a_row else f"cards {join(map(str, indices))}"
    return f"{len(cards)} × {name} ({numbers})" if name else numbers


def is_healthy(card: Card) -> bool:
    """Whether the driver has read this card now and found it sound: then an older line of the log is over."""
    return value_of(card.health) == "OK"


def capability(card: Card) -> str | None:
    """A card's compute capability: read from the driver, else known by its name; None where neither tells."""
    read = value_of(card.compute_capability)
    name = value_of(card.name)
    return read or (capability_of(name) if name else None)


def frameworks_of(machine: Machine) -> tuple[Framework, ...]:
    """The frameworks of the interpreter asked about."""
    return value_of(machine.interpreter.frameworks) or ()


def framework(machine: Machine, name: str) -> Framework | None:
    """One framework by its name."""
    return next((one for one in frameworks_of(machine) if one.name == name), None)


def framework_name(one: Framework) -> str:
    """ "torch 2.11.0+cu130"."""
    version = value_of(one.version)
    return f"{one.name} {version}" if version else one.name


def sees_devices(one: Framework) -> bool:
    """Whether a framework was seen to reach an accelerator."""
    return isinstance(one.devices, Known) and bool(one.devices.value)


def any_framework_works(machine: Machine) -> bool:
    """Whether any framework was seen to reach an accelerator: then one that does not is no reason to say no."""
    return any(sees_devices(one) for one in frameworks_of(machine))


def family_of(machine: Machine) -> str:
    """linux, darwin or windows; linux where it is not known, as NVIDIA's machines mostly are."""
    return value_of(machine.host.family) or "linux"


def package(machine: Machine, name: str) -> str | None:
    """The version of a package in the interpreter asked about."""
    packages = value_of(machine.interpreter.packages) or ()
    return next((one.version for one in packages if one.name.lower().replace("_", "-") == name), None)


def variable(machine: Machine, name: str) -> str | None:
    """An environment variable's value; None where it is not set or not known."""
    variables = value_of(machine.environment) or ()
    return next((one.value for one in variables if one.name == name), None)


def nvidia_on_pci(machine: Machine) -> tuple[PciDevice, ...] | None:
    """NVIDIA's devices on the bus, whether or not a driver serves them; None where the bus tells nothing of them.

    WSL shows no card on its bus (it comes through /dev/dxg), so there an empty list would say nothing.
    """
    devices = value_of(machine.host.pci)
    if devices is None or is_wsl(machine):
        return None
    return tuple(device for device in devices if device.vendor == _NVIDIA)


def module_loaded(machine: Machine, name: str = "nvidia") -> bool | None:
    """Whether a kernel module is loaded; None where that is not known."""
    if name == "nvidia" and isinstance(machine.nvidia.module_version, Known):
        return True
    modules = value_of(machine.host.modules)
    return None if modules is None else name in modules


def cuda_builds(machine: Machine) -> tuple[Framework, ...]:
    """The frameworks that were built for CUDA."""
    return tuple(one for one in frameworks_of(machine) if value_of(one.build) == "cuda")


def is_wsl(machine: Machine) -> bool:
    """Whether this is WSL: it is said, or nvidia-smi (535.104.12) is Linux's and the driver (537.42) is Windows's."""
    said = value_of(machine.host.virtualisation)
    if said is not None:
        return said.startswith("wsl")
    smi, driver = (parse_version(value_of(fact) or "") for fact in (machine.nvidia.smi, machine.nvidia.driver))
    return len(smi) == 3 and len(driver) == 2 and smi[0] <= driver[0] and smi[:2] != driver


def is_musl(machine: Machine) -> bool:
    """Whether the C library is musl: wheels of the frameworks, and NVIDIA's driver libraries, are made for glibc."""
    return (value_of(machine.host.libc) or "").startswith("musl")


def container_kind(machine: Machine) -> str | None:
    """The kind of container that we are in; None where we are in none, or do not know."""
    kind = value_of(machine.host.container)
    return None if kind in (None, "none") else kind


def driver_family(machine: Machine) -> str:
    """Whose driver numbers count here: WSL is served by the driver of Windows."""
    return "windows" if is_wsl(machine) or value_of(machine.host.family) == "windows" else "linux"


def oldest_capability(machine: Machine) -> str | None:
    """The oldest compute capability among the cards: what a build must have code for, to run on all of them."""
    known = [found for found in map(capability, nvidia_cards(machine)) if found]
    return min(known, key=parse_version, default=None)


def architecture(card: Card) -> Architecture | None:
    known = capability(card)
    return architecture_of(known) if known else None


def architecture_name(card: Card) -> str:
    """ "Volta"; for a card that no table knows, that it is not known."""
    found = architecture(card)
    return found.name if found else "architecture not known"


def describe_fact(label: str, fact: Known[T] | Unknown) -> str:
    """A fact as evidence: "driver 580.159.04 (NVML)"; "driver unknown: nvidia-smi is not installed"."""
    if isinstance(fact, Unknown):
        return f"{label} unknown: {fact.reason}"
    unit = f" {fact.unit}" if fact.unit and fact.unit != "B" else ""
    value = f"{fact.value:g}" if isinstance(fact.value, float) else fact.value
    return f"{label} {value}{unit} ({fact.source})"


def join(words: Iterable[str]) -> str:
    """ "a, b and c"."""
    listed = list(words)
    return listed[0] if len(listed) == 1 else ", ".join(listed[:-1]) + f" and {listed[-1]}" if listed else ""


def accelerators_of(machine: Machine) -> tuple[Card, ...]:
    """The cards that do deep-learning work; graphics inside the CPU is left out."""
    return tuple(card for card in value_of(machine.cards) or () if not card.integrated)


def has_accelerator(machine: Machine) -> bool:
    """Whether an accelerator is in this machine at all, served by a driver or not."""
    return bool(accelerators_of(machine)) or accelerator_on_bus(machine)


def accelerator_on_bus(machine: Machine) -> bool:
    """A card that no driver need serve. AMD's display controllers are mostly graphics inside a Ryzen, and prove nothing."""
    return any(
        device.vendor == _NVIDIA or (device.vendor == _AMD and device.kind == "accelerator")
        for device in value_of(machine.host.pci) or ()
    )


_MAKERS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple", "google": "Google", "huawei": "Huawei"}


def name_cards(cards: Iterable[Card]) -> str:
    """ "2 × NVIDIA A100, 1 × Tesla T4"."""
    counted = Counter(value_of(card.name) or f"{_MAKERS.get(card.vendor, card.vendor)} card" for card in cards)
    return ", ".join(f"{count} × {name}" for name, count in counted.items())

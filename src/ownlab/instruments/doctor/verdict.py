"""One sentence: will GPU work run here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ownlab.catalog.versions import major_minor, parse_version
from ownlab.instruments.doctor.records import Case, Finding, ProductCheck, Verdict
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Card, Framework, Machine
from ownlab.units import format_bytes

__all__ = ["accelerators_of", "anything_there", "judge", "name_cards"]

_MAKERS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple", "google": "Google", "huawei": "Huawei"}
# PCI vendors whose display controllers and accelerators do deep-learning work; others (ASPEED, Matrox, QXL) draw screens.
_GPU_MAKERS = {"10de": "NVIDIA", "1002": "AMD"}


def judge(case: Case, findings: Iterable[Finding], checks: tuple[ProductCheck, ...] = ()) -> Verdict:
    """The verdict over a case and what was found in it."""
    machine = case.machine
    cards = accelerators_of(machine)
    blocking = [finding for finding in findings if finding.blocks]
    if blocking:
        return Verdict("no", f"GPU work will not run, because {_inline(blocking[0].title)}.")
    wrong = next((check for check in checks if not check.passed and check.error is None), None)
    if wrong is not None:
        return Verdict("no", f"GPU work will not run right: {wrong.framework} computed wrongly on {wrong.name}.")
    working = [framework for framework in _frameworks(machine) if value_of(framework.devices)]
    if working:
        return _with_frameworks(machine, cards, working, {check.framework for check in checks if not check.passed})
    if cards:
        return _with_cards(machine, cards)
    if _surely_none(machine):
        return Verdict("no", f"There is no accelerator here; work runs on the CPU{_cpu(machine)}.")
    return Verdict("unknown", "Whether GPU work will run cannot be told from this alone.")


def _with_frameworks(machine: Machine, cards: tuple[Card, ...], working: list[Framework], failed: set[str]) -> Verdict:
    """Frameworks that see a device; those that failed to compute on it (--verify) are told apart."""
    names = " and ".join(sorted(failed))
    able = [framework for framework in working if framework.name not in failed]
    if not able:
        return Verdict("no", f"GPU work will not run: {names} failed to compute on the device.")
    but = f"; but {names} failed to compute there" if failed else ""
    return Verdict("yes", f"GPU work will run: {_what_runs(machine, cards, able)}{but}.")


def _with_cards(machine: Machine, cards: tuple[Card, ...]) -> Verdict:
    """Cards without a framework that was seen to use them."""
    named = name_cards(cards)
    builds = [framework for framework in _frameworks(machine) if value_of(framework.build) not in (None, "cpu")]
    driver = value_of(machine.nvidia.driver)
    if isinstance(machine.interpreter.frameworks, Known) and not machine.interpreter.frameworks.value:
        path = value_of(machine.interpreter.path) or "this Python"
        return Verdict("unknown", f"The accelerator is ready ({named}), but {path} has no framework to use it with.")
    blind = [framework for framework in _frameworks(machine) if value_of(framework.devices) == ()]
    if blind:
        names = " and ".join(framework.name for framework in blind)
        return Verdict("no", f"GPU work will not run: {names} sees none of {named}, and no rule says why.")
    if machine.origin == "pasted" and builds and driver:
        # Nothing that is known stands in the way, though nobody saw a framework reach the card.
        return Verdict("yes", f"GPU work should run: {_what_runs(machine, cards, builds)}.")
    if driver:
        return Verdict(
            "unknown", f"Driver {driver} serves {named}; whether work runs depends on the framework, not known here."
        )
    return Verdict("unknown", f"Whether GPU work will run on {named} cannot be told from this alone.")


def accelerators_of(machine: Machine) -> tuple[Card, ...]:
    """The cards that do deep-learning work; graphics inside the CPU is left out."""
    return tuple(card for card in value_of(machine.cards) or () if not card.integrated)


def name_cards(cards: Iterable[Card]) -> str:
    """ "2 × NVIDIA A100, 1 × Tesla T4"."""
    counted = Counter(value_of(card.name) or f"{_MAKERS.get(card.vendor, card.vendor)} card" for card in cards)
    return ", ".join(f"{count} × {name}" for name, count in counted.items())


def _what_runs(machine: Machine, cards: tuple[Card, ...], frameworks: list[Framework]) -> str:
    if not cards:
        seen = Counter(device.name for device in value_of(frameworks[0].devices) or ())
        named = ", ".join(f"{count} × {name}" for name, count in seen.items())
    else:
        named = name_cards(cards)
    said = [named, *(_name_framework(framework) for framework in frameworks)]
    driver = value_of(machine.nvidia.driver)
    version = parse_version(driver) if driver else ()
    return ", ".join(said) + (f" on driver {version[0]}" if version else "")


def _name_framework(framework: Framework) -> str:
    version = value_of(framework.version)
    cuda, rocm = value_of(framework.cuda), value_of(framework.rocm)
    built = f" (CUDA {major_minor(cuda)})" if cuda else f" (ROCm {major_minor(rocm)})" if rocm else ""
    return f"{framework.name} {major_minor(version) if version else ''}".rstrip() + built


def _frameworks(machine: Machine) -> tuple[Framework, ...]:
    return value_of(machine.interpreter.frameworks) or ()


def anything_there(machine: Machine) -> bool:
    """Whether an accelerator is in this machine at all, served by a driver or not."""
    return bool(accelerators_of(machine)) or _on_the_bus(machine)


def _on_the_bus(machine: Machine) -> bool:
    return any(device.vendor in _GPU_MAKERS for device in value_of(machine.host.pci) or ())


def _surely_none(machine: Machine) -> bool:
    """Whether every place where an accelerator would show itself was looked at."""
    return isinstance(machine.cards, Known) and not _on_the_bus(machine)


def _cpu(machine: Machine) -> str:
    cpu, memory = machine.host.cpu, machine.host.memory
    parts = [part for part in (value_of(cpu.model),) if part]
    cores = value_of(cpu.usable_cores)
    if cores is not None:
        parts.append(f"{cores:g} usable core{'' if cores == 1 else 's'}")
    limits = [size for size in (value_of(memory.cgroup_limit), value_of(memory.total)) if size is not None]
    if limits:
        parts.append(f"{format_bytes(min(limits))} of memory")
    return f": {', '.join(parts)}" if parts else ""


def _inline(title: str) -> str:
    """A title inside a sentence: "The driver is too old" -> "the driver is too old"; "NVIDIA's …" stays."""
    return title[0].lower() + title[1:] if title[1:2].islower() and not title.startswith("Xid") else title

"""From a case to a diagnosis: every rule looks at it, then the verdict is drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ownlab.catalog.versions import major_minor, parse_version
from ownlab.instruments.doctor.queries import accelerator_on_bus, accelerators_of, has_accelerator, is_wsl, name_cards
from ownlab.instruments.doctor.records import Case, Diagnosis, Finding, Message, ProductCheck, Verdict
from ownlab.instruments.doctor.rules import RULES
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Machine
from ownlab.units import format_bytes

__all__ = ["case_of", "decide_verdict", "diagnose"]

_ORDER = {"error": 0, "warning": 1, "note": 2}


def diagnose(case: Case, checks: tuple[ProductCheck, ...] = ()) -> Diagnosis:
    """Findings, worst first and in the order of causes, and the verdict over them."""
    found = [finding for rule in RULES for finding in rule().check(case)]
    # Rules stand in the order of causes; sorting keeps it within a severity, and puts what blocks first.
    findings: tuple[Finding, ...] = tuple(sorted(found, key=lambda one: (_ORDER[one.severity], not one.blocks)))
    return Diagnosis(
        verdict=decide_verdict(case, findings, checks),
        findings=findings,
        machine=case.machine,
        checks=checks,
        recognised=case.recognised,
        missing=case.missing,
    )


def case_of(machine: Machine) -> Case:
    """The case of a machine that was read: all that its programs said is listened to."""
    return Case(machine=machine, messages=tuple(_messages_of(machine)))


def _messages_of(machine: Machine) -> Iterator[Message]:
    for where, fact in (("NVML", machine.nvidia.nvml), ("nvidia-smi", machine.nvidia.smi)):
        if isinstance(fact, Unknown):
            yield Message(fact.reason, where)
    for card in value_of(machine.cards) or ():
        health = value_of(card.health)
        if health and health != "OK":
            yield Message(health, f"card {card.index}")
    no_card = isinstance(machine.cards, Known) and not has_accelerator(machine) and not is_wsl(machine)
    for framework in value_of(machine.interpreter.frameworks) or ():
        # Where there is no card, a framework's complaint that it finds none ("insufficient driver") is no sign of trouble.
        if framework.error and (framework.failure or not no_card):
            yield Message(framework.error, framework.name)
    for line in value_of(machine.host.kernel_log) or ():
        yield Message(line, "kernel log")


# First words of titles that are no names.
_PLAIN_WORDS = {"A", "An", "Another", "Each", "It", "No", "Parts", "Some", "The", "There", "This", "Two"}


def decide_verdict(case: Case, findings: Iterable[Finding], checks: tuple[ProductCheck, ...] = ()) -> Verdict:
    """The verdict over a case and what was found in it."""
    machine = case.machine
    cards = accelerators_of(machine)
    found = tuple(findings)
    blocking = [finding for finding in found if finding.blocks]
    if blocking:
        return Verdict("no", f"GPU work will not run, because {_inline(blocking[0].title)}.")
    wrong = next((check for check in checks if check.wrong), None)
    if wrong is not None:
        where = f"{wrong.name} ({wrong.device})"
        return Verdict("no", f"GPU work will not run right: {wrong.framework} computed wrongly on {where}.")
    working = [framework for framework in _frameworks(machine) if value_of(framework.devices)]
    if working:
        return _with_frameworks(machine, cards, working, checks)
    if cards:
        return _with_cards(machine, cards, found)
    if _surely_none(machine):
        return Verdict("no", f"There is no accelerator here; work runs on the CPU{_cpu(machine)}.")
    if case.messages and not found:
        return Verdict("unknown", "No rule knows these words; whether GPU work will run cannot be told from them.")
    return _cannot_tell(found, "Whether GPU work will run cannot be told from this alone.")


def _cannot_tell(found: tuple[Finding, ...], sentence: str) -> Verdict:
    """Where a trouble was found that stops one program, that comes first: it is what was asked about."""
    if found and found[0].severity != "note":
        return Verdict("unknown", f"{found[0].title}. {sentence}")
    return Verdict("unknown", sentence)


def _with_frameworks(
    machine: Machine, cards: tuple[Card, ...], working: list[Framework], checks: tuple[ProductCheck, ...]
) -> Verdict:
    """Frameworks that see a device; where they were put to the proof, what failed is told apart."""
    failed = {(check.framework, check.device) for check in checks if not check.passed}
    proven = {(check.framework, check.device) for check in checks} - failed
    able = [one for one in working if not checks or any(name == one.name for name, _ in proven)]
    lame = " and ".join(sorted({name for name, _ in failed} - {one.name for one in able}))
    if not able:
        return Verdict("no", f"GPU work will not run: {lame} failed to compute on the device.")
    partly = [
        f"{name} failed to compute on {device}"
        for name, device in sorted(failed)
        if any(one.name == name for one in able)
    ]
    but = [f"{lame} failed to compute there"] if lame else []
    return Verdict(
        "yes", "; but ".join([f"GPU work will run: {_what_runs(machine, cards, able)}", *but, *partly]) + "."
    )


def _with_cards(machine: Machine, cards: tuple[Card, ...], found: tuple[Finding, ...]) -> Verdict:
    """Cards without a framework that was seen to use them."""
    named = name_cards(cards)
    builds = [framework for framework in _frameworks(machine) if value_of(framework.build) not in (None, "cpu")]
    driver = value_of(machine.nvidia.driver)
    if isinstance(machine.interpreter.frameworks, Known) and not machine.interpreter.frameworks.value:
        path = value_of(machine.interpreter.path) or "this Python"
        return Verdict("unknown", f"There is {named}, but {path} has no framework to use it with.")
    blind = [framework for framework in _frameworks(machine) if value_of(framework.devices) == ()]
    if blind:
        names = " and ".join(framework.name for framework in blind)
        return Verdict("no", f"GPU work will not run: {names} sees none of {named}, and no rule says why.")
    if machine.origin == "pasted" and builds and driver:
        # Nothing that is known stands in the way, though nobody saw a framework reach the card.
        return Verdict("yes", f"GPU work should run: {_what_runs(machine, cards, builds)}.")
    if driver:
        serves = f"Driver {driver} serves {named}; whether work runs depends on the framework, not known here."
        return _cannot_tell(found, serves)
    return _cannot_tell(found, f"Whether GPU work will run on {named} cannot be told from this alone.")


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


def _surely_none(machine: Machine) -> bool:
    """Whether every place where an accelerator would show itself was looked at."""
    return isinstance(machine.cards, Known) and not accelerator_on_bus(machine)


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
    """A title inside a sentence: "The driver is too old" -> "the driver is too old"; names stay as they are."""
    first, _, rest = title.partition(" ")
    return f"{first.lower()} {rest}" if first in _PLAIN_WORDS else title

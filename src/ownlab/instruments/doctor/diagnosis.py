"""From a case to a diagnosis: run every rule, sort the findings, decide the verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from ownlab.catalog.versions import major_minor, parse_version
from ownlab.instruments.doctor.decoding import with_decoded_messages
from ownlab.instruments.doctor.differential import with_other_causes
from ownlab.instruments.doctor.queries import (
    accelerator_on_bus,
    accelerators_of,
    frameworks_of,
    has_accelerator,
    is_wsl,
    name_cards,
)
from ownlab.instruments.doctor.records import Case, Diagnosis, Finding, Message, ProductCheck, Verdict
from ownlab.instruments.doctor.rules import RULES
from ownlab.instruments.doctor.rules.software.harmless_notices import HarmlessNotice
from ownlab.instruments.doctor.rules.software.last_resort import KnownComponent, SeveralCauses
from ownlab.instruments.doctor.safety import safe_steps
from ownlab.instruments.doctor.situations import with_situation
from ownlab.instruments.doctor.system_steps import steps_for
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Card, Framework, Machine
from ownlab.text import in_english, listing, plural, sentences, text
from ownlab.units import format_bytes

__all__ = ["case_of", "decide_verdict", "diagnose"]

_ORDER = {"error": 0, "warning": 1, "note": 2}
_LAST_RESORT = frozenset((SeveralCauses.code, KnownComponent.code))


def diagnose(case: Case, checks: tuple[ProductCheck, ...] = ()) -> Diagnosis:
    """Run every rule over a case; return the findings, worst first and causes before effects, and the verdict."""
    case = with_decoded_messages(case)
    unsorted = [finding for rule in RULES if not rule.last_resort for finding in rule().check(case)]
    for rule in RULES:
        # A note of last resort says that nothing is known: it stands alone, or beside remarks on the machine. The others may follow warnings.
        told = [finding for finding in unsorted if finding.severity != "note" or finding.code == HarmlessNotice.code]
        alone = not told if rule.severity == "note" else all(finding.severity != "error" for finding in unsorted)
        if rule.last_resort and alone:
            unsorted += rule().check(case)
    of_rules = unsorted
    unsorted = with_situation(case, unsorted)
    if unsorted is not of_rules:  # a situation explains the text: the rules of last resort have nothing to add
        unsorted = [finding for finding in unsorted if finding.code not in _LAST_RESORT]
    # RULES lists causes before effects. The stable sort keeps that order within a severity, blocking findings first.
    ordered = sorted(unsorted, key=lambda finding: (_ORDER[finding.severity], not finding.blocks))
    signs = unsorted[:1] == ordered[:1] and unsorted[:1] != of_rules[:1]
    findings = tuple(
        msgspec.structs.replace(finding, fix=safe_steps(case, finding, steps_for(case.machine, finding.fix)))
        for finding in with_other_causes(case, ordered, signs=signs)
    )
    return Diagnosis(
        verdict=decide_verdict(case, findings, checks),
        findings=findings,
        machine=case.machine,
        checks=checks,
        recognised=case.recognised,
        missing=case.missing,
    )


def case_of(machine: Machine) -> Case:
    """Return the case of a machine that was read, with every message its facts contain."""
    return Case(machine=machine, messages=tuple(_messages_of(machine)))


def _messages_of(machine: Machine) -> Iterator[Message]:
    """Rules recognise messages by their words, so our own are in English, too."""
    for where, fact in (("NVML", machine.nvidia.nvml), ("nvidia-smi", machine.nvidia.smi)):
        if isinstance(fact, Unknown):
            yield Message(in_english(fact.reason), where)
    for card in value_of(machine.cards) or ():
        health = value_of(card.health)
        if health and health != "OK":
            yield Message(in_english(health), text("card {index}", index=card.index))
    no_card = isinstance(machine.cards, Known) and not has_accelerator(machine) and not is_wsl(machine)
    for framework in frameworks_of(machine):
        # Without a card, a framework's complaint that it finds none ("insufficient driver") is not a problem.
        if framework.error and (framework.failure or not no_card):
            yield Message(in_english(framework.error), framework.name)
    for line in value_of(machine.host.kernel_log) or ():
        yield Message(line, text("kernel log"))


def decide_verdict(case: Case, findings: Iterable[Finding], checks: tuple[ProductCheck, ...] = ()) -> Verdict:
    """Return the verdict for a case, its findings and the results of --verify."""
    machine = case.machine
    cards = accelerators_of(machine)
    findings = tuple(findings)
    blocking = next((finding for finding in findings if finding.blocks), None)
    if blocking is not None:
        return Verdict("no", text("GPU work will not run. {problem}.", problem=blocking.title))
    wrong = next((check for check in checks if check.wrong), None)
    if wrong is not None:
        return Verdict(
            "no",
            text(
                "GPU work will not run correctly: {framework} computed a wrong result on {card} ({device}).",
                framework=wrong.framework,
                card=wrong.name,
                device=wrong.device,
            ),
        )
    working = [framework for framework in frameworks_of(machine) if value_of(framework.devices)]
    if working:
        return _verdict_with_frameworks(machine, cards, working, checks)
    if cards:
        return _verdict_with_cards(machine, cards, findings)
    if isinstance(machine.cards, Known) and not accelerator_on_bus(machine):
        return Verdict("no", _cpu_only(machine))
    if findings and all(finding.code == HarmlessNotice.code for finding in findings):
        return Verdict("unknown", _only_harmless(case))
    if case.messages and not findings:
        return Verdict(
            "unknown", text("No rule recognises these messages. They do not show whether GPU work will run.")
        )
    return _unknown_verdict(findings, text("The available facts do not show whether GPU work will run."))


# What a program prints when it ends: such a line beside harmless notices means that something else is wrong.
_ENDED = re.compile(
    r"^\s*Traceback \(most recent|^[\w.]*(?:Error|Exception)\b: |\bcore dumped\b|\bfatal error\b", re.MULTILINE
)


def _only_harmless(case: Case) -> str:
    """Say that nothing is wrong, unless the program also ended with an error that no rule recognises."""
    if any(_ENDED.search(message.text) for message in case.messages):
        return text(
            "The messages that were recognised are harmless. If the program fails, the reason is its last error, which no rule recognises."
        )
    return text("Nothing is wrong: these messages are harmless, and do not stop GPU work.")


def _unknown_verdict(findings: tuple[Finding, ...], sentence: str) -> Verdict:
    """Put the first problem before the sentence: it is what the user asked about, though it stops one program only."""
    if findings and findings[0].severity != "note":
        return Verdict("unknown", sentences(text("{problem}.", problem=findings[0].title), sentence))
    return Verdict("unknown", sentence)


def _verdict_with_frameworks(
    machine: Machine, cards: tuple[Card, ...], working: list[Framework], checks: tuple[ProductCheck, ...]
) -> Verdict:
    """Decide where frameworks see a device; after --verify, name those that failed to compute."""
    failed = {(check.framework, check.device) for check in checks if not check.passed}
    passed = {(check.framework, check.device) for check in checks} - failed
    able = [framework for framework in working if not checks or any(name == framework.name for name, _ in passed)]
    able_names = {framework.name for framework in able}
    unable = sorted({name for name, _ in failed} - able_names)
    if not able:
        return Verdict(
            "no",
            text("GPU work will not run: {frameworks} failed to compute on the device.", frameworks=listing(unable)),
        )
    return Verdict(
        "yes",
        sentences(
            text("GPU work will run: {setup}.", setup=_describe_setup(machine, cards, able)),
            text("However, {frameworks} failed to compute.", frameworks=listing(unable)) if unable else None,
            *(
                text("However, {framework} failed to compute on {device}.", framework=name, device=device)
                for name, device in sorted(failed)
                if name in able_names
            ),
        ),
    )


def _verdict_with_cards(machine: Machine, cards: tuple[Card, ...], findings: tuple[Finding, ...]) -> Verdict:
    """Decide where there are cards, and no framework is known to see one."""
    names = name_cards(cards)
    builds = [framework for framework in frameworks_of(machine) if value_of(framework.build) not in (None, "cpu")]
    driver = value_of(machine.nvidia.driver)
    if isinstance(machine.interpreter.frameworks, Known) and not machine.interpreter.frameworks.value:
        python = value_of(machine.interpreter.path)
        if python is None:
            return Verdict(
                "unknown", text("This machine has {cards}, but this Python has no framework to use it.", cards=names)
            )
        return Verdict(
            "unknown",
            text("This machine has {cards}, but {python} has no framework to use it.", cards=names, python=python),
        )
    blind = [framework.name for framework in frameworks_of(machine) if value_of(framework.devices) == ()]
    if blind:
        return Verdict(
            "no",
            text(
                "GPU work will not run: {frameworks} did not find {cards}, and no rule explains why.",
                frameworks=listing(blind),
                cards=names,
            ),
        )
    if machine.origin == "pasted" and builds and driver:
        # No known problem, though the paste does not show a framework that uses the card.
        return Verdict("yes", text("GPU work should run: {setup}.", setup=_describe_setup(machine, cards, builds)))
    if driver:
        return _unknown_verdict(
            findings,
            text(
                "Driver {driver} supports {cards}. Whether GPU work will run depends on the framework, which is unknown.",
                driver=driver,
                cards=names,
            ),
        )
    return _unknown_verdict(
        findings, text("The available facts do not show whether GPU work will run on {cards}.", cards=names)
    )


def _describe_setup(machine: Machine, cards: tuple[Card, ...], frameworks: list[Framework]) -> str:
    """ "1 × NVIDIA H200, torch 2.11 (CUDA 13.0) on driver 580"."""
    if cards:
        names = name_cards(cards)
    else:
        counted = Counter(device.name for device in value_of(frameworks[0].devices) or ())
        names = listing((f"{count} × {name}" for name, count in counted.items()), "{items}, {last}")
    versions = listing((_framework_version(framework) for framework in frameworks), "{items}, {last}")
    driver = parse_version(value_of(machine.nvidia.driver) or "")
    if driver:
        return text("{cards}, {frameworks} on driver {driver}", cards=names, frameworks=versions, driver=driver[0])
    return text("{cards}, {frameworks}", cards=names, frameworks=versions)


def _framework_version(framework: Framework) -> str:
    version = value_of(framework.version)
    cuda, rocm = value_of(framework.cuda), value_of(framework.rocm)
    built = f" (CUDA {major_minor(cuda)})" if cuda else f" (ROCm {major_minor(rocm)})" if rocm else ""
    return f"{framework.name} {major_minor(version) if version else ''}".rstrip() + built


def _cpu_only(machine: Machine) -> str:
    cpu, memory = machine.host.cpu, machine.host.memory
    parts: list[str] = [model for model in (value_of(cpu.model),) if model]
    cores = value_of(cpu.usable_cores)
    if cores is not None:
        singular = 1 if cores == 1 else 2
        parts.append(plural(singular, "{cores} usable core", "{cores} usable cores", cores=f"{cores:g}"))
    limits = [size for size in (value_of(memory.cgroup_limit), value_of(memory.total)) if size is not None]
    if limits:
        parts.append(text("{size} of memory", size=format_bytes(min(limits))))
    if not parts:
        return text("This machine has no accelerator; work runs on the CPU.")
    return text("This machine has no accelerator; work runs on the CPU: {cpu}.", cpu=listing(parts, "{items}, {last}"))

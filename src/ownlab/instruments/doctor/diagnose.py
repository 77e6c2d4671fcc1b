"""From a case to a diagnosis: every rule looks at it, then the verdict is drawn."""

from __future__ import annotations

from collections.abc import Iterator

from ownlab.instruments.doctor.queries import is_wsl
from ownlab.instruments.doctor.records import Case, Diagnosis, Finding, Message, ProductCheck
from ownlab.instruments.doctor.rules import RULES
from ownlab.instruments.doctor.verdict import anything_there, judge
from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.records import Machine

__all__ = ["case_of", "diagnose"]

_ORDER = {"error": 0, "warning": 1, "note": 2}


def diagnose(case: Case, checks: tuple[ProductCheck, ...] = ()) -> Diagnosis:
    """Findings, worst first and in the order of causes, and the verdict over them."""
    found = [finding for rule in RULES for finding in rule().examine(case)]
    # Rules stand in the order of causes; sorting keeps it within a severity, and puts what blocks first.
    findings: tuple[Finding, ...] = tuple(sorted(found, key=lambda one: (_ORDER[one.severity], not one.blocks)))
    return Diagnosis(
        verdict=judge(case, findings, checks),
        findings=findings,
        machine=case.machine,
        checks=checks,
        recognised=case.recognised,
        missing=case.missing,
    )


def case_of(machine: Machine) -> Case:
    """The case of a machine that was read: all that its programs said is listened to."""
    return Case(machine=machine, messages=tuple(_said_on(machine)))


def _said_on(machine: Machine) -> Iterator[Message]:
    for where, fact in (("NVML", machine.nvidia.nvml), ("nvidia-smi", machine.nvidia.smi)):
        if isinstance(fact, Unknown):
            yield Message(fact.reason, where)
    for card in value_of(machine.cards) or ():
        health = value_of(card.health)
        if health and health != "OK":
            yield Message(health, f"card {card.index}")
    no_card = isinstance(machine.cards, Known) and not anything_there(machine) and not is_wsl(machine)
    for framework in value_of(machine.interpreter.frameworks) or ():
        # Where there is no card, a framework's complaint that it finds none ("insufficient driver") is no sign of trouble.
        if framework.error and (framework.failure or not no_card):
            yield Message(framework.error, framework.name)
    for line in value_of(machine.host.kernel_log) or ():
        yield Message(line, "kernel log")

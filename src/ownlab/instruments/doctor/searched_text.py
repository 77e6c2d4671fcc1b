"""One text of a case in which several signs are searched: what programs printed, and the facts, one on a line."""

from __future__ import annotations

from collections.abc import Iterator

from ownlab.instruments.doctor.records import Case
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card, Machine

__all__ = ["searched_text"]

# Of longer texts the beginning and the end are searched: hundreds of patterns over a whole log would take seconds.
_KEPT = 100_000


def searched_text(case: Case) -> str:
    """Return messages and facts (`fact: driver 535.183`) as one text, so that signs are patterns in it."""
    global _last  # a diagnosis asks several times for the same case
    known = _last
    if known is None or known[0] is not case:
        known = _last = (case, _text_of(case))
    return known[1]


_last: tuple[Case, str] | None = None


def _text_of(case: Case) -> str:
    printed = "\n".join(message.text for message in case.messages)
    if len(printed) > _KEPT:
        printed = f"{printed[: _KEPT // 2]}\n{printed[-_KEPT // 2 :]}"
    return "\n".join((printed, *_facts_of(case.machine)))


def _facts_of(machine: Machine) -> Iterator[str]:
    host, nvidia = machine.host, machine.nvidia
    named = (
        ("family", host.family),
        ("system", host.system),
        ("kernel", host.kernel),
        ("virtualisation", host.virtualisation),
        ("container", host.container),
        ("platform", host.platform),
        ("driver", nvidia.driver),
        ("cuda", nvidia.cuda),
        ("module", nvidia.module_version),
        ("flavour", nvidia.module_flavour),
        ("python", machine.interpreter.version),
        ("toolkit", machine.toolkits.nvcc),
    )
    for name, fact in named:
        if (value := value_of(fact)) is not None:
            yield f"fact: {name} {value}"
    if value_of(host.secure_boot):
        yield "fact: secure boot on"
    yield from map(_card_line, value_of(machine.cards) or ())
    for device in value_of(host.pci) or ():
        yield f"fact: pci {device.vendor} {device.kind} driver={device.driver or 'none'}"
    for variable in value_of(machine.environment) or ():
        yield f"fact: variable {variable.name}={variable.value}"
    for package in value_of(machine.interpreter.packages) or ():
        yield f"fact: package {package.name}=={package.version}"
    for framework in value_of(machine.interpreter.frameworks) or ():
        yield f"fact: framework {framework.name}=={value_of(framework.version)} build={value_of(framework.build)}"


def _card_line(card: Card) -> str:
    mig = " mig=on" if value_of(card.mig) else ""
    model = f" model={value_of(card.driver_model)}" if value_of(card.driver_model) else ""
    return f"fact: card {card.vendor} {value_of(card.name)}{mig}{model}"

"""The rule about Xid errors: the numbers with which the NVIDIA driver reports faults to the kernel log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from ownlab.catalog.xids import xid
from ownlab.instruments.doctor.queries import any_framework_works, is_healthy, nvidia_cards
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import on_host, rented_platform
from ownlab.instruments.doctor.rule import Rule
from ownlab.machine.facts import value_of
from ownlab.machine.records import Machine
from ownlab.text import listing, text

__all__ = ["XidErrors"]

_XID = re.compile(r"\bXid \((?:PCI:)?(?P<card>[\w:.]+)\): (?P<number>\d+)\b")
_RECOVERY_CHANGED = 154
_RECOVERY = re.compile(r"recovery action changed from .* to 0x\w+ \((?P<action>[^)]+)\)")
_BUS = re.compile(r"([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)")
_LINE_LENGTH = 240
_CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/"


class _XidLine(Struct, frozen=True):
    number: int
    card: str
    line: str


class XidErrors(Rule):
    """The kernel log contains Xid errors: NVIDIA's numbers for faults on a card.

    **Why it matters.** An Xid is the driver's own report of a fault. Some are caused by the program (13, 31, 43: a bad
    pointer, an illegal instruction), some by the card or its link (48, 74, 79, 95), some by the driver (119, 120). 45
    only follows another Xid; 154 names the recovery that is due. The log keeps them until the next boot, so an old one
    may no longer matter.

    **What to do.** Follow the advice for each Xid: restart the program, reset the card, reboot, or replace the card. The
    first Xid in time is the cause; the later ones are its consequences.

    **Sources.** NVIDIA Xid catalogue (docs.nvidia.com/deploy/xid-errors), and as gathered by leptonai/gpud, 2025-10-29.
    """

    code = "xid"
    severity = "warning"
    title = text("The kernel log contains an Xid error of the NVIDIA driver")

    def check(self, case: Case) -> Iterable[Finding]:
        by_number: dict[int, list[_XidLine]] = {}
        for line in _xid_lines(case):
            by_number.setdefault(line.number, []).append(line)
        for number, lines in by_number.items():
            yield self._finding_of(case.machine, number, lines)

    def _finding_of(self, machine: Machine, number: int, lines: list[_XidLine]) -> Finding:
        addresses = list(dict.fromkeys(line.card for line in lines))
        evidence = [_count(number, len(lines), addresses), lines[-1].line]
        known = xid(number)
        if known is None:
            return self.finding(
                title=text("Xid {number} in the kernel log", number=number),
                evidence=evidence,
                meaning=text("The meaning of Xid {number} is unknown.", number=number),
                fix=(text("Look it up in NVIDIA's catalogue: {url}", url=_CATALOGUE),),
            )
        recovery = _RECOVERY.search(lines[-1].line) if number == _RECOVERY_CHANGED else None
        due = recovery["action"] if recovery and recovery["action"] != "None" else None
        severe = due is not None or (known.severity == "error" and bool(re.search("reset|reboot", known.action or "")))
        advice = known.do.fill()
        if due:
            advice = text("{action}: {advice}", action=due, advice=advice)
        return self.finding(
            title=text("Xid {number}: {name}", number=number, name=known.name.fill()),
            evidence=evidence,
            meaning=known.meaning.fill(),
            fix=(
                on_host(machine, advice) if severe else advice,
                *([text("Or start a new session.")] if severe and rented_platform(machine) else []),
            ),
            severity="error" if due else known.severity,
            blocks=severe and not _another_card_works(machine, addresses),
        )


def _count(number: int, times: int, addresses: list[str]) -> str:
    cards = listing(f"PCI {address}" for address in addresses)
    if times == 1:
        return text("Xid {number}: on {cards}; the last one:", number=number, cards=cards)
    return text("Xid {number}: {times} times, on {cards}; the last one:", number=number, times=times, cards=cards)


def _another_card_works(machine: Machine, addresses: list[str]) -> bool:
    """Whether a framework sees a device, a card is healthy (the line may be days old), or there are other cards."""
    faulty = {_pci_address(address) for address in addresses}
    cards = nvidia_cards(machine)
    known = {_pci_address(value_of(card.bus_id) or "") for card in cards} - {None}
    return any_framework_works(machine) or any(map(is_healthy, cards)) or bool(known - faulty)


def _pci_address(bus_id: str) -> tuple[int, ...] | None:
    """Return domain, bus and device: the log writes 0000:9b:00, nvidia-smi 00000000:9B:00.0."""
    match = _BUS.match(bus_id)
    return tuple(int(part, 16) for part in match.groups()) if match else None


def _xid_lines(case: Case) -> Iterator[_XidLine]:
    """Yield each log line with an Xid, without duplicates, in the order in which they appear."""
    outputs = [*(value_of(case.machine.host.kernel_log) or ()), *(message.text for message in case.messages)]
    for line in dict.fromkeys(line.strip() for output in outputs for line in output.splitlines()):
        match = _XID.search(line)
        if match is not None:
            shown = line if len(line) <= _LINE_LENGTH else line[: _LINE_LENGTH - 1] + "…"
            yield _XidLine(int(match["number"]), match["card"], shown)

"""The rule about Xids: the numbers with which NVIDIA's driver reports a card's trouble to the kernel log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from ownlab.catalog.xids import xid
from ownlab.instruments.doctor.queries import any_framework_works, is_healthy, join, nvidia_cards
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import on_host, rented_platform
from ownlab.instruments.doctor.rule import Rule
from ownlab.machine.facts import value_of
from ownlab.machine.records import Machine

__all__ = ["XidErrors"]

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<card>[\w:.]+)\): (?P<number>\d+)\b")
_RECOVERY_CHANGED = 154
_RECOVERY = re.compile(r"recovery action changed from .* to 0x\w+ \((?P<action>[^)]+)\)")
_BUS = re.compile(r"([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)")
_LINE_LENGTH = 240
_CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/"


class _XidLine(Struct, frozen=True):
    number: int
    card: str
    text: str


class XidErrors(Rule):
    """The kernel log has Xids: NVIDIA's numbers for what went wrong on a card.

    **Why it matters.** An Xid is the driver's own word on a fault. Some are the program's (13, 31, 43: a bad pointer, an
    illegal instruction), some the card's or its link's (48, 74, 79, 95), some the driver's (119, 120). 45 only follows
    another one; 154 says which recovery is due. The log keeps them until the next boot: an old one may be over.

    **What to do.** As the table says for each: restart the program, reset the card, reboot, or have it replaced. The
    first Xid in time is the cause, what follows its consequence.

    **Sources.** NVIDIA Xid catalogue (docs.nvidia.com/deploy/xid-errors), and as gathered by leptonai/gpud, 2025-10-29.
    """

    code = "xid"
    severity = "warning"
    title = "The kernel log has an Xid of NVIDIA's driver"

    def check(self, case: Case) -> Iterable[Finding]:
        by_number: dict[int, list[_XidLine]] = {}
        for line in _lines(case):
            by_number.setdefault(line.number, []).append(line)
        for number, lines in by_number.items():
            yield self._finding(case.machine, number, lines)

    def _finding(self, machine: Machine, number: int, lines: list[_XidLine]) -> Finding:
        cards = list(dict.fromkeys(line.card for line in lines))
        times = f"{len(lines)} times, " if len(lines) > 1 else ""
        evidence = [f"Xid {number}: {times}on {join(f'PCI {card}' for card in cards)}; the last:", lines[-1].text]
        known = xid(number)
        if known is None:
            return self.finding(
                title=f"Xid {number} in the kernel log",
                evidence=evidence,
                meaning=f"None of our sources tells what Xid {number} means.",
                fix=(f"Look it up in NVIDIA's catalogue: {_CATALOGUE}",),
            )
        recovery = _RECOVERY.search(lines[-1].text) if number == _RECOVERY_CHANGED else None
        due = recovery["action"] if recovery and recovery["action"] != "None" else None
        grave = due is not None or (known.severity == "error" and bool(re.search("reset|reboot", known.action or "")))
        blocks = grave and not _some_card_works(machine, cards)
        do = f"{due}: {known.do}" if due else known.do
        return self.finding(
            title=f"Xid {number}: {known.name}",
            evidence=evidence,
            meaning=known.meaning,
            fix=(
                on_host(machine, do) if grave else do,
                *(["Or start a new session."] if grave and rented_platform(machine) else []),
            ),
            severity="error" if due else known.severity,
            blocks=blocks,
        )


def _some_card_works(machine: Machine, places: list[str]) -> bool:
    """Whether a framework sees a device, a card answers its driver (the line may be days old), or others are here."""
    ill = {_pci_address(place) for place in places}
    cards = nvidia_cards(machine)
    known = {_pci_address(value_of(card.bus_id) or "") for card in cards} - {None}
    return any_framework_works(machine) or any(map(is_healthy, cards)) or bool(known - ill)


def _pci_address(bus_id: str) -> tuple[int, ...] | None:
    """Domain, bus and device: the log writes 0000:9b:00, nvidia-smi 00000000:9B:00.0."""
    match = _BUS.match(bus_id)
    return tuple(int(part, 16) for part in match.groups()) if match else None


def _lines(case: Case) -> Iterator[_XidLine]:
    """Each log line that bears an Xid, once, in the order in which they were said."""
    texts = [*(value_of(case.machine.host.kernel_log) or ()), *(message.text for message in case.messages)]
    for text in dict.fromkeys(line.strip() for part in texts for line in part.splitlines()):
        match = _XID.search(text)
        if match is not None:
            shown = text if len(text) <= _LINE_LENGTH else text[: _LINE_LENGTH - 1] + "…"
            yield _XidLine(int(match["number"]), match["card"], shown)

"""Reads the reports in a text: in order of trust, and only those of the first machine if there are several."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ownlab.instruments.doctor.paste import (
    collect_env,
    json_documents,
    nvidia_smi_csv,
    nvidia_smi_log,
    nvidia_smi_table,
    packages,
    system_tools,
    vendor_tools,
)
from ownlab.instruments.doctor.paste.messages import Block
from ownlab.instruments.doctor.paste.sections import ReportKind, Section
from ownlab.machine.facts import value_of
from ownlab.machine.records import Machine
from ownlab.text import text

__all__ = ["KINDS", "Reports", "read_reports"]

# In order of trust: if two reports state the same fact, the kind that is listed first wins.
KINDS: tuple[ReportKind, ...] = (
    *json_documents.KINDS,
    vendor_tools.XML_KIND,
    nvidia_smi_log.KIND,
    nvidia_smi_log.VERSION_KIND,
    *nvidia_smi_csv.KINDS,
    nvidia_smi_table.KIND,
    *nvidia_smi_table.LIST_KINDS,
    *vendor_tools.OTHERS,
    *system_tools.KINDS,
    collect_env.KIND,
    system_tools.LSCPU_KIND,
    *packages.KINDS,
)
# Lines inside a report that rules search, too: errors, and the first card's row in the table of connections.
_ERRORS_INSIDE = re.compile(r"\s*(?:ERROR|WARNING)\b|\s*GPU0\s+X\s+(?:NODE|PHB|PXB|PIX|SYS)\b")
# How many more reports of a kind are compared with the first: `nvidia-smi -l` prints thousands.
_COMPARED = 20


class Reports(NamedTuple):
    machines: list[Machine]  # in order of trust
    recognised: list[str]
    unread: list[Block]  # sections that could not be read, and the errors inside those that were
    end: int | None  # the line where the report of another machine begins; None: there is none
    smi_worked: int  # the line of the last report of nvidia-smi that shows a card; -1: there is none


class _Report(NamedTuple):
    rank: int
    start: int
    lines: list[str]


def read_reports(sections: Sequence[Section]) -> Reports:
    """Read the sections of the first machine."""
    first, counted, end = _first_machine(sections)
    parts: list[tuple[int, Machine]] = []
    unread: list[Block] = []
    unreadable: Counter[int] = Counter()
    smi_worked = -1
    for rank, start, lines in first:
        kind = KINDS[rank]
        if kind.several == "first" and any(rank == read for read, _ in parts):
            continue
        machine = kind.read(lines)
        if machine is None:
            unread.append(Block(start, lines))
            unreadable[rank] += 1
            continue
        parts.append((rank, machine))
        unread.append(Block(start, [line for line in lines if _ERRORS_INSIDE.match(line)]))
    for rank, start, _ in first:
        shows_card = any(rank == read and _card_names(machine) for read, machine in parts)
        if KINDS[rank].name.startswith("nvidia-smi") and shows_card:
            smi_worked = max(smi_worked, start)
    counted.subtract(unreadable)
    names = dict.fromkeys(KINDS[rank].name for rank, _ in parts)
    several = {KINDS[rank].name: count for rank, count in counted.items() if count > 1}
    recognised = [
        text("{report} (the first of {count:,})", report=name, count=several[name]) if name in several else name
        for name in names
    ]
    machines = [machine for _, machine in sorted(parts, key=lambda part: part[0])]
    return Reports(machines, recognised, unread, end, smi_worked)


def _first_machine(sections: Sequence[Section]) -> tuple[list[_Report], Counter[int], int | None]:
    """Return the first machine's reports, joined from pieces, how many of each kind there are, and where they end."""
    reports: list[_Report] = []
    begun: dict[int, _Report] = {}
    counted: Counter[int] = Counter()
    closed: set[int] = set()  # kinds with a second report: later pieces belong to that one
    end: int | None = None
    for kind, lines, start in sections:
        rank = KINDS.index(kind)
        whole = kind.several == "first" or bool(kind.again and _has(kind.again, lines))
        piece = kind.several == "pieces" and rank in begun
        counted[rank] += whole
        if end is not None:
            continue
        if rank in begun and whole and (kind.several == "first" or _has(kind.again, begun[rank].lines)):
            closed.add(rank)
            if counted[rank] <= _COMPARED and _is_other_machine(kind, begun[rank].lines, lines):
                end = start
                continue
        if piece:
            if rank not in closed:
                begun[rank].lines.extend(["", *lines])
            continue
        report = _Report(rank, start, list(lines))
        begun.setdefault(rank, report)
        reports.append(report)
    return reports, counted, end


def _has(pattern: str, lines: Sequence[str]) -> bool:
    return any(re.match(pattern, line) for line in lines)


def _is_other_machine(kind: ReportKind, lines: Sequence[str], other_lines: Sequence[str]) -> bool:
    """Return whether two reports are from two machines: no card in common or, in collect_env, different drivers.

    A later table of nvidia-smi with another driver is the same machine after an upgrade.
    """
    first, second = kind.read(lines), kind.read(other_lines)
    if first is None or second is None:
        return False
    cards = _card_names(first), _card_names(second)
    drivers = value_of(first.nvidia.driver), value_of(second.nvidia.driver)
    if all(cards) and cards[0].isdisjoint(cards[1]):
        return True
    return kind is collect_env.KIND and all(drivers) and drivers[0] != drivers[1]


def _card_names(machine: Machine) -> frozenset[str]:
    names = (value_of(card.name) for card in value_of(machine.cards) or ())
    return frozenset(name for name in names if name)

"""What runtimes on nodes of a cluster use there: their relays on this machine are asked, which ask the nodes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ownlab.errors import LabError
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.records import CardShare, NodeUsage
from ownlab.lab.runtimes.state import plan_of
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.transport.control import send_command
from ownlab.units import PARTS

__all__ = ["NodeReader", "OnNode"]

# Seconds. A relay answers at once, unless it waits for its node, as while a kernel is restarted.
_ANSWERS_WITHIN = 0.5
_AGAIN = 5.0  # after one has not


class OnNode(Struct, frozen=True):
    """A runtime on a node."""

    node: str  # "" while it is in the queue
    cards: tuple[CardShare, ...] = ()
    usage: NodeUsage | None = None  # None: not known yet, or not any more


class NodeReader:
    """Asks the relays of this user's runtimes. For use by one thread."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan | None] = {}
        self._latest: dict[str, OnNode] = {}
        self._silent: dict[str, float] = {}  # when a relay did not answer

    def read(self, rows: Sequence[RuntimeRow]) -> dict[str, OnNode]:
        """Return each runtime that is on a node, or is to be."""
        own = [row.id for row in rows if row.uid == os.geteuid()]
        for known in (self._plans, self._latest, self._silent):
            for gone in set(known).difference(own):
                del known[gone]
        for runtime in own:
            if runtime not in self._plans:
                self._plans[runtime] = _plan(runtime)
            plan = self._plans[runtime]
            if plan is not None and time.monotonic() >= self._silent.get(runtime, float("-inf")) + _AGAIN:
                self._ask(plan)
        return dict(self._latest)

    def _ask(self, plan: Plan) -> None:
        before = self._latest.get(plan.runtime, OnNode(""))
        try:
            answer = send_command(plan.control_endpoint, "usage", timeout=_ANSWERS_WITHIN)
        except LabError:
            self._silent[plan.runtime] = time.monotonic()
            self._latest[plan.runtime] = OnNode(before.node, before.cards)
        else:
            self._silent.pop(plan.runtime, None)
            self._latest[plan.runtime] = on_node(plan, answer)


def on_node(plan: Plan, answer: dict[str, Any]) -> OnNode:
    """A runtime on a node, as its relay answers."""
    kind = plan.node.kind or "" if plan.node is not None else ""
    node = str(answer.get("node") or "")
    numbers = [number for number in answer.get("cards") or () if isinstance(number, int)]
    cards = tuple(CardShare(f"{node}:{number}", number, kind, PARTS) for number in numbers)
    try:
        usage = msgspec.convert(answer.get("usage"), NodeUsage | None)
    except msgspec.ValidationError:  # of a node with another version of ownlab
        usage = None
    if usage is not None and usage.cards:
        cards = tuple(msgspec.structs.replace(card, name=card.name or kind) for card in usage.cards)
    return OnNode(node, cards, usage)


def _plan(runtime: str) -> Plan | None:
    """Its plan if it is on a node."""
    try:
        plan = plan_of(runtime)
    except LabError:
        return None
    return plan if plan is not None and plan.node is not None else None

"""When Slurm would start a job on what is not free now: `sbatch --test-only`, which submits nothing.

The controller plans each answer, so types are asked for one after the other, once a minute, and only as many as fit into some seconds.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence

from msgspec.structs import replace

from ownlab.config.settings import LabOptions
from ownlab.errors import OwnlabError
from ownlab.lab.engines.interface import Offer
from ownlab.lab.engines.slurm.commands import Slurm
from ownlab.lab.engines.slurm.readers import read_time
from ownlab.lab.engines.slurm.requests import Site, resource_options
from ownlab.lab.runtimes.records import RuntimeType

__all__ = ["ExpectedStarts", "start_in_answer"]

# Seconds.
_VALID = 60.0
_AT_MOST = 4.0  # for all questions of one list
# Jobs without a time limit count as a year: whatever waits for their end is not expected at any time.
_NOT_KNOWN_AFTER = 300 * 86_400.0

_Asked = tuple[str, str | None, int, int]  # partition, kind, cards and nodes


def start_in_answer(printed: str, now: float) -> float | None:
    """The start in the answer of `sbatch --test-only`; None if Slurm does not know it."""
    match = re.search(r"to start at (\S+)", printed)
    at = read_time(match[1]) if match is not None else None
    return None if at is None or at > now + _NOT_KNOWN_AFTER else at


class ExpectedStarts:
    """Remembers answers for a minute."""

    def __init__(self, slurm: Slurm, options: LabOptions) -> None:
        self._slurm, self._options = slurm, options
        self._known: dict[_Asked, tuple[float, float | None]] = {}  # when it was asked, and the answer

    def of_types(self, types: Sequence[RuntimeType], site: Site) -> tuple[RuntimeType, ...]:
        """The types, with the expected start of those that are not free."""
        return tuple(offer.type for offer in self.of_offers([_offer_of(kind) for kind in types], site))

    def of_offers(self, offers: Sequence[Offer], site: Site) -> tuple[Offer, ...]:
        """The offers, with the expected start of one node of those that are not free.

        Not for a closed partition: Slurm answers as if it were open.
        """
        deadline = time.monotonic() + _AT_MOST
        is_open = {each.name for each in site.partitions if each.is_up}
        return tuple(
            offer
            if offer.type.free or offer.partition not in is_open
            else replace(offer, type=replace(offer.type, starts_at=self._starts_at(offer, deadline)))
            for offer in offers
        )

    def _starts_at(self, offer: Offer, deadline: float) -> float | None:
        asked = (offer.partition, offer.type.kind, offer.type.cards, 1)
        at, known = self._known.get(asked, (float("-inf"), None))
        now = time.monotonic()
        if now - at < _VALID or now > deadline:
            return known
        self._known[asked] = now, self._ask(replace(offer, nodes=1))
        return self._known[asked][1]

    def _ask(self, offer: Offer) -> float | None:
        try:
            printed = self._slurm.test_resources(resource_options(offer, self._options))
        except OwnlabError:  # refused, or too slow: the tile says only that it is not free
            return None
        at = start_in_answer(printed, time.time())
        return None if at is None else math.ceil(at / 60) * 60.0


def _offer_of(kind: RuntimeType) -> Offer:
    return Offer(kind.engine, kind, partition=kind.partition)

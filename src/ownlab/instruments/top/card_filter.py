"""Some cards of all: by number, or by the beginning of their UUID."""

from __future__ import annotations

from msgspec.structs import replace

from ownlab.errors import UsageError
from ownlab.instruments.top.records import CardSample, Sample
from ownlab.instruments.top.source import Source

__all__ = ["ChosenCards"]


class ChosenCards:
    """A source that tells of these cards alone, and of processes that are on none of the others."""

    def __init__(self, source: Source, wanted: str) -> None:
        self._source = source
        self._wanted = tuple(dict.fromkeys(name.strip() for name in wanted.split(",") if name.strip()))
        if not self._wanted:
            raise UsageError(f"{wanted!r} names no card", hint="Write it as --cards 0,1, or give their UUIDs.")
        self._met = False  # all that are wanted were there once: later one may vanish

    def take(self) -> Sample:
        """The next sample, without the other cards."""
        sample = self._source.take()
        if sample.cards and not self._met:
            self._check(sample.cards)
        chosen = tuple(card for card in sample.cards if any(_is_meant(card, name) for name in self._wanted))
        others = {each.pid for card in sample.cards if card not in chosen for each in card.processes or ()}
        others -= {each.pid for card in chosen for each in card.processes or ()}
        processes = tuple(process for process in sample.processes if process.pid not in others)
        return replace(sample, cards=chosen, processes=processes)

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _check(self, cards: tuple[CardSample, ...]) -> None:
        for name in self._wanted:
            if not any(_is_meant(card, name) for card in cards):
                there = ", ".join(str(index) for index in dict.fromkeys(card.index for card in cards))
                raise UsageError(f"there is no card {name}", hint=f"There are: {there}")
        self._met = True


def _is_meant(card: CardSample, name: str) -> bool:
    if name.isdecimal():
        return card.index == int(name)
    uuid = name.lower()
    return len(uuid) >= 4 and any(each.lower().startswith(uuid) for each in (card.uuid, card.parent) if each)

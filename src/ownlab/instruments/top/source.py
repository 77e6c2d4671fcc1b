"""Where samples come from: this machine, a recording that stands in for it, or one that is played back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from ownlab.errors import UsageError
from ownlab.instruments.top.nvml_child import PENDING
from ownlab.instruments.top.process_sampler import Owners
from ownlab.instruments.top.records import CardSample, Sample

__all__ = ["LATER", "ChosenCards", "Source", "StreamEnded", "follow", "open_source", "settle"]

# What ownlab_guest.probe.gpm says while it has seen one moment of a card.
LATER = "the first figures come with the second sample"
# GPM compares two moments that lie more than 100 ms apart (nvml.h).
_APART = 0.102
# Linux counts a core's time in hundredths of a second: over less than this, a share is a guess.
_LEAST_SECONDS = 0.06


class StreamEnded(Exception):
    """A recording that is played back has no more samples."""


class Source(Protocol):
    """Gives one sample after the other."""

    def take(self) -> Sample:
        """What was since the last call. Blocks for about a second at most; raises StreamEnded where nothing is left."""

    def close(self) -> None:
        """Let go of children and files."""


def open_source(
    environ: Mapping[str, str] = os.environ,
    *,
    replay: Path | None = None,
    owners: Owners = dict,
) -> Source:
    """This machine's, or the recording `replay`.

    OWNLAB_STREAM=FILE.ndjson: the cards of a recording stand in for this machine's, in a loop. OWNLAB_MACHINE: those of
    a recorded machine do, and stand still.
    """
    if replay is not None:
        from ownlab.instruments.top.recording import Replay

        return Replay(replay)
    from ownlab.instruments.top.sampler import Sampler

    return Sampler(owners, environ)


def settle(source: Source, *, within: float = 30.0) -> Sample:
    """A first sample that tells rates and saturation, as soon as there can be one."""
    deadline = time.monotonic() + within
    sample = source.take()
    while sample.trouble == PENDING and time.monotonic() < deadline:
        sample = source.take()
    if (sample.seconds or 0.0) < _LEAST_SECONDS or any(card.no_saturation == LATER for card in sample.cards):
        time.sleep(_APART)
        sample = source.take()
    return sample


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


# A first sample has no rates and no saturation: the second comes as soon as it can have them (GPM: after 100 ms).
_SOON = 0.15


def follow(
    source: Source, *, interval: float = 1.0, speed: float | None = None, stop: threading.Event | None = None
) -> Iterator[Sample]:
    """Samples until the source ends or `stop` is set. With a speed the source is a recording, and says its own times."""
    stop = stop or threading.Event()
    due = time.monotonic()
    while not stop.is_set():
        try:
            sample = source.take()
        except StreamEnded:
            return
        if speed is not None and stop.wait((sample.seconds or 0.0) / speed):
            return
        yield sample
        # Times that were missed (the machine slept, the driver hung) are not made up for.
        now = time.monotonic()
        due = max(due + (interval if sample.seconds is not None else min(interval, _SOON)), now)
        if speed is None and stop.wait(due - now):
            return

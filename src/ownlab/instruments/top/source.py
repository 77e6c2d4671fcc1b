"""Sources of samples: this machine or a recording; the first complete sample, timing, and the filter for --cards."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from ownlab.errors import UsageError
from ownlab.instruments.top.nvml_child import GPM_PENDING, PENDING
from ownlab.instruments.top.process_sampler import Owners
from ownlab.instruments.top.records import CardSample, Sample
from ownlab.text import listing, text

__all__ = ["CardFilter", "Source", "StreamEnded", "follow", "open_source", "settle"]

# GPM compares two readings more than 100 ms apart (nvml.h).
_GPM_SECONDS = 0.102
# Linux counts CPU time in 1/100 s: over a shorter interval, a share is meaningless.
_LEAST_SECONDS = 0.06


class StreamEnded(Exception):
    """A recording has no more samples."""


class Source(Protocol):
    """Gives one sample after the other. `cli`, the full screen, the metrics server and `ownlab.watch` call it."""

    def take(self) -> Sample:
        """Return a sample of the interval since the last call. Blocks for about a second at most. Raises StreamEnded."""

    def close(self) -> None:
        """Release child processes and files."""


def open_source(
    environ: Mapping[str, str] = os.environ,
    *,
    replay: Path | None = None,
    owners: Owners = dict,
) -> Source:
    """Open this machine, or the recording `replay`.

    OWNLAB_STREAM=FILE.ndjson replaces this machine's cards by those of a recording, in a loop. OWNLAB_MACHINE replaces
    them by those of a recorded machine, which do not change.
    """
    if replay is not None:
        from ownlab.instruments.top.recording import Replay

        return Replay(replay)
    from ownlab.instruments.top.sampler import Sampler

    return Sampler(owners, environ)


def settle(source: Source, *, within: float = 30.0) -> Sample:
    """Return a sample that has rates and saturation, as soon as possible."""
    deadline = time.monotonic() + within
    sample = source.take()
    while sample.trouble == PENDING and time.monotonic() < deadline:
        sample = source.take()
    if (sample.seconds or 0.0) < _LEAST_SECONDS or any(card.no_saturation == GPM_PENDING for card in sample.cards):
        time.sleep(_GPM_SECONDS)
        sample = source.take()
    return sample


class CardFilter:
    """A source with some of the cards, and without processes that use only the others."""

    def __init__(self, source: Source, wanted: str) -> None:
        self._source = source
        self._wanted = tuple(dict.fromkeys(name.strip() for name in wanted.split(",") if name.strip()))
        if not self._wanted:
            raise UsageError(
                text("--cards {value!r} contains no card.", value=wanted),
                hint=text("Example: --cards 0,1. UUIDs work too."),
            )
        self._checked = False  # all wanted cards were there once; later one may vanish

    def take(self) -> Sample:
        """Return the next sample without the other cards."""
        sample = self._source.take()
        if sample.cards and not self._checked:
            self._check(sample.cards)
        chosen = tuple(card for card in sample.cards if any(_matches(card, name) for name in self._wanted))
        others = {running.pid for card in sample.cards if card not in chosen for running in card.processes or ()}
        others -= {running.pid for card in chosen for running in card.processes or ()}
        processes = tuple(process for process in sample.processes if process.pid not in others)
        return replace(sample, cards=chosen, processes=processes)

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _check(self, cards: tuple[CardSample, ...]) -> None:
        for name in self._wanted:
            if not any(_matches(card, name) for card in cards):
                indices = listing(dict.fromkeys(card.index for card in cards), "{items}, {last}")
                raise UsageError(
                    text("There is no card {name}.", name=name), hint=text("Available cards: {cards}", cards=indices)
                )
        self._checked = True


def _matches(card: CardSample, name: str) -> bool:
    if name.isdecimal():
        return card.index == int(name)
    uuid = name.lower()
    return len(uuid) >= 4 and any(known.lower().startswith(uuid) for known in (card.uuid, card.parent) if known)


# The first sample has neither rates nor saturation: the second follows as soon as it can have them (GPM: after 100 ms).
_SECOND_SAMPLE_SECONDS = 0.15


def follow(
    source: Source, *, interval: float = 1.0, speed: float | None = None, stop: threading.Event | None = None
) -> Iterator[Sample]:
    """Yield samples until the source ends or `stop` is set. With a speed, the source is a recording with its own timing."""
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
        # Missed samples (the machine slept, the driver hung) are not made up for.
        now = time.monotonic()
        due = max(due + (interval if sample.seconds is not None else min(interval, _SECOND_SAMPLE_SECONDS)), now)
        if speed is None and stop.wait(due - now):
            return

"""Where samples come from: this machine, a recording that stands in for it, or one that is played back."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ownlab.instruments.top.nvml_child import PENDING
from ownlab.instruments.top.processes import Owners
from ownlab.instruments.top.records import Sample

__all__ = ["LATER", "Source", "StreamEnded", "open_source", "settle"]

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
        from ownlab.instruments.top.replay import Replay

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

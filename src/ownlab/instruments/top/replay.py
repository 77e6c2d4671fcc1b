"""A recording as a source: each of its samples once, as fast as somebody takes them. `pacing.follow` keeps their time."""

from __future__ import annotations

from pathlib import Path

from ownlab.instruments.top.recording import read
from ownlab.instruments.top.records import Sample
from ownlab.instruments.top.source import StreamEnded

__all__ = ["Replay"]


class Replay:
    """Gives recorded samples, one after the other."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where the file is no recording."""
        self._samples = read(path)

    def take(self) -> Sample:
        """The next sample; StreamEnded after the last, RecordError at a damaged one."""
        sample = next(self._samples, None)
        if sample is None:
            raise StreamEnded
        return sample

    def close(self) -> None:
        """Give nothing more."""
        self._samples = iter(())

"""How much an archive may become: a few kilobytes can hold petabytes of zeros."""

from __future__ import annotations

from typing import NamedTuple

from ownlab.instruments.data.archives.errors import UnsafeArchive
from ownlab.text import text
from ownlab.units import GIB, format_bytes

__all__ = ["Limits", "SizeLimit"]

_HARMLESS = GIB  # up to this size no ratio is suspicious


class Limits(NamedTuple):
    """What an archive may become."""

    ratio: float = 200.0  # times its own size


class SizeLimit:
    """Counts the content of an archive; unpacking and packing stop at the limit."""

    def __init__(self, limits: Limits, archive_size: int) -> None:
        self._limits, self._archive_size = limits, archive_size
        self.size = 0

    def count(self, size: int) -> None:
        """Count bytes of the content. Raises UnsafeArchive."""
        self.size += size
        if self.size > _HARMLESS and self.size > self._limits.ratio * self._archive_size:
            raise UnsafeArchive(
                text(
                    "The archive of {size} would become more than {unpacked}.",
                    size=format_bytes(self._archive_size),
                    unpacked=format_bytes(self.size),
                ),
                hint=text(
                    "If you trust it, allow more than {ratio:g} times its size: --max-ratio", ratio=self._limits.ratio
                ),
            )

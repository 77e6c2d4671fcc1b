"""Gaps in a journal: what cells say about records that were lost on a full disk, or damaged on disk afterwards.

A gap is an event: "lost" (count, bytes, why), which the writer recorded, or "damaged" (count, bytes), which the reader found.
"""

from __future__ import annotations

import errno
import os

from ownlab.lab.journal.outputs import Content
from ownlab.text import Text, plural, text
from ownlab.units import format_bytes

__all__ = ["note_after_cell", "note_before_cell", "note_in_cell"]

_DISK_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))


def note_in_cell(gap: Content) -> Text:
    """The note in a cell that ran: its own output is affected."""
    count, size, why = _facts(gap)
    if why in _DISK_FULL:
        if size:
            return text(
                "The disk was full while this cell ran. {size} of its output are missing here.", size=format_bytes(size)
            )
        return text("The disk was full while this cell ran. Part of its output is missing here.")
    if why:
        return text("Part of this output is missing here: it could not be saved ({reason}).", reason=why)
    if size:
        return text("Part of this output was damaged on disk and could not be read ({count} bytes).", count=size)
    return plural(
        count,
        "Part of this output is missing on disk (one message).",
        "Part of this output is missing on disk ({n} messages).",
    )


def note_after_cell(gap: Content) -> Text:
    """The note in the cell that had run last when no cell was running."""
    count, size, why = _facts(gap)
    if why in _DISK_FULL:
        return text("The disk was full after this cell had run. Later messages of the runtime are missing.")
    if why:
        return text("Messages after this cell had run could not be saved ({reason}).", reason=why)
    if size:
        return text(
            "What followed this cell's output was damaged on disk and could not be read ({count} bytes).", count=size
        )
    return plural(
        count,
        "What followed this cell's output is missing on disk (one message).",
        "What followed this cell's output is missing on disk ({n} messages).",
    )


def note_before_cell(gap: Content) -> Text:
    """The note in the first cell after a gap, if no cell had run before it."""
    count, size, why = _facts(gap)
    if why in _DISK_FULL:
        return text("The disk was full before this cell ran. Earlier messages of the runtime are missing.")
    if why:
        return text("Messages before this cell ran could not be saved ({reason}).", reason=why)
    if size:
        return text(
            "What preceded this cell's output was damaged on disk and could not be read ({count} bytes).", count=size
        )
    return plural(
        count,
        "What preceded this cell's output is missing on disk (one message).",
        "What preceded this cell's output is missing on disk ({n} messages).",
    )


def _facts(gap: Content) -> tuple[int, int, str]:
    count, size, why = gap.get("count"), gap.get("bytes"), gap.get("why")
    return (
        count if isinstance(count, int) else 1,
        size if isinstance(size, int) else 0,
        why if isinstance(why, str) else "",
    )

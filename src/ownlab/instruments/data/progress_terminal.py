"""A line of progress on stderr: samples, rate, time left. Nothing where stderr is no terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.status import Status

from ownlab.instruments.data.guest_events import Progress
from ownlab.text import facts, text
from ownlab.units import format_bytes, format_rate, format_seconds

__all__ = ["progress_line", "show_progress"]

_PHASES = {
    "list": text("Listing"),
    "pack": text("Packing"),
    "verify": text("Checking"),
    "repair": text("Repairing"),
    "inspect": text("Inspecting"),
    "bench": text("Measuring"),
}
# The rate of the first moment says nothing about the time left.
_LEAST_SECONDS = 1.0


@contextlib.contextmanager
def show_progress() -> Iterator[Callable[[Progress], None]]:
    """Yield a function that shows an event."""
    out = Console(file=sys.stderr)
    if not out.is_terminal:
        yield lambda event: None
        return
    begun: dict[str, tuple[float, int, int]] = {}
    with Status(text("Starting"), console=out) as status:

        def show(event: Progress) -> None:
            first = begun.setdefault(event.phase, (time.monotonic(), event.samples, event.bytes))
            seconds = time.monotonic() - first[0]
            status.update(progress_line(event, seconds, event.samples - first[1], event.bytes - first[2]))

        yield show


def progress_line(event: Progress, seconds: float, samples: int, size: int) -> str:
    """Return one line; `samples` and `size` are what the last `seconds` have done."""
    done = (
        text("{n:,} of {total:,}", n=event.samples, total=event.total)
        if event.total is not None
        else text("{n:,}", n=event.samples)
    )
    parts: list[str | None] = [_PHASES.get(event.phase, event.phase), done]
    if event.bytes:
        parts.append(format_bytes(event.bytes))
    if seconds >= _LEAST_SECONDS and samples:
        parts.append(text("{rate}/s", rate=f"{samples / seconds:,.0f}"))
        if size:
            parts.append(format_rate(size / seconds, "B/s"))
        if event.total is not None:
            left = (event.total - event.samples) * seconds / samples
            parts.append(text("{time} left", time=format_seconds(max(1.0, left))))
    return facts(*parts)

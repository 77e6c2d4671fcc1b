"""Bars and graphs as text. What is not known is blank, never zero."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

__all__ = ["BLOCKS", "PLAIN", "Glyphs", "bar", "glyphs_for", "graph"]

Glyphs = str  # from nothing to full; what stands in between are parts of one character

BLOCKS: Glyphs = " ▁▂▃▄▅▆▇█"
PLAIN: Glyphs = " .:-=+*#"
_SIDEWAYS = " ▏▎▍▌▋▊▉█"


def glyphs_for(environ: Mapping[str, str], encoding: str | None = None) -> Glyphs:
    """Blocks, where the terminal has them: the console of Linux has not, nor has one that is not UTF-8."""
    encoding = encoding or getattr(sys.stdout, "encoding", None) or "ascii"
    utf8 = encoding.lower().replace("-", "").replace("_", "") == "utf8"
    return BLOCKS if utf8 and environ.get("TERM") not in ("linux", "vt100", "vt220") else PLAIN


def bar(percent: float | None, width: int, glyphs: Glyphs = BLOCKS) -> tuple[str, str]:
    """The filled part and the empty one. Something that is more than nothing shows."""
    if percent is None:
        return "", " " * width
    share = min(100.0, max(0.0, percent)) / 100
    if glyphs is not BLOCKS:
        filled = round(share * width) or (1 if share > 0 else 0)
        return "#" * filled, "." * (width - filled)
    eighths = round(share * width * 8) or (1 if share > 0 else 0)
    whole, part = divmod(eighths, 8)
    filled_text = "█" * whole + (_SIDEWAYS[part] if part else "")
    return filled_text, " " * (width - len(filled_text))


def graph(values: Sequence[float | None], width: int, height: int = 1, glyphs: Glyphs = BLOCKS) -> list[str]:
    """The last `width` values from 0 to 100, newest at the right, as lines from the top."""
    shown = list(values[-width:]) if width > 0 else []
    columns = [_column(value, height, glyphs) for value in shown]
    pad = " " * (width - len(shown))
    return [pad + "".join(column[row] for column in columns) for row in range(height)]


def _column(value: float | None, height: int, glyphs: Glyphs) -> str:
    """One value as characters from the top down."""
    if value is None:
        return " " * height
    steps = len(glyphs) - 1
    filled = round(min(100.0, max(0.0, value)) / 100 * height * steps)
    if filled == 0 and value >= 0:
        filled = 1  # a line at the bottom: it was measured, and was nothing
    whole, part = divmod(filled, steps)
    if whole == height:
        # A full column leaves a little at its top, so that the graph above is not joined to it.
        return glyphs[-2] + glyphs[-1] * (height - 1)
    return (glyphs[-1] * whole + (glyphs[part] if part else "")).ljust(height)[::-1]

"""Figures and places as they are shown in sentences."""

from __future__ import annotations

import os

from ownlab.instruments.why.records import Place
from ownlab.text import text
from ownlab.units import format_seconds

__all__ = ["NAMES", "format_band", "format_ms", "format_place", "format_share"]


# The parts of a step by their names in the evidence.
NAMES = {
    "forward": text("forward"),
    "backward": text("backward"),
    "optimizer": text("optimizer"),
    "data": text("waiting for data"),
    "fetch": text("fetching a batch"),
    "workers": text("starting workers"),
    "validation": text("validation"),
    "save": text("saving"),
    "log": text("logging"),
    "sync": text("waiting for the GPU"),
    "copy": text("copying to the GPU"),
    "gc": text("garbage collection"),
    "cache": text("emptying the cache"),
    "import": text("importing modules"),
    "graph": text("CUDA graph"),
    "kernel": text("working"),
    "launch": text("waiting for kernels to be launched"),
    "update": text("between backward and optimizer"),
    "between": text("between steps"),
    "python": text("other Python"),
    "other": text("other"),
}


def format_ms(milliseconds: float) -> str:
    """268.31 -> "268 ms"."""
    return format_seconds(milliseconds / 1e3)


def format_share(share: float) -> str:
    """0.086 -> "9 %"; "under 1 %" for little."""
    return text("under 1 %") if 0 < share < 0.01 else text("{percent:.0f} %", percent=share * 100)


def format_place(place: Place) -> str:
    """ "Images.__getitem__ (train.py:41)"."""
    line = f"{os.path.basename(place.file)}:{place.line}"
    return line if place.function in ("", "<module>") else f"{place.function} ({line})"


def format_band(band: tuple[float, float]) -> str:
    """ "52 to 58 ms", or one figure where both are shown the same."""
    low, high = (format_ms(value) for value in band)
    return low if low == high else text("{low} to {high}", low=low, high=high)

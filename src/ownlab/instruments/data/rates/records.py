"""What is measured, and what `ownlab data bench` prints as JSON."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["DataBench", "Limit", "Measured", "Option", "Rate", "Scratch"]

Limit = Literal["decoder", "seeks", "bandwidth", "opening"]


class Rate(Struct, frozen=True):
    per_second: float
    bytes_per_second: float
    cpu_seconds: float  # of each sample
    from_device: float | None = None  # share of the bytes that did not come from memory
    cold: bool | None = None


class Scratch(Struct, frozen=True):
    folder: str
    cold: Rate


class Measured(Struct, frozen=True):
    """What the guest has measured."""

    path: str
    kind: Literal["files", "packed"]
    files: int
    listed_all: bool
    mean_bytes: float
    cold: Rate  # one by one
    cold_parallel: Rate | None  # by eight threads
    warm: Rate
    sequential: Rate | None
    decode_seconds: float | None  # CPU seconds for one image
    decode_missing: str
    scratch: Scratch | None
    file_system: str
    rotational: bool | None
    cores: int
    memory_bytes: int | None
    seconds: float


class Option(Struct, frozen=True):
    """Something that could be done, and what it would give."""

    name: Literal["now", "later-epochs", "packed", "local-copy", "twice-the-cores", "undecoded"]
    per_second: float
    gain: float  # relative to now
    meets_need: bool | None = None


class DataBench(Struct, frozen=True):
    """The measurement, and what it means."""

    measured: Measured
    limit: Limit
    options: tuple[Option, ...]
    packing_pays: bool | None  # None: it is packed
    verdict: str
    advice: tuple[str, ...]
    need_per_second: float | None
    notes: tuple[str, ...]

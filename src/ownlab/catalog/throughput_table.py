"""The table of published throughputs, `data/throughput.toml`: measurements of cards, of several cards, and of other chips."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from ownlab.catalog.cards import Source
from ownlab.catalog.data_files import read_data, tomllib

__all__ = [
    "WORKLOADS",
    "Benchmark",
    "MeasuredSet",
    "Scaling",
    "Shares",
    "Slices",
    "Throughput",
    "Workload",
    "load_throughput",
]

Workload: TypeAlias = Literal["vision", "transformer", "recurrent", "decoding"]
WORKLOADS: tuple[Workload, ...] = get_args(Workload)


class Shares(Struct, frozen=True, forbid_unknown_fields=True):
    """The shares of the time on the reference card; the rest is bandwidth."""

    tasks: tuple[str, ...]
    tensor: float
    fp32: float
    near: float
    far: float


class MeasuredSet(Struct, frozen=True, forbid_unknown_fields=True):
    """Throughputs that were measured with one method and the software of one time."""

    name: str
    source: str
    software: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]
    reference: str | None = None


class Benchmark(Struct, frozen=True, forbid_unknown_fields=True):
    """A model whose throughput was published."""

    title: str
    workload: Workload
    sample: str
    flops_per_sample: float  # forward and backward pass
    parameters: int
    parameters_per_class: int = 0
    tolerance: float = 0.0


class Scaling(Struct, frozen=True, forbid_unknown_fields=True):
    """Throughputs of several cards: by card and by the number of cards."""

    source: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, tuple[float, ...]]]


class Slices(Struct, frozen=True, forbid_unknown_fields=True):
    """One training on slices of another maker's chips and on reference cards: (number, hours)."""

    workload: Workload
    task: str
    source: str
    reference: tuple[int, float]
    runs: dict[str, tuple[tuple[int, float], ...]]


class Compared(Struct, frozen=True, forbid_unknown_fields=True):
    """Speeds of cards relative to a measured one, as a report of both states them: the least and the most."""

    workload: Workload
    task: str
    source: str
    card: str  # the measured one
    speeds: dict[str, tuple[float, float]]


class Throughput(Struct, frozen=True, forbid_unknown_fields=True):
    """data/throughput.toml."""

    as_of: str
    sources: dict[str, Source]
    workloads: dict[Workload, Shares]
    achieved: dict[str, tuple[float, str]]
    sets: tuple[MeasuredSet, ...]  # the newest first; FP16
    fp32_sets: tuple[MeasuredSet, ...]
    benchmarks: dict[str, Benchmark]  # by column
    scaling: tuple[Scaling, ...]
    slices: tuple[Slices, ...]
    compared: tuple[Compared, ...]
    prices: dict[str, tuple[float, str]]


@lru_cache(maxsize=1)
def load_throughput() -> Throughput:
    """Return the measurements. A file that does not match the record is a bug and raises."""
    return msgspec.convert(tomllib.loads(read_data("throughput.toml")), Throughput)

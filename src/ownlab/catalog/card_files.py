"""cards.toml as it is written, and its checks: the package's own, and a newer one that a person brought.

A figure is `[value, "source"]`, where the source is a key of the table `sources`; or a text that says why there is none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias, get_type_hints

import msgspec
from msgspec import Struct

from ownlab.config.paths import state_folder
from ownlab.errors import InputError, RecordError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "FIGURE_NAMES",
    "NO_UNITS",
    "CardFile",
    "CardRow",
    "Source",
    "figures_in",
    "newest_files",
    "own_file",
    "read_cards",
    "shipped_file",
    "tomllib",
]

# The reason that is a fact: others say that a figure was not found, this one that there is none.
NO_UNITS = "no units for it"

Written: TypeAlias = tuple[float, str] | str


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that was read."""

    title: str
    address: str
    read: str  # the day, 2026-11-15


class CardRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One card, as it is written."""

    name: str
    vendor: str
    architecture: str
    memory_gb: Written
    memory_gib: Written
    bandwidth_gb_s: Written
    fp64_tflops: Written
    fp32_tflops: Written
    tf32_tflops: Written
    fp16_tflops: Written
    bf16_tflops: Written
    fp8_tflops: Written
    int8_tops: Written
    power_w: Written
    launch_usd: Written
    capability: str = ""
    year: int | None = None
    devices: int = 1
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


class CardFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    as_of: str
    sources: dict[str, Source]
    cards: tuple[CardRow, ...]


FIGURE_NAMES: tuple[str, ...] = tuple(name for name, kind in get_type_hints(CardRow).items() if kind == Written)


def own_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where `ownlab gpus update` puts what a person brought."""
    return state_folder(environ, make=False) / "catalog" / "cards.toml"


def shipped_file() -> CardFile:
    """The package's own. It does not fail: tests see to that."""
    return read_cards((files("ownlab.catalog") / "data" / "cards.toml").read_text("utf-8"))


def newest_files() -> tuple[CardFile, ...]:
    """The files that count, the newer one last."""
    shipped, path = shipped_file(), own_file()
    hint = "ownlab gpus update --reset goes back to what came with ownlab."
    try:
        brought = read_cards(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return (shipped,)
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}", hint=hint) from exc
    except (UnicodeDecodeError, RecordError) as exc:
        raise RecordError(f"{path} cannot be used: {exc}", hint=hint) from exc
    return tuple(sorted((shipped, brought), key=lambda file: file.as_of))


def read_cards(text: str) -> CardFile:
    """The file, by its schema; every source that a figure names is there."""
    try:
        file = msgspec.convert(tomllib.loads(text), CardFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
        raise RecordError(f"this is no catalogue of cards: {exc}") from exc
    except RecursionError:
        raise RecordError("this is no catalogue of cards: lists in lists without end") from None
    for card, figure, (_, source) in figures_in(file):
        if source not in file.sources:
            raise RecordError(f"{card}: {figure} names the source {source!r}, which is not in the table of sources")
    return file


def figures_in(file: CardFile) -> Iterator[tuple[str, str, tuple[float, str]]]:
    """Card, name and value with source of every figure that has a value."""
    for row in file.cards:
        for name in FIGURE_NAMES:
            written = getattr(row, name)
            if isinstance(written, tuple):
                yield row.name, name, written

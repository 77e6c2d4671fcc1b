"""A newer catalogue of cards from a person: checked before anything of it is used, put in its place whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from urllib.parse import urlsplit

from msgspec import Struct

from ownlab.catalog.card_speeds import REFERENCE
from ownlab.catalog.cards import (
    FIGURE_NAMES,
    NO_UNITS,
    CardFile,
    figures_in,
    newest_files,
    own_file,
    read_cards,
    shipped_file,
    words_of,
)
from ownlab.catalog.data_files import tomllib
from ownlab.errors import InputError, RecordError
from ownlab.files import write_file

__all__ = ["LARGEST", "CatalogUpdate", "accept", "forget"]

LARGEST = 5 * 2**20  # bytes: ours has 70 kB
# No card has less or more: what is outside was written in another unit. The greatest is some four times today's best.
_BOUNDS = {
    "memory_gb": (1, 2000),
    "memory_gib": (0.5, 2000),
    "bandwidth_gb_s": (10, 100_000),
    "fp64_tflops": (0.01, 500),
    "fp32_tflops": (0.1, 1000),
    "tf32_tflops": (1, 20_000),
    "fp16_tflops": (1, 20_000),
    "bf16_tflops": (1, 20_000),
    "fp8_tflops": (1, 80_000),
    "int8_tops": (1, 80_000),
    "power_w": (5, 5000),
    "launch_usd": (20, 500_000),
}
# A card that we know keeps what it has: a correction may be as great as this factor. Twice or half is the rate with sparsity,
# or another way of adding up.
_CORRECTION = 1.5
_REFERENCE_CORRECTION = 1.05  # the ladder stands on this card
_YEARS = (1999, 1)  # the first that could be, and how many are to come
_DEVICES = (1, 16)


class CatalogUpdate(Struct, frozen=True):
    """`ownlab gpus update --json`."""

    path: str
    as_of: str | None  # None: there is none any more
    cards: int  # in it
    new: tuple[str, ...]
    changed: tuple[str, ...]


def accept(text: str, *, today: date | None = None) -> CatalogUpdate:
    """Check it, and put it where load_cards looks. InputError says everything that is wrong with it."""
    file = read_cards(text)
    shipped = shipped_file()
    known = {row.name: row for each in _present(shipped) for row in each.cards}
    day = today or date.today()
    wrong = [
        *_wrong_texts(text),
        *_wrong_dates(file, shipped, day),
        *_wrong_cards(file, day),
        *_wrong_figures(file),
        *_wrong_changes(file, shipped),
        *_wrong_names(file, shipped),
    ]
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise InputError(
            f"the catalogue is not used: {'; '.join(wrong[:5])}{more}", hint="What was there before stays."
        )
    _place(text)
    new = tuple(row.name for row in file.cards if row.name not in known)
    changed = tuple(row.name for row in file.cards if row.name in known and known[row.name] != row)
    return CatalogUpdate(str(own_file()), file.as_of, len(file.cards), new, changed)


def _present(shipped: CardFile) -> tuple[CardFile, ...]:
    try:
        return newest_files()
    except RecordError:  # what was brought before is damaged, and about to be replaced
        return (shipped,)


def forget() -> CatalogUpdate:
    """Go back to what came with ownlab."""
    path = own_file()
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError:
        pass  # so there is none
    except OSError as exc:
        raise InputError(f"cannot remove {path}: {exc.strerror}") from exc
    return CatalogUpdate(str(path), None, 0, (), ())


def _wrong_texts(text: str) -> Iterator[str]:
    """What is shown in a terminal must not steer it; TOML writes such characters as \\u001b."""
    found = {char for char in _all_texts(tomllib.loads(text)) if not char.isprintable() and char != "\n"}
    if found:
        yield f"its texts have characters that nobody can read ({', '.join(sorted(map(ascii, found))[:3])})"


def _all_texts(node: object) -> str:
    if isinstance(node, dict):
        return "".join(f"{key}{_all_texts(value)}" for key, value in node.items())
    if isinstance(node, list):
        return "".join(map(_all_texts, node))
    return node if isinstance(node, str) else ""


def _wrong_cards(file: CardFile, today: date) -> Iterator[str]:
    names = [row.name for row in file.cards]
    yield from (f"{name} is there twice" for name in sorted({name for name in names if names.count(name) > 1}))
    if not names:
        yield "there is no card in it"
    first, more = _YEARS
    few, many = _DEVICES
    for row in file.cards:
        if not row.name.strip() or not row.vendor.strip():
            yield "a card has no name, or no vendor"
        if row.year is not None and not first <= row.year <= today.year + more:
            yield f"{row.name}: it cannot be of {row.year}"
        if not re.fullmatch(r"(\d+\.\d|gfx\w+)?", row.capability):
            yield f"{row.name}: {row.capability!r} is no compute capability"
        if not few <= row.devices <= many:
            yield f"{row.name}: no board shows as {row.devices} devices"


def _wrong_dates(file: CardFile, shipped: CardFile, today: date) -> Iterator[str]:
    days = {f"source {key}": source.read for key, source in file.sources.items()} | {"as_of": file.as_of}
    for what, written in days.items():
        day = _day(written)
        if day is None:
            yield f"{what} has no date (2026-11-15), but {written!r}"
        elif day > today:
            yield f"{what} is dated {written}, which is to come"
    for key, source in file.sources.items():
        # Without a scheme: a file of this project, for what was read on a machine of ours.
        if not source.title or not source.address or urlsplit(source.address).scheme not in ("http", "https", ""):
            yield f"source {key} has no title, or no address where it can be read"
    if file.as_of < shipped.as_of:
        yield f"it is of {file.as_of}, and ownlab has one of {shipped.as_of}"


def _day(written: str) -> date | None:
    try:
        day = date.fromisoformat(written)
    except ValueError:
        return None
    return day if day.isoformat() == written else None  # 2026-W46-7 would not stand in order with the others


def _wrong_figures(file: CardFile) -> Iterator[str]:
    for card, figure, (value, _) in figures_in(file):
        low, high = _BOUNDS[figure]
        if not low <= value <= high:
            yield f"{card}: {figure} = {value:g} is not between {low:g} and {high:g}"
    for row in file.cards:
        usable, size = row.memory_gib, row.memory_gb
        if isinstance(usable, tuple) and isinstance(size, tuple) and usable[0] > size[0]:
            yield f"{row.name}: programs cannot have more than its memory"


def _wrong_changes(file: CardFile, shipped: CardFile) -> Iterator[str]:
    """Figures of cards that we have are corrected a little, or withdrawn; the ladder's reference keeps all of them."""
    rows = {row.name: row for row in file.cards}
    for before in shipped.cards:
        row = rows.get(before.name)
        if row is None:
            continue
        if (row.vendor, row.architecture) != (before.vendor, before.architecture):
            yield f"{row.name} is of {before.vendor}, {before.architecture}, not of {row.vendor}, {row.architecture}"
        allowed = _REFERENCE_CORRECTION if row.name == REFERENCE else _CORRECTION
        for name in FIGURE_NAMES:
            was, now = getattr(before, name), getattr(row, name)
            if not isinstance(was, tuple):
                continue
            if isinstance(now, str):
                if row.name == REFERENCE or now == NO_UNITS:
                    yield f"{row.name}: {name} was {was[0]:g} and would be gone"
            elif not was[0] / allowed <= now[0] <= was[0] * allowed:
                yield f"{row.name}: {name} was {was[0]:g} and would be {now[0]:g}"


def _wrong_names(file: CardFile, shipped: CardFile) -> Iterator[str]:
    """What we have keeps its names: cards are found by them, and figures name their sources."""
    owners: dict[frozenset[str], set[str]] = {}
    for ours in shipped.cards:
        for name in (ours.name, *ours.aliases):
            owners.setdefault(frozenset(words_of(name)), set()).add(ours.name)
    for row in file.cards:
        for name in (row.name, *row.aliases):
            others = owners.get(frozenset(words_of(name)), {row.name})  # two sizes of one card share a name
            if row.name not in others:
                yield f"{name} is a name of the {min(others)}"
    for key, source in file.sources.items():
        known = shipped.sources.get(key)
        if known is not None and known.address != source.address:
            yield f"source {key} is {known.address}; another one needs another name"


def _place(text: str) -> None:
    path = own_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as exc:
        raise InputError(f"{path.parent} cannot be made: {exc.strerror}") from exc
    write_file(path, text.encode())

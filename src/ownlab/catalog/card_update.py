"""`ownlab gpus update`: a newer table of cards. It is checked as a whole, and saved as a whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from urllib.parse import urlsplit

from msgspec import Struct

from ownlab.atomic_files import write_file
from ownlab.catalog.card_speeds import REFERENCE
from ownlab.catalog.cards import (
    FIGURES,
    NO_UNITS,
    CardTable,
    FigureName,
    current_tables,
    figures_in,
    name_words,
    parse_table,
    shipped_table,
    updated_table_path,
)
from ownlab.catalog.data_files import tomllib
from ownlab.errors import InputError, RecordError
from ownlab.text import facts, listing, text

__all__ = ["MAX_BYTES", "CatalogUpdate", "reset", "update"]

MAX_BYTES = 5 * 2**20  # the shipped table has 70 kB
# Values outside were written in another unit. The upper bounds are about four times the best of today.
_BOUNDS: dict[FigureName, tuple[float, float]] = {
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
    "nvlink_gb_s": (20, 15_000),
    "power_w": (5, 5000),
    "launch_usd": (20, 500_000),
}
# The largest correction of a known figure, as a factor. Twice or half is the rate with sparsity, or with fp16 accumulation.
_MAX_CORRECTION = 1.5
_MAX_REFERENCE_CORRECTION = 1.05  # all speeds are relative to this card
_FIRST_YEAR = 1999
_YEARS_AHEAD = 1
_DEVICES = (1, 16)
_SHOWN_PROBLEMS = 5


class CatalogUpdate(Struct, frozen=True):
    """`ownlab gpus update --json`."""

    path: str
    as_of: str | None  # None: the update was removed
    cards: int  # in the update
    new: tuple[str, ...]
    changed: tuple[str, ...]


def update(source: str, *, today: date | None = None) -> CatalogUpdate:
    """Check a table and save it where load_cards reads it. InputError lists what is wrong with it."""
    table = parse_table(source)
    shipped = shipped_table()
    known = {row.name: row for each in _tables_before(shipped) for row in each.cards}
    day = today or date.today()
    problems = [
        *_character_problems(source),
        *_date_problems(table, shipped, day),
        *_card_problems(table, day),
        *_figure_problems(table),
        *_change_problems(table, shipped),
        *_name_problems(table, shipped),
    ]
    if problems:
        shown, more = facts(*problems[:_SHOWN_PROBLEMS], separator="; "), len(problems) - _SHOWN_PROBLEMS
        message = (
            text("The table is not used: {problems}; and {more} more.", problems=shown, more=more)
            if more > 0
            else text("The table is not used: {problems}.", problems=shown)
        )
        raise InputError(message, hint=text("The current figures are kept."))
    _save(source)
    new = tuple(row.name for row in table.cards if row.name not in known)
    changed = tuple(row.name for row in table.cards if row.name in known and known[row.name] != row)
    return CatalogUpdate(str(updated_table_path()), table.as_of, len(table.cards), new, changed)


def reset() -> CatalogUpdate:
    """Remove the update: the figures are again those that came with ownlab."""
    path = updated_table_path()
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError:
        pass  # there is no update
    except OSError as exc:
        raise InputError(text("Cannot remove {path}: {cause}.", path=path, cause=exc.strerror)) from exc
    return CatalogUpdate(str(path), None, 0, (), ())


def _tables_before(shipped: CardTable) -> tuple[CardTable, ...]:
    try:
        return current_tables()
    except RecordError:  # the earlier update is damaged, and about to be replaced
        return (shipped,)


def _save(source: str) -> None:
    path = updated_table_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as exc:
        raise InputError(text("Cannot create {path}: {cause}.", path=path.parent, cause=exc.strerror)) from exc
    write_file(path, source.encode())


# --- checks -----------------------------------------------------------------------------------------------------------


def _character_problems(source: str) -> Iterator[str]:
    """Control characters would steer the terminal that shows them; TOML writes them as \\u001b."""
    strings = _all_strings(tomllib.loads(source))
    control = sorted({ascii(char) for char in strings if not char.isprintable() and char != "\n"})
    if control:
        yield text("it contains control characters ({characters})", characters=listing(control[:3], "{items}, {last}"))


def _all_strings(node: object) -> str:
    if isinstance(node, dict):
        return "".join(f"{key}{_all_strings(value)}" for key, value in node.items())
    if isinstance(node, list):
        return "".join(map(_all_strings, node))
    return node if isinstance(node, str) else ""


def _card_problems(table: CardTable, today: date) -> Iterator[str]:
    names = [row.name for row in table.cards]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield text("{card} is listed twice", card=name)
    if not names:
        yield text("it has no cards")
    fewest, most = _DEVICES
    for row in table.cards:
        if not row.name.strip() or not row.vendor.strip():
            yield text("a card has no name or no vendor")
        if row.year is not None and not _FIRST_YEAR <= row.year <= today.year + _YEARS_AHEAD:
            yield text("{card}: the year {year} is not possible", card=row.name, year=row.year)
        if not re.fullmatch(r"(\d+\.\d|gfx\w+)?", row.capability):
            yield text("{card}: {value!r} is not a compute capability", card=row.name, value=row.capability)
        if not fewest <= row.devices <= most:
            yield text("{card}: a board cannot show as {count} devices", card=row.name, count=row.devices)


def _date_problems(table: CardTable, shipped: CardTable, today: date) -> Iterator[str]:
    dates: dict[str, str] = {text("source {key}", key=key): source.read for key, source in table.sources.items()}
    dates["as_of"] = table.as_of
    for owner, written in dates.items():
        day = _parse_date(written)
        if day is None:
            yield text("{owner}: {value!r} is not a date such as 2026-11-15", owner=owner, value=written)
        elif day > today:
            yield text("{owner}: {date} is in the future", owner=owner, date=written)
    for key, source in table.sources.items():
        # Without a scheme: a file of this project, for figures that were read on one of its machines.
        if not source.title or not source.address or urlsplit(source.address).scheme not in ("http", "https", ""):
            yield text("source {key} has no title, or no valid address", key=key)
    if table.as_of < shipped.as_of:
        yield text(
            "it is dated {date}, older than the table that came with ownlab ({shipped})",
            date=table.as_of,
            shipped=shipped.as_of,
        )


def _parse_date(written: str) -> date | None:
    try:
        day = date.fromisoformat(written)
    except ValueError:
        return None
    return day if day.isoformat() == written else None  # 2026-W46-7 does not sort with the others


def _figure_problems(table: CardTable) -> Iterator[str]:
    for card, figure, (value, _) in figures_in(table):
        low, high = _BOUNDS[figure]
        if not low <= value <= high:
            yield text(
                "{card}: {figure} = {value:g} is not between {low:g} and {high:g}",
                card=card,
                figure=figure,
                value=value,
                low=low,
                high=high,
            )
    for row in table.cards:
        usable, size = row.memory_gib, row.memory_gb
        if isinstance(usable, tuple) and isinstance(size, tuple) and usable[0] > size[0]:
            yield text("{card}: memory_gib is more than its memory", card=row.name)


def _change_problems(table: CardTable, shipped: CardTable) -> Iterator[str]:
    """Known figures may be corrected a little, or withdrawn; those of the reference card must stay."""
    rows = {row.name: row for row in table.cards}
    for before in shipped.cards:
        row = rows.get(before.name)
        if row is None:
            continue
        if (row.vendor, row.architecture) != (before.vendor, before.architecture):
            yield text(
                "{card} is {vendor} {architecture}, not {new_vendor} {new_architecture}",
                card=row.name,
                vendor=before.vendor,
                architecture=before.architecture,
                new_vendor=row.vendor,
                new_architecture=row.architecture,
            )
        allowed = _MAX_REFERENCE_CORRECTION if row.name == REFERENCE else _MAX_CORRECTION
        for name in FIGURES:
            old, new = getattr(before, name), getattr(row, name)
            if not isinstance(old, tuple):
                continue
            if isinstance(new, str):
                if row.name == REFERENCE or new == NO_UNITS:
                    yield text("{card}: {figure} was {old:g} and would be lost", card=row.name, figure=name, old=old[0])
            elif not old[0] / allowed <= new[0] <= old[0] * allowed:
                yield text(
                    "{card}: {figure} was {old:g} and would become {new:g}",
                    card=row.name,
                    figure=name,
                    old=old[0],
                    new=new[0],
                )


def _name_problems(table: CardTable, shipped: CardTable) -> Iterator[str]:
    """Shipped names stay: cards are found by them, and figures name their sources by key."""
    owners: dict[frozenset[str], set[str]] = {}
    for known in shipped.cards:
        for name in (known.name, *known.aliases):
            owners.setdefault(frozenset(name_words(name)), set()).add(known.name)
    for row in table.cards:
        for name in (row.name, *row.aliases):
            others = owners.get(frozenset(name_words(name)), {row.name})  # two sizes of one card share a name
            if row.name not in others:
                yield text("{name} is a name of the {card}", name=name, card=min(others))
    for key, source in table.sources.items():
        shipped_source = shipped.sources.get(key)
        if shipped_source is not None and shipped_source.address != source.address:
            yield text(
                "the source {key} is {address}; use another key for another source",
                key=key,
                address=shipped_source.address,
            )

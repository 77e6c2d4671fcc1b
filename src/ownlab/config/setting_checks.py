"""What settings take. Each check returns the value as it is kept, or raises BadValue; environment variables give text."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import Any

from ownlab.languages import LANGUAGES, known_language
from ownlab.text import listing, text

__all__ = [
    "BadValue",
    "Check",
    "as_address",
    "as_boolean",
    "as_duration",
    "as_file",
    "as_folder",
    "as_language",
    "as_limit",
    "as_script",
    "as_shares",
    "as_string",
    "integer_from",
    "number_from",
]

# The numbers of equal parts that a card can be divided into.
SHARES = (2, 3, 4, 6, 12)

_DURATION = r"\d+(:\d\d?){0,2}|\d+-\d\d?(:\d\d?){0,2}"


class BadValue(Exception):
    """A value that a setting does not take; the text says what it takes: "a whole number from 0 to 65535"."""


Check = Callable[[object], Any]


def number_from(least: float, most: float = math.inf) -> Check:
    if math.isinf(most):
        expected = text("a number of at least {least:g}", least=least)
    else:
        expected = text("a number from {least:g} to {most:g}", least=least, most=most)

    def check(given: object) -> float:
        number = _as_number(given, expected)
        if not least <= number <= most:
            raise BadValue(expected)
        return number

    return check


def _as_number(given: object, expected: str) -> float:
    if isinstance(given, str):
        try:
            given = float(given)
        except ValueError as exc:
            raise BadValue(expected) from exc
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
        raise BadValue(expected)
    return float(given)


def integer_from(least: int, most: int) -> Check:
    expected = text("a whole number from {least} to {most}", least=least, most=most)

    def check(given: object) -> int:
        number = _as_number(given, expected)
        if not number.is_integer() or not least <= number <= most:
            raise BadValue(expected)
        return int(number)

    return check


def as_language(given: object) -> str:
    language = known_language(given) if isinstance(given, str) else None
    if given == "":
        return ""
    if language is None:
        names = [f"{name} ({spoken})" for name, spoken in LANGUAGES.items()]
        raise BadValue(text("a language: {names}", names=listing(names, "{items} or {last}")))
    return language


def as_limit(given: object) -> float | None:
    expected = text('a number above 0, or "none" for no limit')
    if given is None or given == "none":
        return None
    number = _as_number(given, expected)
    if number <= 0:
        raise BadValue(expected)
    return number


def as_boolean(given: object) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(given, str) and given.lower() in words:
        return words[given.lower()]
    if not isinstance(given, bool):
        raise BadValue(text("true or false"))
    return given


def _absolute(given: object, expected: str, endings: tuple[str, ...] = ("",)) -> str | None:
    if given is None:
        return None
    path = os.path.expanduser(given) if isinstance(given, str) else ""
    if not os.path.isabs(path) or not path.endswith(endings):
        raise BadValue(expected)
    return os.path.normpath(path)


def as_folder(given: object) -> str | None:
    return _absolute(given, text("the full path of a folder"))


def as_file(given: object) -> str | None:
    return _absolute(given, text("the full path of a file"))


def as_script(given: object) -> str | None:
    return _absolute(given, text("the full path of a script that ends in .sh or .py"), (".sh", ".py"))


def as_string(given: object) -> str:
    if not isinstance(given, str):
        raise BadValue(text("a text"))
    return given


def as_duration(given: object) -> str:
    """A time as sbatch takes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]."""
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        given = str(given)
    if not isinstance(given, str) or (given and not re.fullmatch(_DURATION, given)):
        raise BadValue(text("minutes, hours:minutes:seconds or days-hours:minutes:seconds, such as 2-12:00:00"))
    return given


def as_address(given: object) -> str:
    if not isinstance(given, str) or (given and not given.startswith(("https://", "http://", "file:///"))):
        raise BadValue(text("an address that begins with https://, http:// or file:///"))
    if "@" in given.partition("://")[2].partition("/")[0]:  # `ownlab config` prints it
        raise BadValue(text("an address without user name and password, which belong into ~/.netrc"))
    return given.rstrip("/")


def as_shares(given: object) -> tuple[int, ...]:
    if isinstance(given, str):
        given = [int(part) if part.strip().isdecimal() else part for part in given.split(",") if part.strip()]
    if not isinstance(given, (list, tuple)) or any(part is True or part not in SHARES for part in given):
        allowed = listing(SHARES, "{items} or {last}")
        raise BadValue(
            text("a list of numbers of parts, each {allowed}: [2] offers halves, [] only whole cards", allowed=allowed)
        )
    return tuple(sorted(set(given)))

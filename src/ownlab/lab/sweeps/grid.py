"""The combinations of values that a sweep runs: `--sweep lr=1e-3,1e-4 --sweep batch=32,64` are four."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from ownlab.errors import UsageError
from ownlab.text import text

__all__ = ["Combination", "combinations", "describe"]

# Name -> value, both as they were typed.
Combination = dict[str, str]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_MOST = 10_000
_OPENING, _CLOSING = "([{", ")]}"


def combinations(given: Sequence[str]) -> tuple[Combination, ...]:
    """Return every combination, the last name changing fastest. UsageError if one is not of the form NAME=VALUE,VALUE."""
    axes: dict[str, list[str]] = {}
    for each in given:
        name, equals, values = each.partition("=")
        name = name.strip().lstrip("-")
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(
                text("--sweep {value} is not of the form NAME=VALUE,VALUE.", value=each),
                hint=text("For example: --sweep lr=1e-3,1e-4"),
            )
        if name in axes:
            raise UsageError(text("--sweep names {name} twice.", name=name))
        axes[name] = list(dict.fromkeys(_split(values)))
        if "" in axes[name]:
            raise UsageError(text("--sweep {value} has an empty value.", value=each))
    found = tuple(
        dict(zip(axes, values, strict=True))
        for values in itertools.islice(itertools.product(*axes.values()), _MOST + 1)
    )
    if len(found) > _MOST:
        raise UsageError(text("These are more than {n} combinations.", n=_MOST))
    return found


def describe(combination: Combination) -> str:
    """lr=1e-3 batch=32."""
    return " ".join(f"{name}={value}" for name, value in combination.items())


def _split(values: str) -> list[str]:
    """Split at commas, but not inside of brackets or quotes: `sizes=[1,2],[3,4]` are two values."""
    parts, depth, quote = [""], 0, ""
    for char in values:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
        if char == "," and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]

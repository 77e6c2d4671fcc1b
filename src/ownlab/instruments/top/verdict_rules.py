"""The rules of verdicts.toml: read once, and applied to one card's figures."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ownlab.units import format_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "Figures",
    "Rule",
    "Rules",
    "Words",
    "because",
    "find_rule",
    "format_figure",
    "load_rules",
    "notes",
    "probably",
    "say",
]

# By the names of verdicts.toml; what is not known is absent.
Figures = Mapping[str, float]

# A share below this is none: counters are never quite still.
_NOTHING = 0.01

_Comparison = Literal[">=", "<"]
_OPTIONAL = re.compile(r"\[([^]]*)\]")
_NAME = re.compile(r"{(\w+)}")


class Figure(Struct, frozen=True, forbid_unknown_fields=True):
    """What a figure is called."""

    words: str
    unit: str


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One verdict, and when it is drawn."""

    code: str
    title: str
    when: tuple[tuple[str, _Comparison, float], ...]
    sentence: str
    advice: str
    source: str  # of its limits
    measured: bool | None = None  # True: only with GPM; False: only without
    probable: bool = False  # without GPM it is a guess, and said to be


class Note(Struct, frozen=True, forbid_unknown_fields=True):
    """What is said beside any verdict."""

    when: tuple[tuple[str, _Comparison, float], ...]
    text: str


class Words(Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict that rests on no figure."""

    sentence: str
    advice: str


class Rules(Struct, frozen=True, forbid_unknown_fields=True):
    """verdicts.toml."""

    settle_seconds: float
    idle_below: float
    titles: dict[str, str]  # by code
    figures: dict[str, Figure]
    verdicts: tuple[Rule, ...]
    notes: tuple[Note, ...]
    words: dict[str, Words]


@lru_cache(maxsize=1)
def load_rules() -> Rules:
    """The rules. A file that does not fit is a bug of ours, and raises."""
    text = Path(__file__).with_name("verdicts.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Rules)


def find_rule(figures: Figures, *, measured: bool) -> Rule:
    """The first rule that holds; the last one always does."""
    for rule in load_rules().verdicts:
        if rule.measured in (None, measured) and _all_hold(rule.when, figures):
            return rule
    raise AssertionError("the last rule of verdicts.toml has conditions")


def because(rule: Rule, figures: Figures) -> tuple[str, ...]:
    """What a verdict rests on: each figure with its limits."""
    limits: dict[str, list[str]] = {}
    for name, comparison, limit in rule.when:
        word = "at least" if comparison == ">=" else "below"
        limits.setdefault(name, []).append(f"{word} {format_figure(name, limit)}")
    known = load_rules().figures
    return tuple(
        f"{known[name].words}: {format_figure(name, figures[name])} ({' and '.join(said)})"
        for name, said in limits.items()
    )


def notes(figures: Figures) -> tuple[str, ...]:
    """What should be said beside the verdict."""
    told = _Told(figures)
    return tuple(note.text.format_map(told) for note in load_rules().notes if _all_hold(note.when, figures))


def say(sentence: str, figures: Figures, **words: str) -> str:
    """A sentence with its figures filled in; a part in brackets is left out where one of its figures is not known."""

    def is_known(part: str) -> bool:
        return all(name in figures or name in words for name in _NAME.findall(part))

    said = _OPTIONAL.sub(lambda match: match[1] if is_known(match[1]) else "", sentence)
    return said.format_map(_Told(figures, words))


def probably(sentence: str) -> str:
    """The same as a guess: "Probably starved: …"."""
    begins_with_a_name = sentence[1:2].isupper()
    return f"Probably {sentence if begins_with_a_name else sentence[:1].lower() + sentence[1:]}"


def format_figure(name: str, value: float) -> str:
    """ "0.75 %", "93 %", "61 °C": small ones keep two digits that count."""
    unit = load_rules().figures[name].unit
    return f"{format_bytes(value)}/s" if unit == "B/s" else f"{_short(value)} {unit}".strip()


def _short(value: float) -> str:
    if abs(value) >= 10 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}" if abs(value) >= _NOTHING else "0"


class _Told(dict[str, str]):
    """Figures by name, as text: what is not known is said to be so."""

    def __init__(self, figures: Figures, words: Mapping[str, str] | None = None) -> None:
        super().__init__(words or {})
        self.figures = figures

    def __missing__(self, name: str) -> str:
        value = self.figures.get(name)
        return "an unknown part" if value is None else format_figure(name, value)


def _all_hold(conditions: tuple[tuple[str, _Comparison, float], ...], figures: Figures) -> bool:
    for name, comparison, limit in conditions:
        value = figures.get(name)
        if value is None or (value >= limit) is not (comparison == ">="):
            return False
    return True

"""The rules of verdicts.toml: loading them, finding the one that matches a card's metrics, and rendering its sentence."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ownlab.text import Template, Text, read_template, text
from ownlab.units import format_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "Metrics",
    "Rule",
    "Rules",
    "State",
    "find_rule",
    "format_metric",
    "load_rules",
    "matching_notes",
    "render_sentence",
    "render_state",
    "verdict_reasons",
]

# By the names of verdicts.toml; unknown ones are absent.
Metrics = Mapping[str, float]

# Counters are never perfectly still: a smaller value is shown as 0.
_ZERO = 0.01

_Comparison = Literal[">=", "<"]
_Condition = tuple[str, _Comparison, float]
_PLACEHOLDER = re.compile(r"{(\w+)}")


class Metric(Struct, frozen=True, forbid_unknown_fields=True):
    """Name and unit of a metric."""

    name: Template
    unit: str


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One verdict and its conditions."""

    code: str
    title: str
    when: tuple[_Condition, ...]
    sentence: tuple[Template, ...]  # the alternatives, the most detailed first
    advice: Template
    source: str  # of its limits
    measured: bool | None = None  # True: only with GPM; False: only without
    inferred_sentence: Template | None = None  # instead of `sentence`, without GPM


class Note(Struct, frozen=True, forbid_unknown_fields=True):
    """A remark that is added to any verdict."""

    when: tuple[_Condition, ...]
    text: Template


class State(Struct, frozen=True, forbid_unknown_fields=True):
    """The verdict about a card that gives no metrics."""

    sentence: Template
    advice: Template


class Rules(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of verdicts.toml."""

    settle_seconds: float
    idle_below: float
    titles: dict[str, Template]  # by code
    headlines: dict[str, Template]  # the titles at the beginning of a line
    metrics: dict[str, Metric]
    verdicts: tuple[Rule, ...]
    notes: tuple[Note, ...]
    states: dict[str, State]


@lru_cache(maxsize=1)
def load_rules() -> Rules:
    """Load verdicts.toml, once. An invalid file is a bug of ours and raises."""
    content = Path(__file__).with_name("verdicts.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(content), Rules, dec_hook=read_template)


def find_rule(metrics: Metrics, *, measured: bool) -> Rule:
    """Return the first rule that matches; the last one always does."""
    for rule in load_rules().verdicts:
        if rule.measured in (None, measured) and _all_match(rule.when, metrics):
            return rule
    raise AssertionError("the last rule of verdicts.toml has conditions")


def verdict_reasons(rule: Rule, metrics: Metrics) -> tuple[Text, ...]:
    """Return what a verdict is based on: each metric of the rule with its limits."""
    limits: dict[str, dict[str, str]] = {}
    for name, comparison, limit in rule.when:
        limits.setdefault(name, {})["least" if comparison == ">=" else "most"] = format_metric(name, limit)
    return tuple(_reason(name, metrics[name], limits[name]) for name in limits)


def _reason(name: str, value: float, limits: Mapping[str, str]) -> Text:
    metric, shown = load_rules().metrics[name].name.fill(), format_metric(name, value)
    if len(limits) == 2:
        return text("{metric}: {value} (at least {least} and below {most})", metric=metric, value=shown, **limits)
    if "least" in limits:
        return text("{metric}: {value} (at least {least})", metric=metric, value=shown, **limits)
    return text("{metric}: {value} (below {most})", metric=metric, value=shown, **limits)


def matching_notes(metrics: Metrics) -> tuple[Text, ...]:
    """Return the remarks that apply to these metrics."""
    return tuple(
        render_sentence((note.text,), metrics) for note in load_rules().notes if _all_match(note.when, metrics)
    )


def render_sentence(templates: tuple[Template, ...], metrics: Metrics, **values: str) -> Text:
    """Fill in the first template whose values are all known; if there is none, the last one."""
    chosen = templates[-1]
    for template in templates:
        if all(name in metrics or name in values for name in _PLACEHOLDER.findall(template)):
            chosen = template
            break
    return chosen.fill(**{name: _value(name, metrics, values) for name in _PLACEHOLDER.findall(chosen)})


def render_state(state: State, **values: str) -> Text:
    """Return the sentence about a card that gives no metrics."""
    return state.sentence.fill(**values)


def format_metric(name: str, value: float) -> str:
    """Format with the metric's unit: "0.75 %", "93 %", "61 °C". Small values keep two significant digits."""
    unit = load_rules().metrics[name].unit
    return f"{format_bytes(value)}/s" if unit == "B/s" else f"{_shorten(value)} {unit}".strip()


def _value(name: str, metrics: Metrics, values: Mapping[str, str]) -> str:
    if name in values:
        return values[name]
    value = metrics.get(name)
    return text("an unknown share") if value is None else format_metric(name, value)


def _shorten(value: float) -> str:
    if abs(value) >= 10 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}" if abs(value) >= _ZERO else "0"


def _all_match(conditions: tuple[_Condition, ...], metrics: Metrics) -> bool:
    for name, comparison, limit in conditions:
        value = metrics.get(name)
        if value is None or (value >= limit) is not (comparison == ">="):
            return False
    return True

"""verdicts.toml: complete and reachable rules, and the generated part of docs/TOP.md."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from ownlab.instruments.top.fields import FIELDS
from ownlab.instruments.top.metrics import COLUMNS
from ownlab.instruments.top.verdict_rules import (
    Rule,
    find_rule,
    format_metric,
    load_rules,
    matching_notes,
    render_sentence,
    verdict_reasons,
)
from ownlab.text import template

PAGE = Path(__file__).resolve().parents[3] / "docs" / "TOP.md"
RULES = load_rules()
# Values from the window that are not metrics.
VALUES = {"who", "held", "drawn", "hidden", "idle", "idle_at_least"}


def names_in(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}


@pytest.mark.parametrize("rule", RULES.verdicts, ids=lambda rule: rule.title)
def test_a_rule_uses_known_metrics(rule: Rule) -> None:
    assert {name for name, _, _ in rule.when} <= set(RULES.metrics)
    for words in (*rule.sentence, rule.inferred_sentence or rule.sentence[-1]):
        assert names_in(words) <= set(RULES.metrics) | VALUES
        assert words.endswith(".")
    assert rule.code in RULES.titles
    assert rule.source
    assert (rule.measured is False) is rule.title.startswith("Probably")
    if rule.inferred_sentence:
        assert rule.inferred_sentence == f"Probably s{rule.sentence[0][1:]}"


def test_every_metric_is_measured_and_every_code_has_a_title() -> None:
    assert set(RULES.metrics) == {*COLUMNS, "holders", "desktop", "hidden_share", "fill", "fp64_part"}
    assert set(RULES.titles) == set(RULES.headlines) == {*(rule.code for rule in RULES.verdicts), *RULES.states}
    for note in RULES.notes:
        assert {name for name, _, _ in note.when} | names_in(note.text) <= set(RULES.metrics)


def metrics_at_the_limits(rule: Rule) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name, comparison, limit in rule.when:
        metrics[name] = limit if comparison == ">=" else metrics.get(name, limit - 1)
    return metrics


@pytest.mark.parametrize("rule", RULES.verdicts, ids=lambda rule: rule.title)
def test_a_rule_matches_at_its_limits_and_is_reachable(rule: Rule) -> None:
    metrics = metrics_at_the_limits(rule)
    assert find_rule(metrics, measured=rule.measured is not False) is rule
    assert len(verdict_reasons(rule, metrics)) == len({name for name, _, _ in rule.when})


def test_an_unknown_metric_matches_no_condition() -> None:
    assert find_rule({}, measured=True).code == "unknown"
    assert matching_notes({}) == ()
    assert render_sentence((template("SMs {sm}"),), {}) == "SMs an unknown share"


def test_the_first_sentence_with_known_values_is_used() -> None:
    templates = (
        template("Hot, at {temperature}; clocks at {clock_share}."),
        template("Hot; clocks at {clock_share}."),
        template("Hot."),
    )
    sentence = render_sentence(templates, {"clock_share": 50.0})
    assert sentence == "Hot; clocks at 50 %."
    assert (sentence.template, sentence.values) == (templates[1], {"clock_share": "50 %"})
    assert render_sentence(templates, {}) == "Hot."


@pytest.mark.parametrize(
    ("name", "value", "formatted"),
    [
        ("sm", 0.754, "0.75 %"),
        ("sm", 0.0001, "0 %"),
        ("sm", 7.06, "7.1 %"),
        ("sm", 99.7, "100 %"),
        ("temperature", 61.0, "61 °C"),
        ("pcie", 59.4e9, "55.3 GiB/s"),
        ("holders", 2.0, "2"),
    ],
)
def test_metrics_are_formatted_with_their_unit(name: str, value: float, formatted: str) -> None:
    assert format_metric(name, value) == formatted


def conditions(rule: Rule) -> str:
    comparisons = {">=": "at least", "<": "below"}
    parts = (
        f"{RULES.metrics[name].name}: {comparisons[comparison]} {format_metric(name, limit)}"
        for name, comparison, limit in rule.when
    )
    return "; ".join(parts) or "no other rule matches"


def blanked(template: str) -> str:
    return re.sub(r"{\w+}", "…", template)


def verdict_pages() -> Iterator[str]:
    for rule in RULES.verdicts:
        yield f"### {rule.title} (`{rule.code}`)"
        yield ""
        yield f"*{blanked(rule.sentence[0])}*"
        yield ""
        yield f"**When.** {conditions(rule)[0].upper()}{conditions(rule)[1:]}."
        yield ""
        yield f"**What to try.** {rule.advice}"
        yield ""
        yield f"**Source of the limits.** {rule.source}"
        yield ""
    for code, state in RULES.states.items():
        yield f"### {RULES.headlines[code]} (`{code}`)"
        yield ""
        yield f"*{blanked(state.sentence)}* {state.advice}".strip()
        yield ""


def field_lines() -> Iterator[str]:
    yield "| field | unit | meaning |"
    yield "|---|---|---|"
    for field in FIELDS.values():
        yield f"| `{field.name}` | {field.unit} | {field.meaning} |"


def fill_section(page: str, mark: str, lines: Iterator[str]) -> str:
    begin, end = f"<!-- {mark}: made by make golden -->\n", f"<!-- end of {mark} -->\n"
    head, _, rest = page.partition(begin)
    _, _, tail = rest.partition(end)
    return head + begin + "".join(f"{line}\n" for line in lines) + end + tail


def test_generated_page() -> None:
    """The sections of docs/TOP.md on verdicts and fields."""
    page = PAGE.read_text()
    made = fill_section(fill_section(page, "verdicts", verdict_pages()), "fields", field_lines())
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        PAGE.write_text(made)
    assert made == PAGE.read_text()

"""verdicts.toml: complete, reachable, and the page that is made of it."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest

from ownlab.instruments.top.fields import FIELDS
from ownlab.instruments.top.metrics import COLUMNS
from ownlab.instruments.top.verdict_rules import Rule, because, find_rule, format_figure, load_rules, notes, say

PAGE = Path(__file__).resolve().parents[3] / "docs" / "TOP.md"
RULES = load_rules()
# Filled in by the window, not by figures.
WORDS = {"who", "held", "drawn", "hidden", "idle"}


def names_in(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}


@pytest.mark.parametrize("rule", RULES.verdicts, ids=lambda rule: rule.title)
def test_a_rule_speaks_of_figures_that_there_are(rule: Rule) -> None:
    assert {name for name, _, _ in rule.when} <= set(RULES.figures)
    assert names_in(rule.sentence) <= set(RULES.figures) | WORDS
    assert rule.code in RULES.titles
    assert rule.source
    assert rule.sentence.endswith(".")
    assert (rule.measured is False) is rule.title.startswith("Probably")


def test_every_figure_is_measured_and_every_code_named() -> None:
    assert set(RULES.figures) == {*COLUMNS, "holders", "desktop", "hidden_share", "fill", "fp64_part"}
    assert set(RULES.titles) == {*(rule.code for rule in RULES.verdicts), *RULES.words}
    for note in RULES.notes:
        assert {name for name, _, _ in note.when} | names_in(note.text) <= set(RULES.figures)


def enough_for(rule: Rule) -> dict[str, float]:
    """Figures at the rule's own limits."""
    figures: dict[str, float] = {}
    for name, comparison, limit in rule.when:
        figures[name] = limit if comparison == ">=" else figures.get(name, limit - 1)
    return figures


@pytest.mark.parametrize("rule", RULES.verdicts, ids=lambda rule: rule.title)
def test_a_rule_holds_at_its_limits_and_is_reached(rule: Rule) -> None:
    figures = enough_for(rule)
    assert find_rule(figures, measured=rule.measured is not False) is rule
    assert len(because(rule, figures)) == len({name for name, _, _ in rule.when})


def test_a_figure_that_is_not_known_fulfils_nothing() -> None:
    assert find_rule({}, measured=True).code == "unknown"
    assert notes({}) == ()
    assert say("SMs {sm}", {}) == "SMs an unknown part"


def test_what_is_in_brackets_is_said_where_it_is_known() -> None:
    sentence = "Hot[, at {temperature}][; clocks at {clock_share}]."
    assert say(sentence, {"clock_share": 50.0}) == "Hot; clocks at 50 %."
    assert say(sentence, {}) == "Hot."


@pytest.mark.parametrize(
    ("name", "value", "text"),
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
def test_figures_for_people(name: str, value: float, text: str) -> None:
    assert format_figure(name, value) == text


def conditions(rule: Rule) -> str:
    words = {">=": "at least", "<": "below"}
    said = (
        f"{RULES.figures[name].words} {words[comparison]} {format_figure(name, limit)}"
        for name, comparison, limit in rule.when
    )
    return "; ".join(said) or "nothing else holds"


def blanked(sentence: str) -> str:
    return re.sub(r"(\w?){\w+}", lambda match: f"{match[1]} …" if match[1] else "…", re.sub(r"[][]", "", sentence))


def verdict_pages() -> Iterator[str]:
    for rule in RULES.verdicts:
        yield f"### {rule.title} (`{rule.code}`)"
        yield ""
        yield f"*{blanked(rule.sentence)}*"
        yield ""
        yield f"**When.** {conditions(rule)[0].upper()}{conditions(rule)[1:]}."
        yield ""
        yield f"**What to try.** {rule.advice}"
        yield ""
        yield f"**Source of the limits.** {rule.source}"
        yield ""
    for code, words in RULES.words.items():
        yield f"### {RULES.titles[code].capitalize()} (`{code}`)"
        yield ""
        yield f"*{blanked(words.sentence)}* {words.advice}".strip()
        yield ""


def field_lines() -> Iterator[str]:
    yield "| field | unit | what it is |"
    yield "|---|---|---|"
    for field in FIELDS.values():
        yield f"| `{field.name}` | {field.unit} | {field.meaning} |"


def filled(page: str, mark: str, lines: Iterator[str]) -> str:
    begin, end = f"<!-- {mark}: made by make golden -->\n", f"<!-- end of {mark} -->\n"
    head, _, rest = page.partition(begin)
    _, _, tail = rest.partition(end)
    return head + begin + "".join(f"{line}\n" for line in lines) + end + tail


def test_generated_page() -> None:
    """docs/TOP.md, where it tells of verdicts and fields."""
    page = PAGE.read_text()
    made = filled(filled(page, "verdicts", verdict_pages()), "fields", field_lines())
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        PAGE.write_text(made)
    assert made == PAGE.read_text()

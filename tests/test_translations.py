"""The catalogues of translations fit the sources: complete, with the placeholders of their templates, and compiled."""

from __future__ import annotations

import re

import pytest
from translations.catalogues import LANGUAGES as TRANSLATED
from translations.catalogues import check, placeholders, read_catalogue
from translations.extraction import DOMAINS as EXTRACTED
from translations.extraction import extract
from translations.page import _templates, check_page, extract_page

from ownlab.languages import DOMAINS, LANGUAGES


def test_catalogues_fit_the_sources() -> None:
    assert list(check()) == [], (
        "run: python -m translations.catalogues update; translate what `todo`, `todo page` and `todo docs` print"
    )


def test_the_same_languages_and_domains_everywhere() -> None:
    assert set(LANGUAGES) == {"en", *TRANSLATED}
    assert DOMAINS == EXTRACTED


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{n} cards", ["{n}"]),
        ("{size:,.1f} of {name!r}", ["{name!r}", "{size:,.1f}"]),
        ("braces {{ }}", []),
        ("No such option %s", ["%s"]),
    ],
)
def test_placeholders(template: str, expected: list[str]) -> None:
    assert placeholders(template) == expected


def test_extraction_finds_each_kind_of_message() -> None:
    found = {message.template: message.domain for message in extract()}
    assert found["Serve a folder as a lab in the browser."] == "ownlab"  # the table of commands
    assert found["Print one JSON document instead of text."] == "ownlab"  # an option
    assert found["Open the browser with `ownlab up`."] == "ownlab"  # a setting
    assert (
        found["The path is not a Python interpreter, or the environment behind it is broken."] == "ownlab"
    )  # an error
    assert found["The NVIDIA driver is too old for this build"] == "doctor"
    assert any(message.startswith("**Why it matters.** A driver runs programs") for message in found)
    assert found["Show this message and exit."] == "ownlab"  # click's own


def test_a_translation_is_read_back() -> None:
    for domain in DOMAINS:
        assert all(isinstance(value, str) for value in read_catalogue("zh_CN", domain).values())


def test_paragraphs_break_no_line_between_chinese_characters() -> None:
    """A line break is shown as a space."""
    broken = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]\n[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
    assert [value for value in read_catalogue("zh_CN", "pages").values() if broken.search(value)] == []


def test_the_catalogue_of_the_page_fits_its_sources() -> None:
    assert list(check_page("zh_CN")) == [], (
        "run: python -m translations.catalogues update; translate what `todo page` prints"
    )


def test_extraction_finds_each_kind_of_message_of_the_page() -> None:
    found = {message.key: message.path for message in extract_page()}
    assert found["Runtimes and cards"].startswith("labextension/src/runtimes/")
    assert {"The card is free.", "All {n} cards are free."} <= found.keys()
    assert found["menu\4Runtime"] == "labextension/schema/indicator.json"
    assert "schema\4Start page" in found
    assert "settings\4Record when cells run" in found
    assert "toolbar\4Run all" in found
    assert "{name} has ended." not in found  # an example in a comment


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("text('a {b}', { b })", ["a {b}"]),
        ('text(\n  "don\'t"\n)', ["don't"]),
        (r"text('don\'t \u2026 \u{1F600}')", ["don't … \N{GRINNING FACE}"]),
        ("<p>{textNodes('Run {x}.', { x: <code>pip</code> })}</p>", ["Run {x}."]),
        ("plural(count(a, [1, 2]), 'one, and', '{n} more', { n: text('x') })", ["one, and", "{n} more", "x"]),
        ("  // text('no')\n  * text('no')\n", []),
        ("context('no'); a.text('no')", []),
        ("export function plural(n: number, one: string) {}", []),
    ],
)
def test_templates_of_the_page(source: str, expected: list[str]) -> None:
    assert sorted(_templates(source)) == sorted(expected)

"""Sentences that keep their template and values until they are rendered."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ownlab.json_encoding import encode_json, to_builtins
from ownlab.text import (
    Text,
    edited,
    facts,
    in_english,
    listing,
    pack_texts,
    page_text,
    plural,
    render,
    sentences,
    text,
    unpack_texts,
    use_translations,
)

GERMAN = {
    "The driver {version} is too old.": "Der Treiber {version} ist zu alt.",
    "{items} and {last}": "{items} und {last}",
    "{n} cards": "{n} Karten",
    "Use {cards}.": "Nimm {cards}.",
}


def german(template: str) -> str:
    return GERMAN.get(template, template)


def test_a_text_is_its_sentence_and_remembers_how_it_was_made() -> None:
    made = text("The driver {version} is too old.", version=470)
    assert made == "The driver 470 is too old."
    assert (made.template, made.values) == ("The driver {version} is too old.", {"version": 470})


def test_a_text_without_values_is_not_formatted() -> None:
    assert text("Write {name} there.") == "Write {name} there."


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        text("The driver {version} is too old.", driver=470)


@pytest.mark.parametrize(("n", "expected"), [(0, "0 cards"), (1, "one card"), (2, "2 cards")])
def test_plural(n: int, expected: str) -> None:
    assert plural(n, "one card", "{n} cards") == expected


@pytest.mark.parametrize(
    ("items", "expected"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", 3], "a, b and 3")]
)
def test_listing(items: list[object], expected: str) -> None:
    assert listing(items) == expected


def test_sentences_are_joined_and_empty_ones_left_out() -> None:
    assert sentences(text("One."), None, "", text("Two.")) == "One. Two."


def test_facts_of_a_line_keep_their_templates_and_empty_ones_are_left_out() -> None:
    made = facts("NVIDIA H200", None, "", plural(2, "one card", "{n} cards"))
    assert made == "NVIDIA H200, 2 cards"
    assert render(made, german) == "NVIDIA H200, 2 Karten"
    assert facts("a", "b", separator="; ") == "a; b"
    assert facts(None) == ""


def test_a_text_is_rendered_in_another_language_with_the_texts_inside_it() -> None:
    cards = plural(2, "one card", "{n} cards")
    made = sentences(text("The driver {version} is too old.", version=470), text("Use {cards}.", cards=cards))
    assert render(made, german) == "Der Treiber 470 ist zu alt. Nimm 2 Karten."
    assert render(listing(["a", "b"]), german) == "a und b"
    assert render(listing([cards, cards, "c"]), german) == "2 Karten, 2 Karten und c"
    assert render("plain", german) == "plain"


def test_a_text_in_a_record_is_encoded_as_a_string() -> None:
    class Record(msgspec.Struct, frozen=True):
        message: str

    record = Record(text("The driver {version} is too old.", version=470))
    assert encode_json(record) == b'{"message":"The driver 470 is too old."}'
    assert to_builtins(record) == {"message": "The driver 470 is too old."}


def test_a_text_survives_copying_and_pickling() -> None:
    made = text("The driver {version} is too old.", version=470)
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert isinstance(again, Text)
        assert (again, again.template) == (made, made.template)


def across_a_pipe(document: dict[str, Any]) -> dict[str, Any]:
    return unpack_texts(json.loads(json.dumps(pack_texts(document))))


def test_the_texts_of_a_json_document_keep_their_templates_in_another_process() -> None:
    driver = text("The driver {version} is too old.", version=470)
    document = {
        "error": driver,
        "notes": [text("Use {cards}.", cards=listing([plural(2, "one card", "{n} cards"), "the processor"]))],
        "inner": {"share": text("{share:.1f} % are free", share=12.345), "plain": "The driver 470 is old.", "n": 3},
    }
    received = across_a_pipe(document)
    assert received == document
    assert received["error"].template == driver.template
    assert render(received["error"], german) == "Der Treiber 470 ist zu alt."
    assert render(received["notes"][0], german) == "Nimm 2 Karten und the processor."
    assert received["inner"]["share"].values == {"share": 12.345}
    assert type(received["inner"]["plain"]) is str


def test_a_document_without_texts_is_sent_unchanged() -> None:
    document = {"ok": True, "reason": "plain", "values": [1, None]}
    assert pack_texts(document) == document
    assert unpack_texts(document) == document


def test_values_that_json_cannot_hold_are_sent_as_they_are_shown() -> None:
    made = text("{path} cannot be read: {error}", path=Path("a/b"), error=OSError("no"))
    received = across_a_pipe({"reason": made})["reason"]
    assert (received, received.values) == (made, {"path": "a/b", "error": "no"})


@pytest.mark.parametrize(
    "parts",
    [
        None,
        "a string",
        {"template": "{name} fits", "values": {}},  # yields another sentence
        {"template": "It fits{name.__class__.__doc__}", "values": {"name": ""}},
        {"template": "It fits{name[0]}", "values": {"name": [""]}},
        {"template": "It fits{name:>9999999999}", "values": {"name": ""}},
        {"template": "It fits{name:{width}}", "values": {"name": "", "width": 9}},
        {"template": "It fits{missing}", "values": {"name": ""}},
        {"template": "It fits{name:d}", "values": {"name": ""}},
        {"template": "It fits{name}", "values": {"name": {"template": 3, "values": {}}}},
        {"template": ["It fits"], "values": {}},
        {"template": "It fits", "values": []},
    ],
)
def test_what_another_process_sends_as_template_is_used_only_if_it_is_harmless_and_yields_the_sentence(
    parts: object,
) -> None:
    received = unpack_texts({"reason": "It fits", "texts": {"It fits": parts}})
    assert received == {"reason": "It fits"}
    assert type(received["reason"]) is str


def test_texts_within_texts_end_somewhere() -> None:
    parts: dict[str, Any] = {"template": "It fits", "values": {}}
    for _ in range(300):
        parts = {"template": "{inner}", "values": {"inner": parts}}
    received = unpack_texts({"reason": "It fits", "texts": {"It fits": parts}})
    assert type(received["reason"]) is str


def test_a_page_is_translated_paragraph_by_paragraph() -> None:
    page = page_text("First.\n\nUse {cards}.")
    assert page == "First.\n\nUse {cards}."
    assert render(page, lambda paragraph: {"First.": "甲。"}.get(paragraph, paragraph)) == "甲。\n\nUse {cards}."


def test_no_space_stands_between_chinese_sentences() -> None:
    chinese = {"One.": "甲。", "Two: {n}": "乙：{n}"}
    made = sentences(text("One."), text("Two: {n}", n=2), text("One."))
    assert render(made, lambda template: chinese.get(template, template)) == "甲。乙：2 甲。"
    assert made == "One. Two: 2 One."


# --- Chinese ----------------------------------------------------------------------------------------------------------

_CHINESE = {
    "It is {a}.": "这是 {a}。",
    "{n} of {w}": "{w} 的 {n}",
    "on {x}": "在 {x} 上",
    "one": "一种显卡。",
    "card": "显卡",
}


@pytest.fixture
def chinese() -> Iterator[None]:
    use_translations(lambda template: _CHINESE.get(template, template))
    yield
    use_translations(None)


@pytest.mark.usefixtures("chinese")
def test_no_space_and_no_second_full_stop_stands_between_chinese_and_chinese() -> None:
    assert text("It is {a}.", a=text("one")) == "这是一种显卡。"
    assert text("{n} of {w}", n="60 %", w=text("card")) == "显卡的 60 %"
    assert text("on {x}", x="H200") == "在 H200 上"
    assert sentences(text("one"), text("one"), "See x.") == "一种显卡。一种显卡。See x."


@pytest.mark.usefixtures("chinese")
def test_spaces_within_a_value_are_its_own() -> None:
    made = text("on {x}", x="我的 笔记.ipynb")
    assert made == "在我的 笔记.ipynb 上"
    assert in_english(made) == "on 我的 笔记.ipynb"
    assert in_english(sentences("我的 笔记。", "你的。")) == "我的 笔记。 你的。"


@pytest.mark.usefixtures("chinese")
def test_a_change_of_a_sentence_is_made_in_each_language() -> None:
    made = edited(text("on {x}", x="sudo apt"), lambda words: words.replace("sudo ", ""))
    assert made == "在 apt 上"
    assert in_english(made) == "on apt"
    assert render(made, lambda template: template.upper().replace("X", "x")) == "ON apt"
    assert pickle.loads(pickle.dumps(made)) == "on apt"
    assert edited("sudo ls", str.upper) == "SUDO LS"

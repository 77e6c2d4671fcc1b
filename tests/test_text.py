"""Sentences that keep their template and values until they are rendered."""

from __future__ import annotations

import copy
import pickle

import msgspec
import pytest

from ownlab.json_encoding import encode_json, to_builtins
from ownlab.text import Text, listing, plural, render, sentences, text

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

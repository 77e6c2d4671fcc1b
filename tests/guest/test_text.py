"""Sentences of the guest: what the host gets of them, and what they keep."""

from __future__ import annotations

import json
import sys
from typing import Any

from msgspec import Struct

from ownlab.guest_client import ask
from ownlab.json_encoding import decode_guest_json, encode_json
from ownlab.text import Text, render
from ownlab_guest import text as guest


class Answer(Struct, frozen=True):
    """An answer with a sentence, and sentences in a list."""

    error: str = ""
    notes: tuple[str, ...] = ()
    sizes: dict[int, int] = {}


def received(answer: object, kind: Any = Answer) -> Any:
    return decode_guest_json(json.dumps(guest.pack_texts(answer)), kind)


def test_the_host_gets_template_and_values() -> None:
    note = guest.sentences([guest.text("It used {n} threads.", n=2), "Plain."])
    answer = received({"error": guest.text("{folder} is full", folder="/tmp"), "notes": [note], "sizes": {"4": 1}})
    assert answer == Answer("/tmp is full", ("It used 2 threads. Plain.",), {4: 1})
    assert isinstance(answer.error, Text)
    assert (answer.error.template, answer.error.values) == ("{folder} is full", {"folder": "/tmp"})
    german = {"It used {n} threads.": "Es hatte {n} Threads."}
    assert render(answer.notes[0], lambda template: german.get(template, template)) == "Es hatte 2 Threads. Plain."
    assert encode_json(answer) == b'{"error":"/tmp is full","notes":["It used 2 threads. Plain."],"sizes":{"4":1}}'


def test_an_answer_without_sentences_is_sent_unchanged() -> None:
    assert guest.pack_texts({"error": "", "notes": []}) == {"error": "", "notes": []}
    assert received({"error": "plain"}) == Answer("plain")


def test_an_answer_that_is_a_list_arrives_as_a_list() -> None:
    rows = received([{"error": guest.text("no {what}", what="disk")}, {}], tuple[Answer, ...])
    assert rows == (Answer("no disk"), Answer())
    assert rows[0].error.template == "no {what}"


def test_the_message_of_an_exception_keeps_its_template() -> None:
    error = ValueError(guest.text("{name} is wrong", name="x"))
    outer = guest.text("It failed: {reason}", reason=error)
    assert isinstance(outer.values["reason"], guest.Text)  # not the exception, whose traceback would hold tensors
    answer = received({"error": outer})
    assert answer.error == "It failed: x is wrong"
    assert answer.error.values["reason"].template == "{name} is wrong"


def test_a_guest_hands_on_the_sentences_of_another_guest() -> None:
    answer = json.loads(json.dumps(guest.pack_texts({"error": guest.plural(2, "one card", "{n} cards")})))
    again = guest.received(answer["error"], answer)
    assert isinstance(again, guest.Text)
    assert (again, again.template) == ("2 cards", "{n} cards")
    assert guest.received("plain", answer) == "plain"


def test_lists_and_lines() -> None:
    assert guest.listing(["a", "b", 3]) == "a, b and 3"
    assert guest.listing([]) == ""
    assert guest.lines(["a", "", "b"]) == "a\nb"


class Library(Struct, frozen=True):
    """A row of the answer of probe.cuda_libraries."""

    name: str
    purpose: str


def test_a_real_guest_sends_its_templates() -> None:
    libraries = ask(sys.executable, "probe.cuda_libraries", answer=tuple[Library, ...], deadline=60.0)
    assert all(isinstance(library.purpose, Text) for library in libraries)
    assert libraries[0].purpose == "CUDA driver"

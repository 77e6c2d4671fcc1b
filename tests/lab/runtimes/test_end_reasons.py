"""Reasons of the end of a runtime, which the store has as sentences."""

from __future__ import annotations

import pytest

from ownlab.lab.runtimes.end_reasons import IDLE, JOB_LIMIT, QUOTA, SESSION, UNATTENDED, read_reason
from ownlab.text import Text


@pytest.mark.parametrize(
    "made", [reason.fill(duration="1 h 30 min") for reason in (IDLE, UNATTENDED, SESSION, QUOTA)] + [JOB_LIMIT.fill()]
)
def test_a_reason_of_the_store_is_read_as_it_was_made(made: Text) -> None:
    read = read_reason(str.__str__(made))
    assert isinstance(read, Text)
    assert (read, read.template, dict(read.values)) == (made, made.template, dict(made.values))


@pytest.mark.parametrize(
    "sentence", ["", "after lunch", "it was stopped by ann", "after  idle", f"after {'9' * 50} idle"]
)
def test_another_sentence_is_left_as_it_is(sentence: str) -> None:
    read = read_reason(sentence)
    assert read == sentence
    assert not isinstance(read, Text)

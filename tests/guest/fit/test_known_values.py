"""Masks and shapes that a step makes from values: known ones are followed, others are computed with data."""

from __future__ import annotations

import pytest
from tests.guest.fit.paths import Asking, Trace


@pytest.fixture(scope="module")
def answers(traced: Asking) -> list[Trace]:
    return traced({"target": "lengths"}, {"target": "counted"})


def test_shapes_follow_lengths(answers: list[Trace]) -> None:
    trace = answers[0]
    assert "error" not in trace, trace["error"]
    assert trace["guesses"] == []
    assert 4 * 40 * 64 * 4 in trace["events"]["bytes"]  # not 50, which the input has, and not 1, a guess
    assert trace["flops"]["forward"] == 2 * 4 * 40 * 8 * 64


def test_a_size_of_data_is_computed_with_data(answers: list[Trace]) -> None:
    trace = answers[1]
    assert "error" not in trace, trace["error"]
    assert "computed with data on the processor" in trace["guesses"][0]
    assert trace["flops"]["forward"] == 2 * 4 * 8 * 64

"""A few random notebooks with random interruptions; `python -m tests_survival.matrix` has thousands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests_survival.matrix import Matrix, Outcome
from tests_survival.outputs import OutputList, process_text

SEEDS = (1, 2, 3, 4)


@pytest.fixture
def matrix(tmp_path: Path) -> Iterator[Matrix]:
    made = Matrix(tmp_path / "lab")
    try:
        yield made.start()
    finally:
        made.clear()


async def run(matrix: Matrix) -> list[Outcome]:
    try:
        return await matrix.batch(SEEDS, most=4)
    finally:
        await matrix.leave()


def test_nothing_is_lost_or_doubled(matrix: Matrix) -> None:
    outcomes = asyncio.run(run(matrix))
    wrong = [(outcome.seed, outcome.happened, outcome.faults) for outcome in outcomes if outcome.faults]
    assert not wrong


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["one\r", "two"], "two"),
        (["longer\rab"], "abnger"),
        (["abc\b\bX"], "aX"),
        (["a\nb\rc\n", "d"], "a\nc\nd"),
    ],
)
def test_text_is_that_of_a_terminal(pieces: list[str], text: str) -> None:
    shown, cursor = "", 0
    for piece in pieces:
        shown, cursor = process_text(cursor, piece, shown)
    assert shown == text


def test_a_delayed_clearing_waits_for_the_next_output() -> None:
    outputs = OutputList()
    outputs.add({"output_type": "stream", "name": "stdout", "text": "one\n"})
    outputs.clear(wait=True)
    assert len(outputs.as_json()) == 1
    outputs.add({"output_type": "stream", "name": "stdout", "text": "two\n"})
    assert [output["text"] for output in outputs.as_json()] == ["two\n"]

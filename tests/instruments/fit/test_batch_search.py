"""The biggest batch."""

from __future__ import annotations

import pytest
from tests.instruments.fit.traces import a_trace

from ownlab.instruments.fit.batch_search import BatchRange, PredictedBatches, predict_biggest_batch
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Fit, Request
from ownlab.units import GIB


class Counted(PredictedBatches):
    """Knows which batches were asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        super().__init__(self.made)

    def made(self, batch: int) -> Fit:
        self.asked.append(batch)
        return predict(a_trace(batch), Request(target="x", batch=batch))


@pytest.mark.parametrize("memory", [4 * GIB, 24 * GIB, 140 * GIB])
def test_the_biggest_batch_fits_and_one_a_little_bigger_does_not(memory: int) -> None:
    batches = Counted()
    biggest = predict_biggest_batch(batches, memory, BatchRange(), 8)
    assert biggest is not None
    assert batches.required_bytes(biggest) <= memory < batches.required_bytes(biggest + max(1, biggest // 64))
    assert len(set(batches.asked)) <= 9


def test_cards_share_traces() -> None:
    batches = Counted()
    for _ in range(2):
        predict_biggest_batch(batches, 24 * GIB, BatchRange(), 8)
    assert len(batches.asked) == len(set(batches.asked))


def test_within_a_range() -> None:
    batches = Counted()
    assert predict_biggest_batch(batches, 140 * GIB, BatchRange(4, 32), 4) == 32
    assert max(batches.asked) <= 32
    assert predict_biggest_batch(batches, 1 * GIB, BatchRange(4, 32), 4) is None


def test_a_model_whose_batch_changes_nothing() -> None:
    fit = predict(a_trace(), Request(target="x"))
    assert predict_biggest_batch(PredictedBatches(lambda batch: fit), 24 * GIB, BatchRange(1, 512), 8) == 512

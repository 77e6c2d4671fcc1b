"""Several cards: sizes that follow from one card's."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.instruments.fit.traces import a_trace

from ownlab.errors import UsageError
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Fit, Request, Strategy
from ownlab.instruments.fit.strategies import STRATEGIES, share_step
from ownlab.units import MIB

TRACE = a_trace()  # two layers of 100 MiB; 50 Mi parameters, so 200 MiB of gradients; 400 MiB of Adam's state


def fit_of() -> Fit:
    return predict(TRACE, Request(target="net.py:build"))


@pytest.mark.parametrize(
    ("strategy", "weights", "gradients", "optimizer", "gathered"),
    [
        ("ddp", 200, 100 + 200, 400, 0),  # the gradient of the peak, and buckets for all of them
        ("zero1", 200, 100 + 200, 100, 0),
        ("zero2", 200, 25 + 100, 100, 0),  # a quarter, and one layer before it is reduced
        ("zero3", 50, 25 + 100, 100, 200),
        ("fsdp", 50, 25 + 100, 100, 200),
    ],
)
def test_what_four_cards_hold(strategy: Strategy, weights: int, gradients: int, optimizer: int, gathered: int) -> None:
    fit = fit_of()
    shared = share_step(fit, TRACE, strategy, 4)
    held = (shared.weights, shared.gradients, shared.optimizer, shared.gathered)
    assert held == tuple(size * MIB for size in (weights, gradients, optimizer, gathered))
    assert sum(held) + shared.rest == shared.device_bytes
    assert shared.rest == fit.band.device_high_bytes - (200 + 100 + 400) * MIB
    assert "computed" in shared.note


def test_every_strategy_is_known() -> None:
    assert STRATEGIES == ("ddp", "zero1", "zero2", "zero3", "fsdp")


def test_inference_is_divided_by_parameters_only() -> None:
    fit = replace(fit_of(), request=Request(target="net.py:build", train=False))
    with pytest.raises(UsageError, match="training"):
        share_step(fit, TRACE, "ddp", 2)
    assert share_step(fit, TRACE, "fsdp", 2).weights == 100 * MIB

"""Remedies, tried on a model."""

from __future__ import annotations

from tests.instruments.fit.traces import a_trace

from ownlab.instruments.fit.card_fit import with_cards
from ownlab.instruments.fit.card_specs import choose_cards
from ownlab.instruments.fit.guest_client import NotTraced
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Fit, Request, Trouble
from ownlab.instruments.fit.remedies import remedy_named, remedy_requests, try_remedies
from ownlab.units import GIB, MIB

REQUEST = Request(target="net.py:build", batch=64, seq=128)


def predicted(request: Request) -> Fit:
    """Only the batch changes anything here; and the model has no checkpointing of its own."""
    if request.checkpointing:
        raise NotTraced(Trouble("no-checkpointing", "Net has no gradient_checkpointing_enable()"))
    return predict(a_trace(request.batch or 8), request)


def test_the_best_remedy_comes_first_and_failures_last() -> None:
    fit = with_cards(predicted(REQUEST), a_trace(64), choose_cards("4GiB,h200"))
    first, *others, last = try_remedies(fit, predicted)
    assert (first.code, first.option) == ("smaller-batch", "--batch 16 --accumulate 4")
    assert first.saved_bytes is not None
    assert first.saved_bytes > 3 * GIB
    assert fit.cards[0].fits == "no"
    assert first.fits == ("any with 4 GiB", "H200 SXM")
    assert all(
        abs(price.saved_bytes or 0) < 50 * MIB and price.arithmetic == 1 for price in others
    )  # CUDA's own kernels
    assert (last.code, last.device_bytes) == ("checkpointing", None)
    assert "gradient_checkpointing_enable" in last.refused


def test_each_is_a_known_remedy_that_changes_the_step() -> None:
    for code, option, request in remedy_requests(REQUEST):
        assert remedy_named(code).title
        assert option.startswith("--")
        assert request != REQUEST


def test_remedies_in_use_are_not_tried() -> None:
    done = Request(target="x", batch=1, precision="bf16", checkpointing=True, optimizer="sgd")
    assert list(remedy_requests(done)) == []
    inference = Request(target="x", train=False, batch=8, precision="amp-bf16")
    assert [code for code, _, _ in remedy_requests(inference)] == ["smaller-weights"]

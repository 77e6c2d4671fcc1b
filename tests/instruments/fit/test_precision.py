"""Cards without units for the precision of a step say so, and remedies do not offer what a card lacks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.instruments.fit.traces import a_trace
from tests.render.test_golden import paper

from ownlab.instruments.fit.card_fit import with_cards
from ownlab.instruments.fit.card_specs import choose_cards
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Fit, Request
from ownlab.instruments.fit.remedies import try_remedies
from ownlab.instruments.fit.terminal import show_fit


def fitted(cards: str, precision: str = "amp-bf16", **request: object) -> Fit:
    asked = Request(target="net.py:build", batch=8, precision=precision, **request)  # type: ignore[arg-type]
    return with_cards(predict(a_trace(), asked), a_trace(), choose_cards(cards))


def shown(fit: Fit) -> str:
    out, sheet = paper()
    show_fit(fit, out)
    return " ".join(sheet.getvalue().split())


@pytest.mark.parametrize(
    ("card", "precision", "says"),
    [
        ("T4", "amp-bf16", "no bf16 units: use amp-fp16"),
        ("V100 SXM2 16GB", "bf16", "no bf16 units: use fp16"),
        ("GTX 1080 Ti", "amp-bf16", "no bf16 units"),
        ("GTX 1080 Ti", "amp-fp16", "fp16 saves memory, not time"),
        ("T4", "tf32", "no TF32 units"),
        ("T4", "amp-fp16", ""),
        ("RTX 4090", "amp-bf16", ""),
        ("T4", "fp32", ""),
    ],
)
def test_what_a_card_lacks_is_said(card: str, precision: str, says: str) -> None:
    fit = fitted(card, precision)
    assert says in fit.cards[0].precision
    assert bool(fit.cards[0].precision) == bool(says)
    assert says in shown(fit)


def test_the_headline_prefers_a_card_that_has_the_units() -> None:
    assert "fits the RTX 4090" in shown(fitted("T4,4090"))
    alone = shown(fitted("T4"))
    assert "fits the T4." not in alone
    assert "no bf16 units: use amp-fp16" in alone.split("parameters")[0]


def options(fit: Fit) -> dict[str, tuple[str, ...]]:
    return {trial.option: trial.fits for trial in try_remedies(fit, lambda step: replace(fit, request=step))}


def test_remedies_do_not_offer_bf16_to_a_card_without_it() -> None:
    offered = options(fitted("T4", "fp32"))
    assert "--precision amp-fp16" in offered
    assert not any("bf16" in option for option in offered)
    inference = options(fitted("T4", "fp32", train=False))
    assert "--precision fp16" in inference
    assert not any("bf16" in option for option in inference)


def test_of_several_cards_each_gets_what_it_has() -> None:
    offered = options(fitted("T4,4090", "fp32"))
    assert offered["--precision amp-bf16"] == ("RTX 4090",)
    assert offered["--precision amp-fp16"] == ("T4", "RTX 4090")


def test_the_biggest_batch_is_the_headline_where_it_was_asked_for() -> None:
    fit = fitted("T4,4090", "fp32")
    found = replace(
        fit,
        searched=(1, 1 << 20),
        cards=tuple(replace(card, biggest_batch=n) for card, n in zip(fit.cards, (21, None), strict=True)),
    )
    head = shown(found).split("parameters")[0]
    assert "The biggest batch that fits is 21 on the T4. No batch fits the RTX 4090." in head
    assert "with batch 8 takes" in head


def test_a_card_whose_memory_is_inferred_is_marked_and_may_be_unsure() -> None:
    fit = fitted("RTX A6000", "fp32")
    (card,) = fit.cards
    assert card.memory_high_bytes is not None
    assert card.memory_high_bytes > card.memory_bytes
    assert "inferred" in card.source
    middle = (card.memory_high_bytes + card.memory_bytes) // 2
    band = replace(fit.band, device_high_bytes=middle, device_low_bytes=middle)
    big = replace(fit, band=band, smallest_bytes=middle)
    (judged,) = with_cards(big, a_trace(), choose_cards("RTX A6000")).cards
    assert judged.fits == "unknown"
    assert "not sure" in shown(replace(big, cards=(judged,)))

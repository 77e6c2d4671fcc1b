"""Cards: names, whether it fits, and the least time."""

from __future__ import annotations

import msgspec
import pytest
from tests.instruments.fit.traces import a_trace

from ownlab.errors import UsageError
from ownlab.instruments.fit.card_fit import compute_floor, count_work, judge_card, with_cards
from ownlab.instruments.fit.card_specs import DEFAULT_CARDS, CardSpecs, choose_cards, load_cards
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Request, Work
from ownlab.units import GIB, MIB

REQUEST = Request(target="net.py:build")
H200 = choose_cards("h200")[0]


def test_every_card_has_memory_with_a_source_and_a_date() -> None:
    cards = load_cards()
    assert len({card.name for card in cards}) == len(cards)
    for card in cards:
        assert (card.memory_gib is None) == (not card.memory_source)
        assert card.as_of or card.memory_gib is None
        assert 0.85 * card.nominal_gb * GIB < card.memory_bytes <= card.nominal_gb * GIB


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("h200", ["H200 SXM"]),
        ("4090", ["RTX 4090"]),
        ("rtx4090,T4", ["RTX 4090", "T4"]),
        ("NVIDIA GeForce RTX 3090", ["RTX 3090"]),
        ("a100-80gb", ["A100 80GB PCIe", "A100 80GB SXM4"]),
        ("GTX 1080", ["GTX 1080"]),
        ("l40", ["L40"]),
        ("4090,RTX 4090", ["RTX 4090"]),
        ("24GiB", ["any with 24 GiB"]),
    ],
)
def test_cards_by_name(asked: str, names: list[str]) -> None:
    assert [card.name for card in choose_cards(asked)] == names


@pytest.mark.parametrize("asked", ["", "h300", "24", "0GiB"])
def test_cards_that_nobody_knows(asked: str) -> None:
    with pytest.raises(UsageError):
        choose_cards(asked)


def test_a_size_is_taken_as_it_is() -> None:
    assert choose_cards("24GiB")[0].memory_bytes == 24 * GIB
    assert choose_cards("80GB")[0].memory_bytes == 80 * 10**9


def test_the_default_cards_are_known() -> None:
    assert len(choose_cards(DEFAULT_CARDS)) == 5


def test_fits_tight_and_not() -> None:
    fit = predict(a_trace(), REQUEST)
    work = count_work(a_trace())

    def on(size: int) -> str:
        return judge_card(fit, CardSpecs(name="some", memory_gib=size / GIB), work).fits

    assert on(fit.band.device_high_bytes) == "yes"
    assert on(fit.band.device_high_bytes - MIB) == "tight"
    assert on(min(fit.smallest_bytes, fit.band.device_low_bytes) - MIB) == "no"


def test_only_the_card_that_was_measured_is_calibrated() -> None:
    fit = with_cards(predict(a_trace(), REQUEST), a_trace(), choose_cards("h200,4090,24GiB"))
    assert [card.calibrated for card in fit.cards] == [True, False, False]
    assert all(card.source for card in fit.cards)
    assert fit.cards[2].floor_seconds is None


def test_arithmetic_at_the_rate_of_the_precision() -> None:
    work = Work(flops=989 * 10**12, serial_bytes=0, overlapped_bytes=0, convolves=False)

    def seconds(precision: str, card: CardSpecs = H200, work: Work = work) -> float:
        floor = compute_floor(card, work, Request(target="x", precision=precision))
        assert floor is not None
        assert floor.bound_by == "arithmetic"
        return floor.seconds

    assert seconds("amp-bf16") == seconds("fp16") == pytest.approx(1)
    assert seconds("tf32") == pytest.approx(2)
    assert seconds("fp32") == pytest.approx(989 / 67)
    assert seconds("fp32", work=msgspec.structs.replace(work, convolves=True)) == pytest.approx(
        2
    )  # cuDNN takes TF32 by itself
    t4 = choose_cards("t4")[0]
    assert seconds("fp16", t4) == pytest.approx(989 / 65)
    assert seconds("bf16", t4) == pytest.approx(989 / 8.1)  # it has no units for it


def test_bytes_that_move_while_nothing_is_multiplied_add_to_the_time() -> None:
    work = Work(flops=989 * 10**12, serial_bytes=48 * 10**11, overlapped_bytes=0, convolves=False)
    floor = compute_floor(H200, work, Request(target="x", precision="bf16"))
    assert floor is not None
    assert floor.seconds == pytest.approx(2)
    work = Work(flops=989 * 10**12, serial_bytes=0, overlapped_bytes=3 * 48 * 10**11, convolves=False)
    floor = compute_floor(H200, work, Request(target="x", precision="bf16"))
    assert floor is not None
    assert floor.seconds == pytest.approx(3)
    assert floor.bound_by == "memory"


def test_a_rate_that_no_source_says_gives_no_time() -> None:
    a10g = choose_cards("a10g")[0]
    assert a10g.fp16_tflops is None
    assert compute_floor(a10g, Work(1, 1, 1, convolves=False), Request(target="x", precision="bf16")) is None
    assert compute_floor(a10g, Work(1, 1, 1, convolves=False), Request(target="x", precision="fp32")) is not None


def test_a_floor_is_never_above_what_the_units_can_do() -> None:
    """TF32 of a GeForce card is no faster than its fp32; a P100 multiplies two fp16 at a time without tensor cores."""
    rates = {card.name: card for card in load_cards()}
    assert rates["RTX 3090"].tf32_tflops == pytest.approx(35.6, rel=0.01)
    assert (rates["Tesla P100 PCIe 16GB"].fp16_tflops or 0) > 18
    assert rates["GTX 1080"].fp16_tflops == rates["GTX 1080"].fp32_tflops


def test_the_work_of_a_step() -> None:
    """The optimizer reads and writes 200 MiB of weights and 400 of state, and reads 200 of gradients."""
    work = count_work(a_trace())
    assert work.flops == 6 * 10**12
    assert work.serial_bytes == (2 * 200 + 200 + 2 * 400) * MIB
    # Both outputs are written by products, and read again; so are both errors, which no cache holds; and the weights twice.
    assert work.overlapped_bytes == (2 * 640 + 640 + 2 * 200) * MIB
    inference = msgspec.structs.replace(a_trace(), flops=type(a_trace().flops)(6, 0))
    assert count_work(inference).serial_bytes == 0

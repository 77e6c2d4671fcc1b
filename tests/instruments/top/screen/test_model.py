"""The state of the screen, without a terminal."""

from __future__ import annotations

from msgspec.structs import replace
from tests.instruments.top.scenes import card, sample, scene

from ownlab.instruments.top.screen.model import View
from ownlab.instruments.top.verdict_window import Window


def test_a_paused_display_misses_no_sample() -> None:
    view = View(Window(30.0))
    samples = scene(10, "product")
    for each in samples[:4]:
        view.add(each)
    view.toggle_pause()
    for each in samples[4:]:
        view.add(each)
    assert (view.sample, view.missed) == (samples[3], 6)
    view.toggle_pause()
    assert view.sample == samples[-1]
    assert len(view.series(view.cards[0].uuid, lambda each: each.utilisation, 100)) == 10


def test_an_absent_card_leaves_a_gap_in_its_graph() -> None:
    view = View(Window(30.0))
    for each in (sample(0, [card()]), sample(1), sample(2, [replace(card(), lost="fell off")]), sample(3, [card()])):
        view.add(each)
    assert view.series("GPU-00000000", lambda each: each.utilisation, 4) == [100, None, None, 100]


def test_another_card_is_selected_when_the_selected_one_vanishes() -> None:
    view = View(Window(30.0))
    view.add(sample(0, [card(0), card(1)]))
    view.select_card(-1)
    assert view.card is not None
    assert view.card.index == 1
    view.add(sample(1, [card(0)]))
    assert view.card is not None
    assert view.card.index == 0

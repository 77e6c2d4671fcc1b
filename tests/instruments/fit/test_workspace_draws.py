"""Draws of likely workspaces, and the band that most of them end in."""

from __future__ import annotations

from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Events, Request, Tag, Trace, Uncertain
from ownlab.instruments.fit.workspace_draws import DRAWS, densest_window, draw_sizes
from ownlab.units import MIB

VOTES = (8 * MIB, 8 * MIB, 8 * MIB, 30 * MIB)


def test_draws_are_the_same_each_time_and_follow_the_votes() -> None:
    uncertain = Uncertain((3, 5), (VOTES, (1, 2)))
    draws = list(draw_sizes(uncertain))
    assert draws == list(draw_sizes(uncertain))
    assert len(draws) == DRAWS
    likely = [draw[3] for draw in draws]
    small = [size for size in likely if size < 9 * MIB]
    assert len(small) > DRAWS / 2
    assert any(size > 29 * MIB for size in likely)
    assert all(abs(size / (8 * MIB if size < 9 * MIB else 30 * MIB) - 1) <= 0.08 for size in likely)


def test_calls_with_the_same_votes_have_the_same_size_in_a_draw() -> None:
    draws = list(draw_sizes(Uncertain((3, 5, 8), (VOTES, VOTES, (1, 2)))))
    assert all(draw[3] == draw[5] for draw in draws)
    assert {draw[8] for draw in draws} == {1, 2}


def test_without_uncertain_workspaces_nothing_is_drawn() -> None:
    assert list(draw_sizes(Uncertain())) == []


def test_the_window_is_where_most_draws_are() -> None:
    assert densest_window(100, [101, 102, 160, 161], 0.1) == (100, 102, 0)
    low, high, middle = densest_window(100, [160, 161, 162, 163, 164, 165], 0.1)
    assert (low, high) == (160, 165)
    assert [160, 161, 162, 163, 164, 165][middle - 1] in (162, 163)


def step(likely: tuple[int, ...]) -> Trace:
    """Weights, then a convolution with a workspace, the most likely one of `likely`, in a segment of its own."""
    names, sizes = (0, 1, 2, 1, 2), (400 * MIB, 40 * MIB, likely[0], -1, -1)
    tags = (
        Tag("weights", "setup", "net", ""),
        Tag("activations", "forward", "net", "aten.convolution"),
        Tag("workspace", "forward", "net", "aten.convolution"),
    )
    uncertain = Uncertain((2,), (likely,)) if len(likely) > 1 else Uncertain()
    return Trace(events=Events(names, sizes, (0, 1, 2, 1, 2)), tags=tags, marks=(5,), uncertain=uncertain)


def test_the_band_reaches_to_other_likely_workspaces_and_stays_narrow() -> None:
    request = Request(target="net.py:build", train=False)
    alone = predict(step((20 * MIB,)), request)
    fit = predict(step((20 * MIB, 20 * MIB, 46 * MIB)), request)
    assert alone.band.reserved_high_bytes < (400 + 40 + 46) * MIB
    assert fit.band.reserved_high_bytes >= (400 + 40 + 46) * MIB
    assert fit.band.reserved_low_bytes <= (400 + 40 + 20) * MIB
    assert fit.band.reserved_high_bytes <= 1.1 * fit.band.reserved_low_bytes


def test_what_most_draws_reserve_is_predicted() -> None:
    """The most likely size is one of many: most draws take others, far from it, and near each other."""
    likely = (20 * MIB, 20 * MIB, *(size * MIB for size in range(150, 160)))
    fit = predict(step(likely), Request(target="net.py:build", train=False))
    assert fit.band.reserved_low_bytes > (400 + 40 + 20) * MIB
    assert fit.band.reserved_low_bytes <= fit.peak.reserved_bytes <= fit.band.reserved_high_bytes


def test_the_prediction_has_a_margin_to_the_upper_end_of_its_band() -> None:
    """Draws down to 9 % below do not push the prediction to the upper end."""
    fit = predict(
        step((66 * MIB, 66 * MIB, 66 * MIB, 22 * MIB, 30 * MIB, 40 * MIB)), Request(target="net.py:build", train=False)
    )
    band, reserved = fit.band, fit.peak.reserved_bytes
    assert band.reserved_high_bytes >= reserved * 1.014
    assert band.reserved_high_bytes <= 1.1 * band.reserved_low_bytes

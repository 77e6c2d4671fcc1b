"""Two runs are compared by their steps and by their losses."""

from __future__ import annotations

import pytest

from ownlab.instruments.why.trials.comparison import (
    MeasuredRun,
    MeasuredSteps,
    combine,
    compare_losses,
    compare_speed,
)

LOSSES = tuple(2.0 - number / 50 + (0.2 if number % 2 else -0.2) for number in range(40))
ORDER = tuple(range(40))


def run(losses: tuple[float | None, ...] = LOSSES, order: tuple[int, ...] = ORDER) -> MeasuredRun:
    return MeasuredRun(10.0, 0.1, losses, order)


@pytest.mark.parametrize(
    ("changed", "safe", "words"),
    [
        (run(), True, "the same within 1 %"),
        (run(tuple(loss * 1.03 for loss in LOSSES)), True, "the same within 3 %"),
        (run(tuple(loss * 1.3 for loss in LOSSES)), False, "the losses differ by 30 %"),
        (run((*LOSSES[:20], None, *LOSSES[21:])), False, "not finite from step 21"),
        (run(LOSSES[::-1], ORDER[::-1]), True, "the order of the samples differs"),
        (run((*LOSSES[:20], None), ORDER[::-1]), False, "not finite"),
        (run(()), True, "not compared"),
    ],
)
def test_losses_of_a_change_that_draws_the_same_numbers(changed: MeasuredRun, safe: bool, words: str) -> None:
    seen = compare_losses([run(), run()], changed, moves_random=False)
    assert seen[0] == safe
    assert words in seen[1]


def test_other_random_numbers_may_change_each_loss_but_not_their_mean() -> None:
    swapped = tuple(loss - 0.4 if number % 2 else loss + 0.4 for number, loss in enumerate(LOSSES))
    assert not compare_losses([run()], run(swapped), moves_random=False)[0]
    assert compare_losses([run()], run(swapped), moves_random=True)[0]
    halved = tuple(loss / 2 for loss in LOSSES)
    assert not compare_losses([run()], run(halved), moves_random=True)[0]


def grown(first: float, most: float = 0.12) -> tuple[float, ...]:
    """The losses with a relative difference that grows from step to step, now above, now below."""
    sizes = (min(most, first * 1.5**number) for number in range(len(LOSSES)))
    return tuple(
        loss * (1 + size * (1, -1, -1, 1)[number % 4])
        for number, (loss, size) in enumerate(zip(LOSSES, sizes, strict=True))
    )


def test_rounding_may_grow_but_not_the_mean() -> None:
    safe, words = compare_losses([run(), run()], run(grown(0.001)), moves_random=False)
    assert safe
    assert "rounding differs, and grows" in words
    other_from_the_start = grown(0.05)
    assert not compare_losses([run(), run()], run(other_from_the_start), moves_random=False)[0]
    later_worse = (*LOSSES[:20], *(loss * 1.6 for loss in LOSSES[20:]))
    assert not compare_losses([run(), run()], run(later_worse), moves_random=False)[0]


def test_a_script_that_does_not_repeat_itself_is_compared_in_the_mean() -> None:
    swapped = tuple(loss - 0.4 if number % 2 else loss + 0.4 for number, loss in enumerate(LOSSES))
    assert compare_losses([run(), run(swapped)], run(swapped[::-1][::-1]), moves_random=False)[0]


def test_a_loss_that_was_never_finite_is_no_fault_of_the_change() -> None:
    assert compare_losses([run((None, 1.0))], run((None, None)), moves_random=False)[0]


def test_the_band_contains_every_run() -> None:
    runs = [run()._replace(step_ms=ms) for ms in (9.0, 10.0, 14.0)]
    steps = combine(runs)
    assert steps.step_ms == 11.0
    assert steps.band_ms[0] <= 9.0
    assert steps.band_ms[1] >= 14.0
    factor, band = compare_speed(MeasuredSteps(20.0, (18.0, 22.0)), MeasuredSteps(10.0, (9.0, 11.0)))
    assert factor == 2.0
    assert band == pytest.approx((18 / 11, 22 / 9))

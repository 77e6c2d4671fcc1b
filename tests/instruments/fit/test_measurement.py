"""Measurements and calibrations, with a fake Python that has a card."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ownlab.errors import RecordError
from ownlab.instruments.fit.batch_search import BatchRange, run_biggest_batch
from ownlab.instruments.fit.calibration import load_calibrations, save_calibration
from ownlab.instruments.fit.calibration_run import (
    Stage,
    calibrate,
    context_from_stages,
)
from ownlab.instruments.fit.card_specs import card_of_device
from ownlab.instruments.fit.guest_client import ask_trace
from ownlab.instruments.fit.measurement import Experiment, Settings, ask_measure, make_spread
from ownlab.instruments.fit.pipeline import Goals, parse_goals, with_calibrations
from ownlab.instruments.fit.records import Device, Fit, GuestCard, MeasuredAlone, Request, Trace, Trial
from ownlab.units import MIB

FAKE = Path(__file__).with_name("fake_torch.py")
REQUEST = Request(target="net.py:build", batch=8)


@pytest.fixture
def fake(tmp_path: Path) -> str:
    """A Python that has torch and a T4, or so it says."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    path.chmod(0o755)
    return str(path)


@contextlib.contextmanager
def quietly(_: str) -> Iterator[None]:
    yield


@pytest.fixture
def experiment(fake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))
    return Experiment(fake, 30.0, quietly)


def run(experiment: Experiment, request: Request, goals: Goals) -> Fit:
    measured = experiment.run(request, goals)
    assert isinstance(measured, Fit)
    return measured


# -- trials


def runs_up_to(most: int, tried: list[int]) -> Callable[[int], Trial]:
    def run(batch: int) -> Trial:
        tried.append(batch)
        return Trial(batch, batch <= most)

    return run


@pytest.mark.parametrize(
    ("truth", "predicted"),
    [(100, 100), (100, 97), (100, 104), (1, 1), (7, 5), (1000, 400), (50_000, 49_100), (3, None)],
)
def test_few_trials_find_the_biggest_batch(truth: int, predicted: int | None) -> None:
    tried: list[int] = []
    biggest = run_biggest_batch(runs_up_to(truth, tried), predicted, BatchRange(), 8)
    assert biggest.batch is not None
    assert biggest.fails is not None
    assert biggest.batch <= truth < biggest.fails
    assert biggest.fails - biggest.batch <= max(1, biggest.batch // 32)
    assert len(tried) == len(set(tried)) == len(biggest.trials) <= 10


def test_no_batch_runs() -> None:
    biggest = run_biggest_batch(runs_up_to(0, []), 4, BatchRange(), 8)
    assert (biggest.batch, biggest.fails) == (None, 1)


def test_trials_stay_within_the_range() -> None:
    tried: list[int] = []
    biggest = run_biggest_batch(runs_up_to(10**6, tried), 900, BatchRange(8, 512), 8)
    assert tried == [512]
    assert (biggest.batch, biggest.fails) == (512, None)


# -- spreads and devices


def test_percentiles_are_actual_repetitions() -> None:
    spread = make_spread(tuple(float(number) for number in range(100, 0, -1)))
    assert spread is not None
    assert (spread.least, spread.median, spread.p90, spread.p99, spread.most) == (1.0, 50.0, 90.0, 99.0, 100.0)
    single = make_spread((2.0,))
    assert single is not None
    assert single.least == single.p99 == 2.0
    assert make_spread(()) is None


def test_a_processor_is_no_card() -> None:
    processor = Device(kind="cpu", name="AMD EPYC", multiprocessors=2)
    assert card_of_device(processor) is None
    assert processor.card == GuestCard()


# -- the real step beside the prediction


def test_measured_beside_predicted(experiment: Experiment) -> None:
    fit = run(experiment, REQUEST, parse_goals("t4"))
    assert fit.request.card == GuestCard(7.5, 40, 1024), "kernels of the card that is here"
    measured = fit.measured
    assert measured is not None
    assert measured.memory is not None
    assert measured.memory.allocated_bytes == 790 * MIB
    assert measured.steady is not None
    assert measured.step_seconds == measured.steady.median == 0.1
    assert measured.steady.p99 == 0.15
    assert measured.per_second == pytest.approx(80)
    assert measured.floor_seconds is not None
    assert measured.floor_seconds > 0


def test_out_of_memory_is_measured(experiment: Experiment) -> None:
    fit = run(experiment, Request(target="net.py:build", batch=5000), parse_goals("t4"))
    assert fit.measured is not None
    assert fit.measured.out_of_memory is not None
    assert fit.measured.memory is None


def test_the_biggest_batch_that_runs(experiment: Experiment) -> None:
    """(16 GiB - 256 MiB - 500 MiB - 400 MiB) / 50 MiB; the prediction has an H200's context of 750 MiB."""
    truth = (16 * 1024 - 256 - 500 - 400) // 50
    fit = run(experiment, REQUEST, parse_goals("t4", BatchRange()))
    assert fit.biggest is not None
    assert fit.biggest.batch is not None
    assert truth - truth // 64 <= fit.biggest.batch <= truth
    assert fit.biggest.predicted is not None
    assert fit.biggest.predicted <= truth
    assert fit.measured is not None
    assert fit.measured.batch == fit.biggest.batch
    failed = next(trial for trial in fit.biggest.trials if not trial.ran)
    assert failed.why == "out of memory in the backward phase of step 1"


def test_a_trial_that_crashes_did_not_run(experiment: Experiment) -> None:
    fit = run(experiment, REQUEST, parse_goals("t4", BatchRange(100, 100)))
    assert fit.biggest is not None
    assert fit.biggest.batch is None
    assert "SIGKILL" in fit.biggest.trials[0].why


def test_a_step_that_cannot_be_predicted_is_measured(experiment: Experiment) -> None:
    measured = experiment.run(Request(target="net.py:routes"), parse_goals("t4"))
    assert isinstance(measured, MeasuredAlone)
    assert "depends on the data" in measured.why
    assert measured.measured.memory is not None


def test_a_cap_is_passed_on(fake: str) -> None:
    answer, device = ask_measure(REQUEST, fake, Settings(cap_bytes=MIB), deadline=30)
    assert device.name == "Tesla T4"
    assert answer.out_of_memory is not None


# -- calibrations


def test_a_calibration_is_stored_and_used(fake: str, tmp_path: Path) -> None:
    home = {"OWNLAB_HOME": str(tmp_path / "home")}
    assert load_calibrations(home) == ()
    made = calibrate(fake, deadline=30)
    assert made.context.start == 400 * MIB
    assert made.workspace_bytes == 17 * MIB
    assert [check.name for check in made.checks].count("convolutions") == 2
    assert 0 < made.worst < 0.05
    assert save_calibration(made, home).name == "tesla-t4.json"
    assert load_calibrations(home) == (made,)
    goals = parse_goals("t4,h200")
    fit = run(Experiment(fake, 30.0, quietly), REQUEST, goals)

    def traced(request: Request) -> Trace:
        return ask_trace(request, fake, deadline=30)

    after = with_calibrations(fit, goals.cards, traced, (made,))
    assert [card.calibrated for card in fit.cards] == [False, True]
    assert [card.calibrated for card in after.cards] == [True, True]
    assert after.cards[0].spare_bytes > fit.cards[0].spare_bytes, "its context is smaller than an H200's"
    assert after.cards[1] == fit.cards[1]
    assert made.card == GuestCard(7.5, 40, 1024, 17 * MIB)


def test_a_damaged_calibration_is_named(tmp_path: Path) -> None:
    (tmp_path / "calibrations").mkdir()
    (tmp_path / "calibrations" / "t4.json").write_text('{"device"')
    with pytest.raises(RecordError, match=r"t4\.json") as caught:
        load_calibrations({"OWNLAB_HOME": str(tmp_path)})
    assert "--calibrate" in caught.value.hint


def test_stages_without_additional_memory_are_zero() -> None:
    """If the forward pass loads less than convolutions do, no part is negative."""
    context = context_from_stages(
        (Stage("start", 500, 0),),
        (Stage("matmul", 450, 0), Stage("matmul_backward", 520, 0), Stage("more_kernels", 520, 0)),
    )
    assert (context.start, context.matmul, context.matmul_backward, context.more_kernels) == (500, 0, 20, 0)

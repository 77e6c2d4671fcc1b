"""One job has one answer, whichever cards its report lists; published throughputs are used where the model is a known one."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest
from tests.instruments.advise.test_worked_questions import REPORTS, TODAY

from ownlab.catalog.cards import choose_cards
from ownlab.instruments.advise.pipeline import advise
from ownlab.instruments.advise.question import AdviseOptions, build_question
from ownlab.instruments.advise.records import Advice, Range
from ownlab.instruments.fit.card_specs import CardSpecs
from ownlab.instruments.fit.card_specs import choose_cards as choose_specs
from ownlab.instruments.fit.records import CardFit, Fit
from ownlab.json_encoding import encode_json


def read(name: str) -> Fit:
    return msgspec.json.decode((REPORTS / f"{name}.json").read_bytes(), type=Fit)


def ask(fit: Fit, folder: Path, card: str = "RTX 3090", **options: object) -> Advice:
    (folder / "fit.json").write_bytes(encode_json(fit))
    question = build_question(AdviseOptions(fit=str(folder / "fit.json"), steps=900_000, **options))  # type: ignore[arg-type]
    return advise(question, cards=choose_cards(card), today=TODAY)


def hours(fit: Fit, folder: Path, card: str = "RTX 3090", **options: object) -> Range:
    (advice,) = ask(fit, folder, card, **options).cards
    assert advice.hours is not None
    return advice.hours


@pytest.mark.parametrize("name", ["gpt2", "resnet50", "gpt2-fp32"])
def test_the_cards_that_a_report_lists_do_not_change_the_answer(name: str, tmp_path: Path) -> None:
    """A 3090 needed 48 to 310, 15 to 100 or 23 to 150 hours for one job, depending on what was listed beside it."""
    fit = read(name)
    workload = "vision" if name == "resnet50" else "transformer"
    answers = [
        hours(msgspec.structs.replace(fit, cards=listed), tmp_path, workload=workload)
        for listed in (*itertools.combinations(fit.cards, 1), fit.cards)
    ]
    for answer in answers:
        assert answer.low == pytest.approx(answers[0].low, rel=0.1)
        assert answer.high == pytest.approx(answers[0].high, rel=0.1)


def test_resnet50_takes_as_long_as_its_published_throughput_says(tmp_path: Path) -> None:
    """905 images/s on a 3090 (Lambda): 115.2 million images are 35.4 hours."""
    answer = hours(read("resnet50"), tmp_path)
    assert answer.low <= 115_200_000 / 905 / 3600 <= answer.high
    assert answer.high <= 2.0001 * answer.low
    told = ask(read("resnet50"), tmp_path)
    assert told.question.basis is not None
    assert told.question.basis.kind == "published"
    assert told.question.workload == "vision"
    assert any("measured" in line for line in told.assumptions)


def test_other_classes_and_image_sizes_of_a_known_model_are_scaled(tmp_path: Path) -> None:
    fit = read("resnet50")
    ten_classes = msgspec.structs.replace(fit.parameters, total=23508032 + 10 * 2049)
    smaller = msgspec.structs.replace(fit.flops, forward=fit.flops.forward // 2, backward=fit.flops.backward // 2)
    whole = hours(fit, tmp_path)
    half = hours(msgspec.structs.replace(fit, parameters=ten_classes, flops=smaller), tmp_path)
    assert half.low == pytest.approx(whole.low / 2, rel=0.01)


def test_a_published_fp32_throughput_is_not_that_of_fp16(tmp_path: Path) -> None:
    fit = read("resnet50")
    in_fp32 = msgspec.structs.replace(fit, request=msgspec.structs.replace(fit.request, precision="fp32"))
    assert hours(in_fp32, tmp_path).low > 1.5 * hours(fit, tmp_path).low


def test_a_model_that_nobody_timed_says_what_would_narrow_the_range(tmp_path: Path) -> None:
    wide = ask(read("gpt2"), tmp_path, workload="transformer")
    assert wide.cards[0].hours is not None
    assert wide.cards[0].hours.high > 2 * wide.cards[0].hours.low
    assert any("--measure" in line and "--step-seconds" in line for line in wide.assumptions)


def test_a_new_report_has_the_work_of_a_step_and_so_the_least_time_on_any_card() -> None:
    from tests.instruments.fit.traces import a_trace

    from ownlab.instruments.fit.card_fit import compute_floor, with_cards
    from ownlab.instruments.fit.prediction import predict
    from ownlab.instruments.fit.records import Request

    request = Request(target="net.py:build", precision="amp-bf16")
    fit = with_cards(predict(a_trace(), request), a_trace(), choose_specs("T4"))
    assert fit.work is not None
    (h200,) = choose_specs("h200")
    listed: CardFit = with_cards(fit, a_trace(), (h200,)).cards[0]
    floor = compute_floor(CardSpecs.of(choose_cards("h200")[0]), fit.work, request)
    assert floor is not None
    assert floor.seconds == listed.floor_seconds

"""Sessions, times on other cards, recommendations, and options that are refused."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec
import pytest
from tests.instruments.advise.test_worked_questions import QUESTIONS, REPORTS, TODAY, answer

from ownlab.catalog.card_speeds import Speed, speed_of
from ownlab.catalog.cards import Figure, Unstated, choose_cards
from ownlab.catalog.platforms import NO_LIMIT, choose_platforms
from ownlab.errors import InputError, OwnlabError, RecordError, UsageError
from ownlab.instruments.advise.formatting import format_days, format_hours, format_money, format_sessions
from ownlab.instruments.advise.pipeline import advise
from ownlab.instruments.advise.platform_costs import schedule
from ownlab.instruments.advise.question import AdviseOptions, build_question
from ownlab.instruments.advise.records import Range, Rental
from ownlab.instruments.bench.records import BenchReport, CardSummary, MachineSummary, Measure
from ownlab.instruments.bench.report_files import save_report
from ownlab.instruments.fit.records import Device, Fit, Measured, Spread
from ownlab.json_encoding import encode_json

NONE = Unstated(NO_LIMIT)


def hours(number: float) -> Figure:
    return Figure(number, "told", "2026-11-15")


@pytest.mark.parametrize(
    ("job", "session", "weekly", "a_day", "cut"),
    [
        (20, hours(12), NONE, None, (2, None, 20 / 24)),
        (12, hours(12), NONE, None, (1, None, 0.5)),
        (36.0000000001, hours(12), NONE, None, (3, None, 1.5)),
        # 30 hours in the first week, 10 in the second.
        (40, hours(12), hours(30), None, (4, 2, 7 + 10 / 24)),
        # 2 hours a day are 14 a week: the quota is not what limits.
        (40, hours(12), hours(30), 2, (20, 3, 14 + 5 + 2 / 24)),
        (5, NONE, NONE, 8, (1, None, 5 / 24)),
        (20, NONE, NONE, 24, (1, None, 20 / 24)),
    ],
)
def test_a_job_in_sessions(
    job: float,
    session: Figure | Unstated,
    weekly: Figure | Unstated,
    a_day: float | None,
    cut: tuple[int, int | None, float],
) -> None:
    times = schedule(job, session, weekly, a_day)
    assert (times.sessions, times.weeks) == cut[:2]
    assert times.days == pytest.approx(cut[2])


def rentals_of(platform: str, job_hours: float) -> dict[tuple[str, str], Rental]:
    question = build_question(AdviseOptions(hours=job_hours, on="T4", workload="vision"))
    advice = advise(question, platforms=choose_platforms(platform), today=TODAY)
    return {(rental.offer, rental.card): rental for rental in advice.rentals}


def test_studio_lab_gives_a_few_hours_a_day() -> None:
    """Four hours a day since 2023: a job of 20 takes five days, not 20 hours."""
    lab = rentals_of("studio lab", 20)["GPU", "T4"]
    assert lab.sessions == Range(5, 5)
    assert lab.days is not None
    assert (lab.days.low, lab.days.high) == pytest.approx((4 + 4 / 24, 4 + 4 / 24))


def test_prices_in_yuan_are_listed_last_and_not_recommended() -> None:
    question = build_question(AdviseOptions(hours=10, on="RTX 4090", workload="transformer"))
    advice = advise(question, platforms=choose_platforms("autodl,runpod"), today=TODAY)
    currencies = [rental.currency for rental in advice.rentals]
    assert currencies == sorted(currencies, reverse=True)
    assert currencies.count("CNY") == 3
    assert {each.platform for each in advice.recommendations} == {"RunPod"}
    converted = "Prices in other currencies are not converted"
    assert any(converted in line for line in advice.assumptions)
    for alone in ("runpod", "autodl"):
        one = advise(question, platforms=choose_platforms(alone), today=TODAY)
        assert not any(converted in line for line in one.assumptions)
        assert {each.kind for each in one.recommendations} == {"cheapest", "fastest"}
    assert all("¥" in each.why for each in one.recommendations)


def test_a_budget_in_dollars_does_not_bound_yuan() -> None:
    question = build_question(AdviseOptions(hours=10, on="RTX 4090", workload="transformer", budget=30))
    advice = advise(question, platforms=choose_platforms("autodl"), today=TODAY)
    assert len(advice.rentals) == 3
    assert not advice.recommendations


def test_free_hours_that_are_not_renewed_must_be_enough() -> None:
    """ModelScope gives 36 hours of an A10, once. An A10 is faster at vision than a T4, by how much is a range."""
    (enough,) = rentals_of("modelscope", 36).values()
    assert enough.free
    assert enough.hours is not None
    assert enough.hours.high <= 36
    assert rentals_of("modelscope", 72) == {}


def test_a_free_session_of_colab_may_be_followed_by_a_lockout() -> None:
    """People were refused for 12 to 24 hours after they had used their share: 36 hours are three sessions over 1.5 to 3.5 days."""
    free = rentals_of("colab", 36)["free", "T4"]
    assert free.days is not None
    assert free.days.low == pytest.approx(1.5)
    assert free.days.high == pytest.approx(3.5)


def test_sessions_of_24_hours_need_a_plan_which_is_paid() -> None:
    offers = rentals_of("colab", 24)
    alone, plan = offers["units", "T4"], offers["Pro+ units", "T4"]
    assert (alone.sessions, alone.plan) == (Range(2, 2), "")
    assert (plan.sessions, plan.plan) == (Range(1, 1), "Pro+")
    assert plan.cost == Range(49.99, 49.99)  # 24 × 1.19 units are among the 500 that it includes
    a_lot = rentals_of("colab", 600)["Pro+ units", "T4"]
    assert a_lot.cost is not None
    assert a_lot.cost.low == pytest.approx(49.99 + (600 * 1.19 - 500) * 0.1)


def test_a_plan_that_paid_machines_need_is_part_of_the_cost() -> None:
    card = rentals_of("gradient", 10)["A4000", "RTX A4000"]
    assert card.hours is not None
    assert card.cost is not None
    assert card.cost.low == pytest.approx(card.hours.low * 0.76 + 8)


def test_several_cards_by_published_scaling() -> None:
    """Two RTX 3090: 1751 instead of 905 images/s (Lambda). Of two T4 nothing was published, so the range says so."""
    one, two = (
        advise(
            build_question(AdviseOptions(hours=40, on="RTX 3090", workload="vision", card_count=count)),
            cards=choose_cards("RTX 3090,T4"),
            platforms=choose_platforms("kaggle,runpod"),
            today=TODAY,
        )
        for count in (1, 2)
    )
    here, there = ({card.card: card.hours for card in answer.cards} for answer in (one, two))
    published = here["RTX 3090"], there["RTX 3090"]
    assert published[0] is not None
    assert published[1] is not None
    assert published[0].low / published[1].low == pytest.approx(((1751 / 905) * (459 / 236)) ** 0.5, rel=0.001)
    t4 = here["T4"], there["T4"]
    assert t4[0] is not None
    assert t4[1] is not None
    assert t4[1].low == pytest.approx(t4[0].low / 2)
    assert t4[0].high / 2 < t4[1].high < t4[0].high / 1.5
    assert {rental.offer for rental in two.rentals} == {"GPU T4 x2"}  # the other machines have one card
    assert any("published" in line and "2 cards" in line for line in two.assumptions)


def test_ranges_as_text() -> None:
    assert format_hours(Range(40, 40)) == "40 h"
    assert format_hours(Range(0.33, 2.24)) == "20 min to 2.2 h"
    assert format_hours(Range(121, 1187)) == "120 to 1,200 h"
    assert format_money(Range(4.76, 4.76)) == "$4.76"
    assert format_money(Range(3.14, 1459)) == "$3.1 to $1,500"
    assert format_days(Range(0.2, 0.4)) == "4.8 to 9.6 h"
    assert format_days(Range(0.2, 7.42)) == "4.8 h to 7.4 days"
    assert format_days(Range(7.42, 7.42)) == "7.4 days"
    assert format_sessions(Range(1, 1)) == "1 session"


def test_other_cards_by_the_ladder() -> None:
    reported = build_question(AdviseOptions(hours=40, on="V100 SXM2 16GB", workload="transformer"))
    (a100,) = choose_cards("A100 80GB SXM4")
    speed = speed_of(a100, "transformer")
    assert isinstance(speed, Speed)
    (judged,) = advise(reported, cards=(a100,), today=TODAY).cards
    assert judged.hours is not None
    assert judged.hours.low < 40 / speed.relative < judged.hours.high


def test_in_fp32_cards_are_compared_by_their_fp32_rates() -> None:
    reported = build_question(AdviseOptions(hours=10, on="T4", workload="transformer", precision="fp32"))
    (a100,) = choose_cards("A100 80GB SXM4")
    (judged,) = advise(reported, cards=(a100,), today=TODAY).cards
    assert judged.hours is not None
    assert judged.hours.middle == pytest.approx(10 * 8.1 / 19.5, rel=0.05)
    assert judged.hours.high > 1.5 * judged.hours.low  # no measurement confirms it


def test_in_fp32_the_fastest_card_takes_the_least_time() -> None:
    reported = build_question(AdviseOptions(hours=10, on="T4", workload="transformer", precision="fp32"))
    advice = advise(reported, cards=choose_cards("4090,A100 80GB SXM4"), today=TODAY)
    assert [card.card for card in advice.cards] == ["RTX 4090", "A100 80GB SXM4"]
    assert {recommendation.card for recommendation in advice.recommendations if recommendation.kind == "fastest"} == {
        "RTX 4090"
    }
    assert not any("ladder for" in text or "published" in text for text in advice.assumptions)


def test_a_card_that_is_not_on_the_ladder_still_has_its_own_cost() -> None:
    """The A10G: its own hours are known; other cards are not compared with it."""
    advice = advise(build_question(AdviseOptions(hours=20, on="A10G", workload="vision")), today=TODAY)
    assert {rental.card for rental in advice.rentals if rental.cost is not None} == {"A10G"}
    assert [recommendation.card for recommendation in advice.recommendations if recommendation.kind == "cheapest"] == [
        "A10G"
    ]
    assert any("cannot be derived" in text for text in advice.assumptions)


def test_the_range_from_a_report_holds_the_measured_time() -> None:
    """GPT-2 small, amp, 8 × 1024 on an H200: 60.1 ms a step; ResNet-50, amp, batch 128: 31.4 ms (2026-11-15)."""
    for name, workload, seconds in (("gpt2", "transformer", 0.0601), ("resnet50", "vision", 0.0314)):
        basis = build_question(AdviseOptions(fit=str(REPORTS / f"{name}.json"), steps=3600, workload=workload)).basis  # type: ignore[arg-type]  # of two literals
        assert basis is not None
        assert basis.card == "H200 SXM"
        assert basis.hours.low < seconds < basis.hours.high


def test_no_run_is_shorter_than_its_floor() -> None:
    advice = answer("gpt2-from-its-report")
    assert advice.question.basis is not None
    floors = advice.question.basis.least_hours
    timed = [rental for rental in advice.rentals if rental.hours is not None and rental.card in floors]
    assert timed
    for rental in timed:
        assert rental.hours is not None
        assert rental.hours.low >= floors[rental.card]


def test_a_measured_step_wins_over_the_least_time(tmp_path: Path) -> None:
    fit = msgspec.json.decode((REPORTS / "gpt2.json").read_bytes(), type=Fit)
    spread = Spread(9, 0.06, 0.0601, 0.061, 0.062, 0.062)
    device = Device("cuda", "NVIDIA H200", 132, 150_109_880_320)
    measured = Measured(device, "2.11.0", "13.0", 8, None, steady=spread)
    (tmp_path / "fit.json").write_bytes(encode_json(msgspec.structs.replace(fit, measured=measured)))
    basis = build_question(AdviseOptions(fit=str(tmp_path / "fit.json"), steps=3600)).basis
    assert basis is not None
    assert (basis.kind, basis.card, basis.hours) == ("measured", "H200 SXM", Range(0.0601, 0.0601))


def test_an_own_benchmark_replaces_the_built_in_shares(tmp_path: Path) -> None:
    measure = Measure(
        "gpt2 training bf16 8x1024", "training", "cuda:0", "bf16", {}, "tokens/s", 1, 1, 1, 0.95, 9, share_of_peak=0.4
    )
    report = BenchReport(machine=MachineSummary((CardSummary("NVIDIA H200", None, "H200 SXM"),)), results=(measure,))
    save_report(report, tmp_path / "mine.json")
    options = AdviseOptions(
        fit=str(REPORTS / "gpt2.json"), steps=1000, workload="transformer", bench=str(tmp_path / "mine.json")
    )
    basis = build_question(options).basis
    assert basis is not None
    assert basis.hours.low == pytest.approx(basis.least_hours["H200 SXM"] / 0.8)
    assert "factor of 2" in basis.why
    with pytest.raises(InputError):
        build_question(options._replace(workload="vision"))


@pytest.mark.parametrize("name", QUESTIONS)
def test_old_prices_and_tight_cards_are_never_recommended(name: str) -> None:
    advice = answer(name)
    rentals = {(rental.platform, rental.offer, rental.card): rental for rental in advice.rentals}
    newer = any(not rental.old and not rental.free and rental.fits == "yes" for rental in advice.rentals)
    for recommendation in advice.recommendations:
        card = next(card for card in advice.cards if card.card == recommendation.card)
        assert card.usable
        if recommendation.platform:
            rental = rentals[recommendation.platform, recommendation.offer, recommendation.card]
            assert not (rental.old and newer and recommendation.kind != "free")
            assert rental.checkpoints == ("checkpoints" in recommendation.why)
    assert advice.assumptions


def test_a_platform_that_shut_down_has_no_offers() -> None:
    asked = build_question(AdviseOptions(hours=1, on="K80", workload="vision"))
    advice = advise(asked, platforms=choose_platforms("floydhub,onepanel,amazon sagemaker"), today=TODAY)
    assert not advice.rentals
    assert not advice.recommendations
    assert any("shut down" in text for text in advice.left_out)
    assert any("no longer offers" in text for text in advice.left_out)


def test_prices_grow_old() -> None:
    asked = build_question(AdviseOptions(hours=1, on="T4", workload="vision"))
    assert any(not rental.old for rental in advise(asked, today=TODAY).rentals)
    later = advise(asked, today=date(2028, 1, 1))
    assert all(rental.old or rental.free for rental in later.rentals)
    assert any("old" in recommendation.why for recommendation in later.recommendations)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (AdviseOptions(budget=0), "--budget must be a positive amount"),
        (AdviseOptions(budget=-5), "--budget must be a positive amount"),
        (AdviseOptions(budget=float("nan")), "--budget must be a positive amount"),
        (AdviseOptions(hours=-3, on="T4"), "--hours -3 is not a valid duration"),
        (AdviseOptions(hours=float("inf"), on="T4"), "--hours inf is not a valid duration"),
        (AdviseOptions(hours=1e300, on="T4"), "is not a valid duration"),
        (AdviseOptions(hours=1e-9, on="T4"), "is not a valid duration"),
        (AdviseOptions(step_seconds=1, steps=10**15, on="T4"), "more than a century"),
        (AdviseOptions(hours=3, on="TPU v3"), "runs other programs"),
        (AdviseOptions(hours=3, on="24GiB"), "is a memory size"),
        (AdviseOptions(hours=3), "need --on"),
        (AdviseOptions(on="T4"), "--on needs the duration"),
        (AdviseOptions(hours=3, on="RTX 6000"), "is ambiguous"),
        (AdviseOptions(hours=3, on="T5"), "Unknown card"),
        (AdviseOptions(hours=3, step_seconds=1, steps=2, on="T4"), "both give the duration"),
        (AdviseOptions(step_seconds=1, on="T4"), "--step-seconds needs --steps"),
        (AdviseOptions(step_seconds=0, steps=3, on="T4"), "--step-seconds 0 is not a valid duration"),
        (AdviseOptions(steps=3), "--steps needs the duration of a step"),
        (AdviseOptions(bench="mine", hours=3, on="T4"), "--bench needs --fit and --steps"),
        (AdviseOptions(hours=3, on="T4", hours_per_day=0), "between 0 and 24"),
        (AdviseOptions(hours=3, on="T4", hours_per_day=25), "between 0 and 24"),
        (AdviseOptions(model_memory="much"), "not a size"),
        (AdviseOptions(model_memory="3"), "less than one MiB"),
        (AdviseOptions(model_memory="3GiB", fit="x.json"), "both give the memory size"),
        (AdviseOptions(model_memory="60GiB", hours=3, on="4090"), "cannot have run on the RTX 4090"),
    ],
)
def test_options_that_are_refused(options: AdviseOptions, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        build_question(options)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("written", "usual"),
    [("v100", "V100 SXM2 16GB"), ("A100", "A100 80GB SXM4"), ("h100", "H100 SXM5"), ("3080", "RTX 3080 10GB")],
)
def test_the_usual_one_of_several_is_taken_and_named(written: str, usual: str) -> None:
    question = build_question(AdviseOptions(hours=3, on=written))
    assert question.basis is not None
    assert question.basis.card == usual
    assert any(usual in line and "the usual one" in line for line in advise(question, today=TODAY).assumptions)
    assert not build_question(AdviseOptions(hours=3, on=usual)).notes


def test_broken_reports_are_refused(tmp_path: Path) -> None:
    whole = (REPORTS / "gpt2.json").read_bytes()
    for number, text in enumerate((b"", b"[]", b"\xff\xfe", whole[:500], b'{"request": {}}')):
        path = tmp_path / f"{number}.json"
        path.write_bytes(text)
        with pytest.raises(RecordError):
            build_question(AdviseOptions(fit=str(path)))
    for missing in (tmp_path / "none.json", tmp_path, "/dev/zero"):
        with pytest.raises(InputError):
            build_question(AdviseOptions(fit=str(missing)))


def test_a_report_without_a_time(tmp_path: Path) -> None:
    fit = msgspec.json.decode((REPORTS / "gpt2.json").read_bytes(), type=Fit)
    timeless = msgspec.structs.replace(fit, cards=())
    (tmp_path / "fit.json").write_bytes(encode_json(timeless))
    with pytest.raises(OwnlabError, match="least time"):
        build_question(AdviseOptions(fit=str(tmp_path / "fit.json"), steps=3))
    assert build_question(AdviseOptions(fit=str(tmp_path / "fit.json"))).basis is None

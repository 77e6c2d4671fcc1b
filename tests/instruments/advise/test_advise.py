"""How a job is cut into sessions, how long it takes elsewhere, and what is never recommended."""

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
from ownlab.instruments.advise.formatting import count_words, days_words, hours_words, money_words
from ownlab.instruments.advise.pipeline import advise
from ownlab.instruments.advise.platform_costs import schedule
from ownlab.instruments.advise.question import Wishes, question_of
from ownlab.instruments.advise.records import Span
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
    found = schedule(job, session, weekly, a_day)
    assert (found.sessions, found.weeks) == cut[:2]
    assert found.days == pytest.approx(cut[2])


def test_words() -> None:
    assert hours_words(Span(40, 40)) == "40 h"
    assert hours_words(Span(0.33, 2.24)) == "20 min to 2.2 h"
    assert hours_words(Span(121, 1187)) == "120 to 1,200 h"
    assert money_words(Span(4.76, 4.76)) == "$4.76"
    assert money_words(Span(3.14, 1459)) == "$3.1 to $1,500"
    assert days_words(Span(0.2, 0.4)) == "4.8 to 9.6 h"
    assert days_words(Span(0.2, 7.42)) == "4.8 h to 7.4 days"
    assert days_words(Span(7.42, 7.42)) == "7.4 days"
    assert count_words(Span(1, 1), "session") == "1 session"


def test_other_cards_by_the_ladder() -> None:
    told = question_of(Wishes(hours=40, on="V100 SXM2 16GB", workload="transformer"))
    (a100,) = choose_cards("A100 80GB SXM4")
    speed = speed_of(a100, "transformer")
    assert isinstance(speed, Speed)
    (judged,) = advise(told, cards=(a100,), today=TODAY).cards
    assert judged.hours is not None
    assert judged.hours.low < 40 / speed.relative < judged.hours.high


def test_in_fp32_cards_stand_by_their_fp32_rates() -> None:
    told = question_of(Wishes(hours=10, on="T4", workload="transformer", precision="fp32"))
    (a100,) = choose_cards("A100 80GB SXM4")
    (judged,) = advise(told, cards=(a100,), today=TODAY).cards
    assert judged.hours is not None
    assert judged.hours.middle == pytest.approx(10 * 8.1 / 19.5, rel=0.05)
    assert judged.hours.high > 1.5 * judged.hours.low  # nobody checked it


def test_in_fp32_the_fastest_is_what_takes_least() -> None:
    told = question_of(Wishes(hours=10, on="T4", workload="transformer", precision="fp32"))
    advice = advise(told, cards=choose_cards("4090,A100 80GB SXM4"), today=TODAY)
    assert [card.card for card in advice.cards] == ["RTX 4090", "A100 80GB SXM4"]
    assert {pick.card for pick in advice.picks if pick.kind == "fastest"} == {"RTX 4090"}
    assert not any("ladder for" in text or "published" in text for text in advice.assumptions)


def test_a_card_that_the_ladder_does_not_know_costs_what_it_costs() -> None:
    """The A10G: its own hours are known; other cards are not set beside it, and not called cheaper."""
    advice = advise(question_of(Wishes(hours=20, on="A10G", workload="vision")), today=TODAY)
    assert {stay.card for stay in advice.stays if stay.cost is not None} == {"A10G"}
    assert [pick.card for pick in advice.picks if pick.kind == "cheapest"] == ["A10G"]
    assert any("nothing leads from there" in text for text in advice.assumptions)


def test_a_report_gives_a_span_that_holds_what_was_measured() -> None:
    """GPT-2 small, amp, 8 × 1024 on an H200: 60.1 ms a step; ResNet-50, amp, batch 128: 31.4 ms (2026-11-15)."""
    for name, workload, seconds in (("gpt2", "transformer", 0.0601), ("resnet50", "vision", 0.0314)):
        basis = question_of(Wishes(fit=str(REPORTS / f"{name}.json"), steps=3600, workload=workload)).basis  # type: ignore[arg-type]  # of two literals
        assert basis is not None
        assert basis.card == "H200 SXM"
        assert basis.hours.low < seconds < basis.hours.high


def test_no_run_is_shorter_than_its_floor() -> None:
    advice = answer("gpt2-from-its-report")
    assert advice.question.basis is not None
    floors = advice.question.basis.least_hours
    timed = [stay for stay in advice.stays if stay.hours is not None and stay.card in floors]
    assert timed
    for stay in timed:
        assert stay.hours is not None
        assert stay.hours.low >= floors[stay.card]


def test_a_step_that_was_measured_counts_more_than_a_floor(tmp_path: Path) -> None:
    fit = msgspec.json.decode((REPORTS / "gpt2.json").read_bytes(), type=Fit)
    spread = Spread(9, 0.06, 0.0601, 0.061, 0.062, 0.062)
    device = Device("cuda", "NVIDIA H200", 132, 150_109_880_320)
    measured = Measured(device, "2.11.0", "13.0", 8, None, steady=spread)
    (tmp_path / "fit.json").write_bytes(encode_json(msgspec.structs.replace(fit, measured=measured)))
    basis = question_of(Wishes(fit=str(tmp_path / "fit.json"), steps=3600)).basis
    assert basis is not None
    assert (basis.kind, basis.card, basis.hours) == ("measured", "H200 SXM", Span(0.0601, 0.0601))


def test_ones_own_measurement_replaces_ours(tmp_path: Path) -> None:
    measure = Measure(
        "gpt2 training bf16 8x1024", "training", "cuda:0", "bf16", {}, "tokens/s", 1, 1, 1, 0.95, 9, share_of_peak=0.4
    )
    report = BenchReport(machine=MachineSummary((CardSummary("NVIDIA H200", None, "H200 SXM"),)), results=(measure,))
    save_report(report, tmp_path / "mine.json")
    wishes = Wishes(
        fit=str(REPORTS / "gpt2.json"), steps=1000, workload="transformer", bench=str(tmp_path / "mine.json")
    )
    basis = question_of(wishes).basis
    assert basis is not None
    assert basis.hours.low == pytest.approx(basis.least_hours["H200 SXM"] / 0.8)
    assert "factor of 2" in basis.why
    with pytest.raises(InputError):
        question_of(wishes._replace(workload="vision"))


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_never_recommended(name: str) -> None:
    advice = answer(name)
    stays = {(stay.platform, stay.offer, stay.card): stay for stay in advice.stays}
    newer = any(not stay.old and not stay.free and stay.fits == "yes" for stay in advice.stays)
    for pick in advice.picks:
        card = next(card for card in advice.cards if card.card == pick.card)
        assert card.usable
        if pick.platform:
            stay = stays[pick.platform, pick.offer, pick.card]
            assert not (stay.old and newer and pick.kind != "free")
            assert stay.checkpoints == ("checkpoints" in pick.why)
    assert advice.assumptions


def test_a_platform_that_has_ended_lends_nothing() -> None:
    asked = question_of(Wishes(hours=1, on="K80", workload="vision"))
    advice = advise(asked, platforms=choose_platforms("floydhub,onepanel,amazon sagemaker"), today=TODAY)
    assert not advice.stays
    assert not advice.picks
    assert any("ended" in text for text in advice.left_out)
    assert any("gone" in text for text in advice.left_out)


def test_prices_grow_old() -> None:
    asked = question_of(Wishes(hours=1, on="T4", workload="vision"))
    assert any(not stay.old for stay in advise(asked, today=TODAY).stays)
    later = advise(asked, today=date(2028, 1, 1))
    assert all(stay.old or stay.free for stay in later.stays)
    assert any("old" in pick.why for pick in later.picks)


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (Wishes(budget=0), "buys nothing"),
        (Wishes(budget=-5), "buys nothing"),
        (Wishes(budget=float("nan")), "buys nothing"),
        (Wishes(hours=-3, on="T4"), "is none"),
        (Wishes(hours=float("inf"), on="T4"), "is none"),
        (Wishes(hours=1e300, on="T4"), "is none"),
        (Wishes(hours=1e-9, on="T4"), "is none"),
        (Wishes(step_seconds=1, steps=10**15, on="T4"), "a job of"),
        (Wishes(hours=3, on="TPU v3"), "runs other programs"),
        (Wishes(hours=3, on="24GiB"), "is a size"),
        (Wishes(hours=3), "which card"),
        (Wishes(on="T4"), "how long"),
        (Wishes(hours=3, on="A100"), "may be"),
        (Wishes(hours=3, on="T5"), "no card is known"),
        (Wishes(hours=3, step_seconds=1, steps=2, on="T4"), "both"),
        (Wishes(step_seconds=1, on="T4"), "how many steps"),
        (Wishes(step_seconds=0, steps=3, on="T4"), "is none"),
        (Wishes(steps=3), "how long is a step"),
        (Wishes(bench="mine", hours=3, on="T4"), "of what?"),
        (Wishes(hours=3, on="T4", hours_per_day=0), "a day has no"),
        (Wishes(hours=3, on="T4", hours_per_day=25), "a day has no"),
        (Wishes(model_memory="much"), "not a size"),
        (Wishes(model_memory="3"), "mebibyte"),
        (Wishes(model_memory="3GiB", fit="x.json"), "both"),
        (Wishes(model_memory="60GiB", hours=3, on="4090"), "takes no hours there"),
    ],
)
def test_what_cannot_be_asked(wishes: Wishes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        question_of(wishes)
    assert said in caught.value.message or said.replace("both", "too") in caught.value.message


def test_reports_that_are_broken(tmp_path: Path) -> None:
    whole = (REPORTS / "gpt2.json").read_bytes()
    for number, text in enumerate((b"", b"[]", b"\xff\xfe", whole[:500], b'{"request": {}}')):
        path = tmp_path / f"{number}.json"
        path.write_bytes(text)
        with pytest.raises(RecordError):
            question_of(Wishes(fit=str(path)))
    for missing in (tmp_path / "none.json", tmp_path, "/dev/zero"):
        with pytest.raises(InputError):
            question_of(Wishes(fit=str(missing)))


def test_a_report_without_a_time(tmp_path: Path) -> None:
    fit = msgspec.json.decode((REPORTS / "gpt2.json").read_bytes(), type=Fit)
    timeless = msgspec.structs.replace(fit, cards=())
    (tmp_path / "fit.json").write_bytes(encode_json(timeless))
    with pytest.raises(OwnlabError, match="least time"):
        question_of(Wishes(fit=str(tmp_path / "fit.json"), steps=3))
    assert question_of(Wishes(fit=str(tmp_path / "fit.json"))).basis is None

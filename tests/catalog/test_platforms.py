"""The table of platforms: every figure has a source and a day, every card is known, and names are found."""

from __future__ import annotations

import re
from datetime import date
from importlib.resources import files

import pytest

from ownlab.catalog.cards import Figure, Unstated, load_cards
from ownlab.catalog.platforms import (
    _NAMES_IN_WORDS,
    LIMITS,
    NO_LIMIT,
    OLD_DAYS,
    Offer,
    Platform,
    choose_platforms,
    find_platform,
    is_old,
    load_platform_sources,
    load_platforms,
    offer_label,
    parse_platforms,
)
from ownlab.errors import RecordError, UsageError
from ownlab.text import Text

TEXT = (files("ownlab.catalog") / "data" / "platforms.toml").read_text("utf-8")
OFFERS = [offer for platform in load_platforms() for offer in platform.offers]


def figures(platform: Platform) -> list[Figure | Unstated]:
    facts = [*(platform.limit(name) for name in LIMITS), platform.daily_hours, platform.daily_hours_most]
    facts.append(platform.total_hours)
    for offer in platform.offers:
        facts += [offer.price, offer.session_hours, offer.weekly_hours, offer.unit_price]
        facts += [offer.lockout_hours, offer.plan_usd, offer.plan_usd_most, offer.cpus, offer.ram_gib]
    return facts


@pytest.mark.parametrize("platform", load_platforms(), ids=lambda platform: platform.name)
def test_every_figure_has_a_source_and_a_date_or_a_reason(platform: Platform) -> None:
    sources = load_platform_sources()
    for figure in figures(platform):
        if isinstance(figure, Unstated):
            assert figure.reason
            continue
        assert figure.as_of == sources[figure.source].as_of
        assert figure.value >= 0
    assert platform.address.startswith("https://")
    assert bool(platform.ended) == (platform.alive is False)


def test_every_source_was_read_and_is_used() -> None:
    used = {
        figure.source for platform in load_platforms() for figure in figures(platform) if isinstance(figure, Figure)
    }
    used |= {platform.ended_source for platform in load_platforms()}
    for key, source in load_platform_sources().items():
        assert source.address.startswith("https://"), key
        assert date.fromisoformat(source.as_of) <= date.fromisoformat(source.read), key
        assert key in used, key


@pytest.mark.parametrize("offer", OFFERS, ids=lambda offer: f"{offer.platform} {offer.name} {offer.card}")
def test_offers(offer: Offer) -> None:
    assert offer.card in {card.name for card in load_cards()}
    assert offer.count >= 1
    assert (offer.per == "free") == (offer.price.value == 0)
    assert offer.hourly is not None
    # From a market's oldest card to eight of the newest: what lies outside was mistyped.
    assert offer.per == "free" or 0.02 < offer.hourly / offer.count < 15


def test_well_known_platforms_are_in_the_table() -> None:
    names = (
        "colab,kaggle,gradient,amazon sagemaker,studio lab,azure,aws,gcp,lambda,runpod,vast,易学智能,floydhub,onepanel"
    )
    by_name = {platform.name: platform for platform in choose_platforms(names)}
    assert len(by_name) == 14
    assert [name for name, platform in by_name.items() if platform.alive is False] == ["FloydHub", "Onepanel"]
    assert by_name["易学智能"].alive is None
    assert isinstance(by_name["Kaggle"].weekly_hours, Figure)
    assert by_name["AWS"].session_hours == Unstated(NO_LIMIT)


def test_chinese_platforms_are_found_by_either_name() -> None:
    names = (
        "阿里云,腾讯云,恒源云,矩池云,揽睿星舟,魔搭,飞桨,autodl",
        "aliyun,tencent,gpushare,matpool,lanrui,modelscope,aistudio,算力云",
    )
    first, second = map(choose_platforms, names)
    assert first == second
    assert len(first) == 8
    cny = {offer.platform for offer in OFFERS if offer.currency == "CNY"}
    assert cny == {"AutoDL", "Alibaba Cloud 阿里云", "易学智能"}


def test_hours_that_are_not_renewed_bind_the_free_offers_only() -> None:
    (offer,) = find_platform("魔搭").offers
    assert isinstance(offer.total_hours, Figure)
    assert offer.total_hours.value == 36
    paid = parse_platforms(
        TEXT.replace('price = [0, "modelscope-book"], per = "free"', 'price = [1, "modelscope-book"]')
    )[0]
    (offer,) = next(platform for platform in paid if platform.name == "ModelScope 魔搭").offers
    assert offer.total_hours == Unstated(NO_LIMIT)


def test_platform_names_are_unique() -> None:
    words = [word.casefold() for platform in load_platforms() for word in (platform.name, *platform.aliases)]
    assert len(words) == len(set(words))
    assert find_platform("Paperspace").name == "Paperspace Gradient"
    with pytest.raises(UsageError, match="ambiguous"):
        find_platform("sage")
    with pytest.raises(UsageError) as caught:
        find_platform("kagle")
    assert "Kaggle" in caught.value.hint
    with pytest.raises(UsageError):
        choose_platforms(" , ")


def test_compute_units_are_converted_to_money() -> None:
    units = next(offer for offer in find_platform("colab").offers if offer.per == "unit-hour" and offer.card == "T4")
    assert units.hourly == pytest.approx(0.119)


def test_old_prices() -> None:
    price = Figure(1.0, "list", "2026-01-01")
    day = date(2026, 1, 1).toordinal()
    assert not is_old(price, date.fromordinal(day + OLD_DAYS))
    assert is_old(price, date.fromordinal(day + OLD_DAYS + 1))


@pytest.mark.parametrize(
    "broken",
    [
        "platforms = [",
        TEXT.replace('[1.19, "mccormick"]', '[1.19, "nobody"]'),
        TEXT.replace('[1.19, "mccormick"]', "1.19"),
        TEXT.replace("session_hours = [12,", "sesion_hours = [12,", 1),
        TEXT.replace('ended = ["2021-08", "floydhub-end"]', 'ended = ["2021-08", "nobody"]'),
    ],
    ids=["no TOML", "no such source", "a bare number", "a wrong name", "an end without a source"],
)
def test_an_invalid_table_is_refused(broken: str) -> None:
    with pytest.raises(RecordError):
        parse_platforms(broken)


def test_names_of_offers_that_are_words_are_translated() -> None:
    names = {offer.name for platform in load_platforms() for offer in platform.offers}
    # Others have digits, or are a plan's or a machine's name in capitals: ml.g5, Free-GPU+, GPU.
    words = {name for name in names if re.match(r"[a-z]+\b(?![.\d_-])|Pro\+ ", name)}
    assert words == {name for name in names if isinstance(offer_label(name), Text)}
    assert set(_NAMES_IN_WORDS) == words

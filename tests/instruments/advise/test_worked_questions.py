"""Questions that people ask about cards and platforms, with their full answers as golden files.

They come from notes and courses of 2017 to 2024 (fast.ai's list of platforms, Dettmers' advice, "why not a 4090?").
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.render.test_golden import compare, paper

from ownlab.catalog.cards import choose_cards
from ownlab.catalog.platforms import choose_platforms
from ownlab.instruments.advise.pipeline import advise
from ownlab.instruments.advise.question import AdviseOptions, build_question
from ownlab.instruments.advise.records import Advice
from ownlab.instruments.advise.terminal import show_advice, show_cost

REPORTS = Path(__file__).with_name("reports")
TODAY = date(2026, 11, 15)


class WorkedQuestion(NamedTuple):
    """A question, and the command that answers it."""

    options: AdviseOptions
    cards: str | None = None
    platforms: str | None = None
    to_buy: bool = False


def report(name: str) -> str:
    return str(REPORTS / f"{name}.json")


QUESTIONS = {
    # Kaggle lends 30 hours a week: what of a job of 40?
    "kaggle-40-hours": WorkedQuestion(AdviseOptions(hours=40, on="T4", workload="vision"), platforms="kaggle"),
    # "A training run of 20 hours, and sessions of 12."
    "20-hours-in-sessions-of-12": WorkedQuestion(
        AdviseOptions(hours=20, on="T4", workload="transformer"), platforms="colab,kaggle,gradient,studio lab"
    ),
    # "100 compute units do not last long."
    "colab-100-units": WorkedQuestion(
        AdviseOptions(hours=60, on="T4", workload="vision", budget=10), cards="t4,l4,a100", platforms="colab"
    ),
    # "A card with 24 GB to run a model of 7 billion parameters, for less than 1,700 dollars."
    "24-gb-for-inference": WorkedQuestion(
        AdviseOptions(model_memory="16GiB", workload="decoding", budget=1700), to_buy=True
    ),
    # "V100 or 4090, in bf16?"
    "v100-or-4090-in-bf16": WorkedQuestion(
        AdviseOptions(model_memory="12GiB", workload="transformer", precision="bf16", hours=24, on="4090"),
        cards="V100 SXM2 16GB,4090,T4",
        to_buy=True,
    ),
    # "A100 and H100 are too dear: why not a 4090?"
    "why-not-a-4090": WorkedQuestion(
        AdviseOptions(model_memory="60GiB", workload="transformer"),
        cards="H100 SXM5,A100 80GB SXM4,4090,5090",
        to_buy=True,
    ),
    # ml.p3.2xlarge, 3.825 USD an hour: what else does the work of a V100?
    "instead-of-ml-p3": WorkedQuestion(
        AdviseOptions(hours=20, on="V100 SXM2 16GB", workload="vision"),
        platforms="sagemaker,aws,azure,gcp,lambda,易学智能,floydhub",
    ),
    # "I have almost no money."
    "almost-no-money": WorkedQuestion(
        AdviseOptions(model_memory="4GiB", workload="vision", budget=350),
        cards="1050 Ti,1060,1070,1080,1080 Ti,RTX 3060 12GB,RTX 3060 Ti",
        to_buy=True,
    ),
    # The ladder of the notes: 1080 Ti = 1, 2080 Ti = 2, 3080 Ti = 3, V100 = 4, A100 = 8.
    "a-day-on-a-1080-ti": WorkedQuestion(
        AdviseOptions(hours=24, on="1080 Ti", workload="vision"),
        cards="1080 Ti,2080 Ti,3080 Ti,T4,V100 SXM2 16GB,A100 80GB SXM4",
        to_buy=True,
    ),
    # GPT-2 small, 600,000 steps of 8 × 1024 tokens; nobody timed a step yet.
    "gpt2-from-its-report": WorkedQuestion(
        AdviseOptions(fit=report("gpt2"), steps=600_000, workload="transformer", budget=100)
    ),
    # ResNet-50, 90 times ImageNet in batches of 128, in the evenings.
    "resnet50-in-the-evenings": WorkedQuestion(
        AdviseOptions(fit=report("resnet50"), steps=900_000, workload="vision", hours_per_day=8),
        platforms="kaggle,colab,runpod",
    ),
    # What no single card holds.
    "too-big-for-one-card": WorkedQuestion(AdviseOptions(model_memory="400GiB", workload="transformer"), to_buy=True),
}


def answer(name: str) -> Advice:
    asked = QUESTIONS[name]
    return advise(
        build_question(asked.options),
        cards=None if asked.cards is None else choose_cards(asked.cards),
        platforms=None if asked.platforms is None else choose_platforms(asked.platforms),
        today=TODAY,
        buying=asked.to_buy,
    )


@pytest.mark.parametrize("name", QUESTIONS)
def test_golden_answer(name: str) -> None:
    out, sheet = paper()
    (show_advice if QUESTIONS[name].to_buy else show_cost)(answer(name), out)
    compare(f"advice/{name}.txt", sheet.getvalue())

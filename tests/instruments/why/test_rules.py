"""Checks that every rule must pass: its code, its page, its place in the list, its tests."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.instruments.why import invented

from ownlab.errors import UsageError
from ownlab.instruments.why.causes import CAUSES, find_cause
from ownlab.instruments.why.rule import Cause
from ownlab.text import Text

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs" / "WHY.md"


def leaves(kind: type[Cause]) -> set[type[Cause]]:
    children = {leaf for child in kind.__subclasses__() for leaf in leaves(child)}
    return children | ({kind} if "code" in vars(kind) else set())


def pages() -> str:
    """docs/WHY.md, made of the rules' docstrings."""
    head = (
        "One section per cause that `ownlab why` recognises. Generated from the rules' docstrings (`make golden`); "
        "`ownlab why --explain CODE` shows the same text.\n\n"
        "The GPU is measured on its own clock in each step, and by torch's profiler in a window of a few steps; figures from the window are "
        "marked as sampled. Rules that have not been tried on a GPU say so. Codes that begin with `trace-` are found in a trace of torch.profiler (`ownlab why --trace FILE`), those with `nccl-` in a log of NCCL (`ownlab why --nccl LOG`)."
    )
    parts = [f"# Why training is slow\n\n{head}\n"]
    parts += [f"## `{rule.code}`\n\n*{rule.title}*\n\n{rule.page()}\n" for rule in CAUSES]
    return "\n".join(parts)


def test_every_rule_is_in_the_list() -> None:
    assert set(CAUSES) == leaves(Cause)


def test_codes_are_lowercase_words_and_unique() -> None:
    codes = [rule.code for rule in CAUSES]
    assert len(codes) == len(set(codes))
    assert [code for code in codes if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)] == []


@pytest.mark.parametrize("rule", CAUSES, ids=lambda rule: rule.code)
def test_every_page_has_all_sections(rule: type[Cause]) -> None:
    page = rule.page()
    assert page.splitlines()[0].endswith(".")
    for heading in ("**Why it matters.**", "**What to do.**", "**Sources.**"):
        assert heading in page
    assert isinstance(rule.title, Text)
    assert not rule.title.endswith(".")


@pytest.mark.parametrize("rule", CAUSES, ids=lambda rule: rule.code)
def test_every_rule_is_tested(rule: type[Cause]) -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    assert re.search(rf"[\"']{rule.code}[\"']", tests)


def test_a_step_that_only_trains_has_no_finding() -> None:
    explanation = invented.explained(invented.process(forward_ms=10, backward_ms=20, optimizer_ms=5))
    assert explanation.findings == ()
    assert "Nothing was found that costs 5 %" in explanation.sentence


def test_generated_pages_match_the_rules() -> None:
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        PAGES.write_text(pages())
    assert PAGES.read_text() == pages()


def test_an_unknown_code_suggests_a_similar_one() -> None:
    with pytest.raises(UsageError, match="few-wrokers") as caught:
        find_cause("few-wrokers")
    assert "few-workers" in caught.value.hint

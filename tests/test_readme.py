"""The Chinese README says what the English one says: the same commands, code and links, and the same figures."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
# Numbers with a decimal point or a percent sign; others may be words.
_FIGURE = re.compile(r"\d+\.\d+|\d+ %")


def links(page: str) -> Counter[str]:
    found = re.findall(r"\]\(([^)]+)\)", page)
    return Counter(link.replace(".zh_CN.", ".") for link in found if not link.startswith("README"))


def code(page: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", _BLOCK.sub("", page)))


def commands(page: str) -> list[str]:
    return [line.partition("#")[0].strip() for block in _BLOCK.findall(page) for line in block.splitlines()]


def headings(page: str) -> list[str]:
    return re.findall(r"^#+", _BLOCK.sub("", page), re.MULTILINE)


def test_the_same_links_commands_and_code() -> None:
    assert links(CHINESE) == links(ENGLISH)
    assert commands(CHINESE) == commands(ENGLISH)
    assert code(CHINESE) == code(ENGLISH)
    assert headings(CHINESE) == headings(ENGLISH)


def test_the_same_figures() -> None:
    assert Counter(_FIGURE.findall(CHINESE)) == Counter(_FIGURE.findall(ENGLISH))


def test_each_links_to_the_other_and_is_short() -> None:
    assert "(README.zh-CN.md)" in ENGLISH
    assert "(README.md)" in CHINESE
    assert len(CHINESE.splitlines()) <= 120

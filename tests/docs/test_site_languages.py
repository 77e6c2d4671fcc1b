"""The documentation in other languages than English."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from docs.extensions.chinese_search import ChineseSearch
from docs.extensions.site_languages import RULE_PAGES, language_links, translated_rules
from tests.docs.site_builder import build_site
from translations.site import TRANSLATED, check_message, check_site, extract_site

from ownlab.languages import translations

DOCS = Path(__file__).resolve().parents[2] / "docs"
CATALOGUE = """\
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8"

msgid "A title"
msgstr "标题"

msgid "See [the other page](other.md#a-part)."
msgstr "见[另一页](other.md#a-part)。"

msgid "make lab   # once\\n"
msgstr "make lab   # 只需一次\\n"
"""


def test_the_catalogues_fit_the_pages() -> None:
    problems = list(check_site("zh_CN"))
    assert problems == [], "run: python -m translations.catalogues update; translate what `todo docs` prints"


def test_messages_are_paragraphs_and_code_with_comments() -> None:
    messages = extract_site()
    assert set(messages) == set(TRANSLATED)
    assert "Open the lab" in " ".join(messages["tutorial"])
    assert any("# once; takes a few minutes" in message for message in messages["tutorial"])
    assert not any(message.startswith(("import time", "# @title")) for message in messages["tutorial"])
    # Rules are docstrings: their translations are not kept a second time.
    assert not any("**Why it matters.**" in message for page in RULE_PAGES for message in messages[page])


@pytest.mark.parametrize(
    ("message", "translation", "problems"),
    [
        ("Run `ownlab up`.", "运行 `ownlab up`。", []),
        ("Run `ownlab up`.", "运行 ownlab up。", ["other code"]),
        ("[This](a.md) and [that](b.md#c)", "[那个](b.md#c)和[这个](a.md)", []),
        ("[This](a.md)", "[这个](b.md)", ["other links"]),
        ("![A card](images/a.png)", "显卡", ["other links"]),
        ("**Names**: all `*.py`", "**名称**：所有 `*.py`", []),
        ("*Recent* says", "最近", ["other emphasis"]),
        ("*Open…* shows it", "*打开…*显示它", ["other emphasis"]),
        ("*Open…* shows it", "*打开…* 显示它", []),
        ("**One.** Two * 3", "**一。**二 * 3", ["other emphasis"]),
        ("a   # once\n\nb --c\n", "a   # 一次\n\nb --c\n", []),
        ("a   # once\n\nb --c\n", "a   # 一次\n\nb --d\n", ["other code"]),
        ("# @title Train\na = 1  # one\n", "# @title 训练\na = 1  # 一\n", ["other code"]),
        ("ownlab", "ownlab", []),
        ("`--a`, `--b`", "`--a`、`--b`", []),
        ("`--a`, `--b`", "`--a`、`--c`", ["other code"]),
    ],
)
def test_translations_keep_code_and_links(message: str, translation: str, problems: list[str]) -> None:
    assert list(check_message(message, translation)) == problems


@pytest.mark.parametrize("page", RULE_PAGES)
def test_rules_are_in_the_words_of_the_program(page: str) -> None:
    source = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    translate = translations("zh_CN")
    assert translate is not None
    made = translated_rules(source, translate)
    assert [line for line in made.splitlines() if line.startswith("#")] == [
        line for line in source.splitlines() if line.startswith("#")
    ]
    rules = made.partition("\n## ")[2].split("\n\n")
    words = [
        each for each in rules if re.search(r"[A-Za-z]{3}", re.sub(r"```.*?```|`[^`]*`", "", each, flags=re.DOTALL))
    ]
    assert [each for each in words if not re.search(r"[\u3400-\u9fff]", each) and not each.startswith("#")] == []


def test_titles_and_severities_of_rules_are_translated() -> None:
    words = {"A card is lost": "显卡丢失", "error": "错误", "It is gone.": "不见了。", "One\n\n## two": "?"}
    source = "# Rules\n\nOne\n\n## `lost`\n\n*A card is lost* (error)\n\nIt is gone.\n"
    expected = "# Rules\n\nOne\n\n## `lost`\n\n*显卡丢失*（错误）\n\n不见了。\n"
    assert translated_rules(source, lambda word: words.get(word, word)) == expected


@pytest.mark.parametrize(
    ("page", "language", "href"),
    [
        ("index", "en", "zh_CN/index.html"),
        ("how-to/lab", "en", "../zh_CN/how-to/lab.html"),
        ("index", "zh_CN", "../index.html"),
        ("how-to/lab", "zh_CN", "../../how-to/lab.html"),
    ],
)
def test_links_to_the_same_page_in_the_other_language(page: str, language: str, href: str) -> None:
    assert [link.href for link in language_links(page, language)] == [href]


def test_a_build_translates_paragraphs_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = tmp_path / "source" / "locale" / "zh_CN" / "LC_MESSAGES" / "index.po"
    catalogue.parent.mkdir(parents=True)
    catalogue.write_text(CATALOGUE, encoding="utf-8")
    pages = {
        "index": "# A title\n\nSee [the other page](other.md#a-part).\n\n```sh\nmake lab   # once\n```\n\nNot translated.\n",
        "other": "# Other\n\n## A part\n",
    }
    site, warnings = build_site(tmp_path, monkeypatch, "site_languages", language="zh_CN", **pages)
    assert warnings == ""
    page = (site / "index.html").read_text(encoding="utf-8")
    assert '<html lang="zh-CN"' in page
    assert '<section id="a-title">' in page  # links from elsewhere still lead here
    assert "<h1>标题" in page
    assert re.search(r'见<a [^>]*href="other.html#a-part">', page)
    assert "# 只需一次</span>" in page
    assert "<p>Not translated.</p>" in page
    assert "<h1>Other" in (site / "other.html").read_text(encoding="utf-8")


def test_a_translation_that_sphinx_skips_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue = tmp_path / "source" / "locale" / "zh_CN" / "LC_MESSAGES" / "index.po"
    catalogue.parent.mkdir(parents=True)
    numbered = '\nmsgid "1. First"\nmsgstr "1. 第一"\n\nmsgid "2. Second"\nmsgstr "2\\\\. 第二"\n'
    catalogue.write_text(CATALOGUE + numbered, encoding="utf-8")
    page = "# A title\n\n## 1. First\n\n## 2. Second\n"
    site, warnings = build_site(tmp_path, monkeypatch, "site_languages", language="zh_CN", index=page)
    assert "the translation of '1. First' is no longer a paragraph or a title" in warnings
    assert "2. Second" not in warnings
    assert "<h2>2. 第二" in (site / "index.html").read_text(encoding="utf-8")


def test_chinese_words_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ChineseSearch({}).split("显存不足，run DataLoader。") == [
        *("run", "DataLoader"),
        *("显", "存", "不", "足", "显存", "存不", "不足"),
    ]
    page = "# 显存\n\n进程 DataLoader\n"
    site, warnings = build_site(tmp_path, monkeypatch, "chinese_search", language="zh_CN", index=page)
    assert warnings == ""
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    content = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))
    assert {"进程", "dataload"} <= content["terms"].keys()
    assert "显存" in content["titleterms"]
    # Each stemmer that is used is defined: with Sphinx's own Chinese the page of results is broken.
    script = (site / "_static" / "language_data.js").read_text(encoding="utf-8")
    assert re.findall(r"window\.Stemmer = (\w+);", script) == ["EnglishStemmer"]
    assert re.search(r"\bEnglishStemmer\s*=", script)

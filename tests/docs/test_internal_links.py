"""The check of links within the documentation site."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.extensions.internal_links import broken_links
from tests.docs.site_builder import build_site


def write(site: Path, **pages: str) -> Path:
    site.mkdir(exist_ok=True)
    for name, page in pages.items():
        (site / f"{name}.html").write_text(page, encoding="utf-8")
    return site.resolve()


def found(site: Path) -> list[tuple[str, str]]:
    return [(path.name, link) for path, link in broken_links(site)]


def test_links_to_pages_anchors_files_and_other_sites_are_accepted(tmp_path: Path) -> None:
    site = write(
        tmp_path / "site",
        index='<h1 id="top">a</h1> <a href="other.html#two%20words">b</a> <a href="#top">c</a> <a href="#">d</a>'
        '<a href="https://example.org/nothing.html#nothing">e</a> <a href="mailto:a@example.org">f</a> <img src="a.png?x=1">',
        other='<h1 id="two words">a</h1> <a href="./index.html?q=1#top">b</a>',
    )
    (site / "a.png").write_bytes(b"")
    assert found(site) == []


@pytest.mark.parametrize(
    "link",
    [
        "nothing.html",
        "other.html#nothing",
        "#nothing",
        "folder/index.html",
        "nothing.png",
        "../outside.md",
        "/etc/passwd",
    ],
)
def test_a_link_that_leads_to_nothing_in_the_site_is_found(tmp_path: Path, link: str) -> None:
    (tmp_path / "outside.md").write_text("exists here, but not where the site is published")
    site = write(tmp_path / "site", index=f'<a href="{link}">a</a>', other='<p id="a">a</p>')
    assert found(site) == [("index.html", link)]


def test_images_and_scripts_are_checked(tmp_path: Path) -> None:
    site = write(tmp_path / "site", index='<img src="a.png"><script src="a.js"></script><link href="a.css">')
    assert [link for _, link in found(site)] == ["a.png", "a.js", "a.css"]


def test_the_theme_s_own_files_are_not_pages(tmp_path: Path) -> None:
    site = write(tmp_path / "site", index="<p>a</p>")
    write(site / "_static", template='<a href="nothing.html">a</a>')
    assert found(site) == []


def test_a_site_in_another_language_is_checked_with_the_english_one_that_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = write(tmp_path / "site", index='<a href="zh_CN/index.html">a</a>')
    write(site / "zh_CN", index='<a href="../index.html">a</a><a href="../nothing.html">b</a>')
    assert found(site) == [("index.html", "../nothing.html")]
    page = '# Title\n\n<a href="../index.html">of the site that is built after this one</a>\n'
    _, warnings = build_site(tmp_path, monkeypatch, "internal_links", language="zh_CN", index=page)
    assert warnings == ""


def test_a_build_warns_of_a_broken_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = '# Title\n\n<a href="nothing.html">raw HTML, which Sphinx does not check</a>\n'
    _, warnings = build_site(tmp_path, monkeypatch, "internal_links", index=page)
    assert "index.html: the link nothing.html leads to nothing in the site" in warnings


def test_a_build_without_broken_links_does_not_warn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"index": "# Title\n\n[other](other.md#part)\n", "other": "# Other\n\n## Part\n"}
    _, warnings = build_site(tmp_path, monkeypatch, "internal_links", **pages)
    assert warnings == ""

"""After a build: every link, image and anchor of the HTML pages without a host must lead to something within the site.

Sphinx checks the references that it resolves itself; this also covers what themes and generated text write.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging

_log = logging.getLogger(__name__)


class _Page(HTMLParser):
    """The anchors of a page, and what it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _check(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html" or app.config.language != "en":
        return  # the English site is built last, and the others are folders in it
    site = Path(app.outdir).resolve()
    for path, link in broken_links(site):
        _log.warning("%s: the link %s leads to nothing in the site", path.relative_to(site), link, type="links")


def broken_links(site: Path) -> Iterator[tuple[Path, str]]:
    """The links without a host whose file or anchor does not exist in the folder of the site.

    A file outside of it may exist on this machine, but not where the site is published.
    """
    pages = {
        path: _Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts
    }
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if (
                not target.is_relative_to(site)
                or not target.exists()
                or (parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors)
            ):
                yield path, link

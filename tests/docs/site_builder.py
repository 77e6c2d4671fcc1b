"""Builds a small Sphinx site with the extensions of the documentation."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

EXTENSIONS = Path(__file__).resolve().parents[2] / "docs" / "extensions"


def build_site(
    base: Path, monkeypatch: pytest.MonkeyPatch, extension: str, language: str = "en", **pages: str
) -> tuple[Path, str]:
    """Return the folder of the built site and the warnings of the build. Catalogues are expected in source/locale."""
    monkeypatch.syspath_prepend(EXTENSIONS)
    source, site = base / "source", base / "site"
    source.mkdir(exist_ok=True)
    for name, page in pages.items():
        (source / f"{name}.md").write_text(page, encoding="utf-8")
    log = io.StringIO()
    settings = {
        "extensions": ["myst_parser", extension],
        "html_theme": "basic",
        "language": language,
        "locale_dirs": ["locale"],
        "gettext_additional_targets": ["literal-block"],
        "myst_enable_extensions": ["deflist"],
        "myst_heading_anchors": 4,
        "suppress_warnings": ["toc.not_included"],
    }
    with warnings.catch_warnings(), patch_docutils(), docutils_namespace():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # of Sphinx, about names that myst_parser uses
        app = Sphinx(source, None, site, base / "cache", "html", settings, status=None, warning=log)
        app.build()
    return site.resolve(), log.getvalue()

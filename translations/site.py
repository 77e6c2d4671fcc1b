"""The catalogues of the documentation in docs/locale, one per translated page. All other pages are shown in English.

Sphinx extracts the messages and applies their translations. The pages of rules are here with their heads alone: their rules
are docstrings, and in the catalogue `pages`.
"""

from __future__ import annotations

import io
import re
import tempfile
import warnings
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po
from markdown_it import MarkdownIt
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from translations.extraction import ROOT

__all__ = [
    "DOMAIN",
    "TRANSLATED",
    "check_message",
    "check_site",
    "extract_site",
    "read_site",
    "untranslated_messages",
    "update_site",
]

# For `todo` and `merge`.
DOMAIN = "docs"
# To translate another page: name it here, and run `update`.
TRANSLATED = (
    "index",
    "tutorial",
    "tutorial-data",
    "how-to/index",
    "how-to/another-machine",
    "how-to/bare-machines",
    "how-to/choose-a-card",
    "how-to/colab-notebooks",
    "how-to/cron",
    "how-to/data",
    "how-to/diagnose",
    "how-to/environments",
    "how-to/examples",
    "how-to/get-data",
    "how-to/history",
    "how-to/lab",
    "how-to/language",
    "how-to/notebooks",
    "how-to/other-clients",
    "how-to/prometheus",
    "how-to/shared-machine",
    "how-to/slow-training",
    "how-to/slurm",
    "how-to/storage",
    "how-to/train",
    "reference/index",
    "reference/commands",
    "explanation/index",
    "RULES",
    "WHY",
)
_DOCS = ROOT / "docs"
_NO_DATE = datetime(2026, 1, 1, tzinfo=timezone.utc)  # a date would make every update a change

_CODE = re.compile(r"`+[^`]+`+")
_TARGET = re.compile(r"\]\(([^)\s]+)\)")
# A comment of a shell or of Python. Directives for forms (`# @param`) are code.
_COMMENT = re.compile(r"(^|\s+)#(?! @)\s.*$", re.MULTILINE)
_CHINESE = re.compile(r"[\u3400-\u9fff]")


# --- what is to be translated -----------------------------------------------------------------------------------------


def extract_site() -> dict[str, list[str]]:
    """Return page -> its messages, as Sphinx finds them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {"include_patterns": [f"{page}.md" for page in TRANSLATED]}
        with warnings.catch_warnings(), patch_docutils(), docutils_namespace():
            warnings.simplefilter("ignore", PendingDeprecationWarning)  # of Sphinx, about names that myst_parser uses
            # Links to pages that are left out are warnings; `make docs` checks links.
            log = io.StringIO()
            Sphinx(_DOCS, _DOCS, folder, folder / "cache", "gettext", settings, status=None, warning=log).build()
        return {page: _messages(folder / f"{page}.pot") for page in TRANSLATED}


def _messages(path: Path) -> list[str]:
    with path.open("rb") as file:
        found = [str(message.id) for message in read_po(file) if message.id]
    return [message for message in found if _needs_translation(message, found)]


def _needs_translation(message: str, others: list[str]) -> bool:
    if "\n" in message:  # a block of code
        return _COMMENT.search(message) is not None
    if not any(map(str.isalpha, message)):
        return False
    return not any(f"![{message}](" in other for other in others)  # Sphinx also gives the description of an image alone


# --- the catalogues ---------------------------------------------------------------------------------------------------


def _path(language: str, page: str) -> Path:
    return _DOCS / "locale" / language / "LC_MESSAGES" / f"{page}.po"


def read_site(language: str, page: str) -> Catalog:
    """Return the catalogue of a page; an empty one if it is not there."""
    path = _path(language, page)
    if not path.exists():
        return Catalog(locale=language)
    with path.open("rb") as file:
        return read_po(file, locale=language)


def update_site(language: str, extra: dict[str, str] | None = None) -> None:
    """Write the catalogues anew from the pages and the translations that are there."""
    known = {
        str(message.id): str(message.string or "")
        for page in TRANSLATED
        for message in read_site(language, page)
        if message.id and message.string
    } | (extra or {})
    for page, messages in extract_site().items():
        catalogue = Catalog(locale=language, domain=page, project="ownlab", charset="utf-8", fuzzy=False)
        catalogue.header_comment = f"# Translations of docs/{page}.md. How they are made: translations/README.md"
        catalogue.creation_date = catalogue.revision_date = _NO_DATE
        for message in messages:
            catalogue.add(message, known.get(message, ""))
        out = io.BytesIO()
        write_po(out, catalogue, width=100)
        path = _path(language, page)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(out.getvalue())


def untranslated_messages(language: str) -> list[str]:
    """Return the messages of all pages that have no translation."""
    return [
        message
        for page, messages in extract_site().items()
        for message in messages
        if not ((entry := read_site(language, page).get(message)) and entry.string)
    ]


def check_site(language: str) -> Iterator[str]:
    """Yield what is wrong with the catalogues, a line each."""
    for page, wanted in extract_site().items():
        where = _path(language, page).relative_to(ROOT)
        catalogue = read_site(language, page)
        known = {str(message.id): str(message.string or "") for message in catalogue if message.id}
        yield from (f"{where}: fuzzy: {message.id!r}" for message in catalogue if message.id and message.fuzzy)
        yield from (f"{where}: no longer in the page: {message!r}" for message in known if message not in wanted)
        for message in wanted:
            if not known.get(message):
                yield f"{where}: not translated: {message!r}"
            else:
                yield from (f"{where}: {problem}: {message!r}" for problem in check_message(message, known[message]))
    expected = {_path(language, page) for page in TRANSLATED}
    for path in sorted(_path(language, "index").parent.rglob("*.po")):
        if path not in expected:
            yield f"{path.relative_to(ROOT)}: no page that is translated"


def check_message(message: str, translation: str) -> Iterator[str]:
    """Yield what a translation has that its message has not, or the other way round. A message of several lines is a block of code."""
    if "\n" in message or not _CHINESE.search(translation):
        # Names alone may be listed as Chinese does.
        if _without_comments(message) != _without_comments(translation.replace("、", ", ")):
            yield "other code"
        return
    for what, pattern in (("code", _CODE), ("links", _TARGET)):
        if sorted(pattern.findall(message)) != sorted(pattern.findall(translation)):
            yield f"other {what}"
    # A `*` between punctuation and a Chinese character is no mark of Markdown: it would be shown.
    if _emphasis(message) != _emphasis(translation):
        yield "other emphasis"


def _emphasis(message: str) -> list[str]:
    """Return the marks of emphasis that Markdown sees, and each `*` that it would show."""
    inline = [token for block in MarkdownIt().parseInline(message) for token in block.children or ()]
    shown = [token.content for token in inline if token.type == "text"]
    return sorted(
        [*(token.type for token in inline if token.markup in ("*", "**")), *("*" * "".join(shown).count("*"))]
    )


def _without_comments(code: str) -> list[str]:
    return [line for line in _COMMENT.sub("", code).splitlines() if line.strip()]

"""The site in another language than English: `sphinx-build -D language=zh_CN`.

Sphinx itself takes paragraphs, titles and lists from docs/locale. This adds what it cannot: blocks of code with their comments,
the pages of rules, whose translations are those of the program, and a link to the same page in the other languages.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.nodes import extract_messages

from ownlab.languages import ENGLISH, LANGUAGES, translations

_log = logging.getLogger(__name__)
# Pages that are made of docstrings, each paragraph of which is a message of ownlab's catalogues.
RULE_PAGES = ("RULES", "WHY")
_TITLE = re.compile(r"\*(?P<title>[^\n]+)\*(?: \((?P<severity>\w+)\))?")


class LanguageLink(NamedTuple):
    """A page in another language."""

    href: str
    name: str  # as its speakers call it
    tag: str  # for the attribute `lang`


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", _read_rules)
    app.connect("html-page-context", _add_links)
    app.add_transform(TranslateCode)
    app.add_transform(ReportSkipped)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


# --- pages of rules -------------------------------------------------------------------------------------------------------


def _read_rules(app: Sphinx, page: str, source: list[str]) -> None:
    if page not in RULE_PAGES:
        return
    translate = translations(app.config.language)
    if app.builder.name == "gettext":
        source[0] = source[0].partition("\n## ")[0]  # the rest is in ownlab's catalogues
    elif translate is not None:
        source[0] = translated_rules(source[0], translate)


def translated_rules(source: str, translate: Callable[[str], str]) -> str:
    """Return such a page in another language. Headings stay: they are codes. Its head is translated by Sphinx."""
    head, mark, rules = source.partition("\n## ")
    return head + mark + "\n\n".join(_paragraph(each, translate) for each in rules.rstrip("\n").split("\n\n")) + "\n"


def _paragraph(words: str, translate: Callable[[str], str]) -> str:
    title = _TITLE.fullmatch(words)
    if title is None:
        return translate(words)
    shown = f"*{translate(title['title'])}*"
    return f"{shown}（{translate(title['severity'])}）" if title["severity"] else shown


# --- what Sphinx does not translate ---------------------------------------------------------------------------------------


class _CatalogueTransform(SphinxTransform):
    """Works with the catalogue of a page that is shown in another language."""

    def apply(self, **kwargs: Any) -> None:
        """Call `use` for a page that may have a catalogue."""
        if self.app.builder.name != "gettext" and self.config.language != ENGLISH:
            folder = self.env.srcdir / self.config.locale_dirs[0]
            self.use(gettext.translation(self.env.docname, folder, [self.config.language], fallback=True))

    def use(self, catalogue: gettext.NullTranslations) -> None:
        """Change the page, or look at it. The message "" of a catalogue is its header."""
        raise NotImplementedError


class TranslateCode(_CatalogueTransform):
    """Replaces blocks of code by those of the page's catalogue: Sphinx would read the translation as Markdown."""

    default_priority = 19  # just before Sphinx translates all else

    def use(self, catalogue: gettext.NullTranslations) -> None:
        """Replace the text of blocks that have a translation."""
        for block in self.document.findall(nodes.literal_block):
            if block.astext():
                shown = catalogue.gettext(block.astext())
                block.children = [nodes.Text(shown)]
                block.rawsource = shown


class ReportSkipped(_CatalogueTransform):
    """Warns of translations that Sphinx ignores in silence: of a paragraph or a title that would be something else, such as a list."""

    default_priority = 26  # just after Sphinx has translated

    def use(self, catalogue: gettext.NullTranslations) -> None:
        """Compare what is marked as translated with what has a translation."""
        for node, message in extract_messages(self.document):
            if isinstance(node, addnodes.translatable):
                continue  # lists of pages are translated without such a mark
            if message and catalogue.gettext(message) != message and node.get("translated") is False:
                words = "the translation of %r is no longer a paragraph or a title"
                _log.warning(words, message, location=node, type="i18n", subtype="skipped")


# --- links to other languages ---------------------------------------------------------------------------------------------


def _add_links(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    context["language_links"] = list(language_links(page, app.config.language))


def language_links(page: str, language: str) -> Iterator[LanguageLink]:
    """Yield the same page in the other languages. English is the site's root, the others are in folders of their names."""
    up = "../" * (page.count("/") + (language != ENGLISH))
    for name, spoken in LANGUAGES.items():
        if name != language:
            folder = "" if name == ENGLISH else f"{name}/"
            yield LanguageLink(f"{up}{folder}{page}.html", spoken, name.replace("_", "-"))

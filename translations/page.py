"""The catalogue of the lab's page: sentences of labextension/src, and titles of its settings, menus and toolbars (schema/).

Its source is page.po beside the other catalogues; ownlab.json is what JupyterLab's server reads and sends to the page.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from translations.extraction import ROOT

__all__ = ["DOMAIN", "PageMessage", "check_page", "compile_page", "extract_page", "read_page", "update_page"]

# For `todo`, and the name of the catalogue's source.
DOMAIN = "page"
_LOCALE = ROOT / "src" / "ownlab" / "locale"
_SOURCES = ROOT / "labextension" / "src"
_SCHEMAS = ROOT / "labextension" / "schema"
# The name of the entry point jupyterlab.locale, by which JupyterLab's server finds the file.
_COMPILED = "ownlab.json"
# A message with a context has this key in the compiled catalogue.
_SEPARATOR = "\4"
_NO_DATE = datetime(2026, 1, 1, tzinfo=timezone.utc)  # a date would make every update a change

# ESLint checks that templates are literals where these are called, and that they are called by these names.
_CALL = re.compile(r"(?<![\w.])(?P<function>text|textNodes|plural)\(\s*")
_LITERAL = re.compile(r"""'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)\"""")
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|(.))")
_COMMENT = re.compile(r"^\s*(?:\*|//|/\*).*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{\w+\}")
# JupyterLab replaces these itself.
_JUPYTERLAB_PLACEHOLDER = re.compile(r"%[%\d]")

# Path in a schema -> context of the message, as in jupyterlab_server.translation_utils.
_SCHEMA_CONTEXTS = (
    (re.compile(r"(title|description)"), "schema"),
    (re.compile(r"properties/.*/(title|description)"), "settings"),
    (re.compile(r"jupyter\.lab\.menus/.*/label"), "menu"),
    (re.compile(r"jupyter\.lab\.toolbars/.*/label"), "toolbar"),
)


class PageMessage(NamedTuple):
    """A template, and where it was found."""

    template: str
    context: str | None
    path: str

    @property
    def key(self) -> str:
        """Its key in the compiled catalogue."""
        return self.template if self.context is None else f"{self.context}{_SEPARATOR}{self.template}"


# --- what is to be translated -----------------------------------------------------------------------------------------


def extract_page() -> list[PageMessage]:
    """Return every message once, with the first file that has it."""
    found: dict[str, PageMessage] = {}
    for message in (*_from_sources(), *_from_schemas()):
        found.setdefault(message.key, message)
    return list(found.values())


def _from_sources() -> Iterator[PageMessage]:
    for path in sorted(each for each in _SOURCES.rglob("*") if each.suffix in (".ts", ".tsx")):
        name = path.relative_to(ROOT).as_posix()
        yield from (PageMessage(words, None, name) for words in _templates(path.read_text(encoding="utf-8")))


def _templates(source: str) -> Iterator[str]:
    source = _COMMENT.sub("", source)
    for call in _CALL.finditer(source):
        if call["function"] != "plural":
            literal = _LITERAL.match(source, call.end())
            if literal:
                yield _value(literal)
            continue
        at = _next_argument(source, call.end())
        one = _LITERAL.match(source, at)
        many = one and _LITERAL.match(source, _next_argument(source, one.end()))
        if one and many:
            yield from (_value(one), _value(many))


def _next_argument(source: str, at: int) -> int:
    """Return where the argument after the one at this place begins."""
    depth = 0
    while depth or source[at] != ",":
        literal = _LITERAL.match(source, at)
        if literal:
            at = literal.end()
            continue
        if depth == 0 and source[at] in ")]};":
            return at  # the last argument, or the definition of `plural`
        depth += (source[at] in "([{") - (source[at] in ")]}")
        at += 1
    at += 1
    while source[at].isspace():
        at += 1
    return at


def _value(literal: re.Match[str]) -> str:
    escapes = {"n": "\n", "t": "\t"}

    def unescape(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        return chr(int(code, 16)) if code else escapes.get(match[3], match[3])

    return _ESCAPE.sub(unescape, literal[1] if literal[1] is not None else literal[2])


def _from_schemas() -> Iterator[PageMessage]:
    for path in sorted(_SCHEMAS.glob("*.json")):
        name = path.relative_to(ROOT).as_posix()
        for place, words in _strings(json.loads(path.read_text(encoding="utf-8")), ""):
            context = next((context for pattern, context in _SCHEMA_CONTEXTS if pattern.fullmatch(place)), None)
            if context is not None:
                yield PageMessage(words, context, name)


def _strings(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, f"{place}/{key}" if place else key)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _strings(item, f"{place}/{number}")


# --- the catalogue ----------------------------------------------------------------------------------------------------


def _path(language: str) -> Path:
    return _LOCALE / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def read_page(language: str) -> dict[str, str]:
    """Return key -> translation; "" for what is not translated."""
    path = _path(language)
    if not path.exists():
        return {}
    with path.open("rb") as file:
        messages = [
            (PageMessage(str(each.id), each.context, ""), each.string)
            for each in read_po(file, locale=language)
            if each.id
        ]
    return {message.key: str(translation or "") for message, translation in messages}


def update_page(language: str, extra: dict[str, str] | None = None) -> None:
    """Write the catalogue anew from the sources and the translations that are there."""
    known = read_page(language) | (extra or {})
    catalogue = Catalog(locale=language, domain=DOMAIN, project="ownlab", charset="utf-8", fuzzy=False)
    catalogue.header_comment = "# Translations of the lab's page. How they are made: translations/README.md"
    catalogue.creation_date = catalogue.revision_date = _NO_DATE
    for message in extract_page():
        catalogue.add(
            message.template, known.get(message.key, ""), [(message.path, 0)], context=message.context, flags=[]
        )
    out = io.BytesIO()
    write_po(out, catalogue, width=100, include_lineno=False)
    _path(language).parent.mkdir(parents=True, exist_ok=True)
    _path(language).write_bytes(out.getvalue())
    compile_page(language)


def compile_page(language: str) -> None:
    """Write the catalogue that is shipped."""
    _path(language).with_name(_COMPILED).write_bytes(_compiled(language))


def _compiled(language: str) -> bytes:
    with _path(language).open("rb") as file:
        plural_forms = read_po(file, locale=language).plural_forms
    header = {"domain": "ownlab", "language": language.replace("_", "-"), "plural_forms": plural_forms}
    translated = {key: [value] for key, value in sorted(read_page(language).items()) if value}
    return (json.dumps({"": header, **translated}, ensure_ascii=False, indent=0) + "\n").encode()


def check_page(language: str) -> Iterator[str]:
    """Yield what is wrong with the catalogue, a line each."""
    path = _path(language)
    where = path.relative_to(ROOT)
    known, wanted = read_page(language), extract_page()
    for message in wanted:
        translation = known.get(message.key)
        if not translation:
            yield f"{where}: not translated ({message.path}): {message.key!r}"
        elif sorted(_PLACEHOLDER.findall(translation)) != sorted(_PLACEHOLDER.findall(message.template)):
            yield f"{where}: other placeholders: {message.template!r} -> {translation!r}"
        elif _JUPYTERLAB_PLACEHOLDER.search(translation):
            yield f"{where}: JupyterLab replaces % before a digit or another %: {translation!r}"
    keys = {message.key for message in wanted}
    yield from (f"{where}: no longer in the sources: {key!r}" for key in known if key not in keys)
    compiled = path.with_name(_COMPILED)
    if not compiled.exists() or compiled.read_bytes() != _compiled(language):
        yield f"{compiled.relative_to(ROOT)}: out of date; run: python -m translations.catalogues compile"

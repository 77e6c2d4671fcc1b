"""The catalogues in src/ownlab/locale and docs/locale: `python -m translations.catalogues COMMAND`.

update             take new messages from the sources, drop those that are gone, and compile
compile            write the .mo files that are shipped, and ownlab.json for JupyterLab
todo [DOMAIN]      print what is not translated as JSON: {"template": ""}; of the page: todo page; of the documentation: todo docs
merge FILE…        take over translations: JSON as `todo` prints it, filled in; of these two: merge page FILE…, merge docs FILE…
check              say what is missing, out of date, or has other placeholders than its template; exit code 1
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import click
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from translations.extraction import DOMAINS, ROOT, Message, extract
from translations.page import DOMAIN as PAGE
from translations.page import check_page, compile_page, extract_page, read_page, update_page
from translations.site import DOMAIN as SITE
from translations.site import check_site, untranslated_messages, update_site

__all__ = ["LOCALE", "catalogue_path", "check", "placeholders", "read_catalogue"]

LOCALE = ROOT / "src" / "ownlab" / "locale"
LANGUAGES = ("zh_CN",)
# A date would make every update a change.
_NO_DATE = datetime(2026, 1, 1, tzinfo=timezone.utc)
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(?P<name>[A-Za-z_]\w*)(?P<rest>(?:![rsa])?(?::[^{}]*)?)\}|%\(\w+\)s|%s|%d")


def catalogue_path(language: str, domain: str) -> Path:
    """Return the path of a catalogue's source."""
    return LOCALE / language / "LC_MESSAGES" / f"{domain}.po"


def read_catalogue(language: str, domain: str) -> dict[str, str]:
    """Return the translations of a catalogue; "" for what is not translated."""
    path = catalogue_path(language, domain)
    if not path.exists():
        return {}
    with path.open("rb") as file:
        return {str(message.id): str(message.string or "") for message in read_po(file, locale=language) if message.id}


def _written(language: str, domain: str, translations: dict[str, str], messages: list[Message]) -> bytes:
    catalogue = Catalog(locale=language, domain=domain, project="ownlab", charset="utf-8", fuzzy=False)
    catalogue.header_comment = f"# Translations of ownlab ({domain}). How they are made: translations/README.md"
    catalogue.creation_date = catalogue.revision_date = _NO_DATE
    for message in messages:
        flags = ["python-brace-format"] if placeholders(message.template) else []
        path = message.place.partition(":")[0]
        catalogue.add(message.template, translations.get(message.template, ""), [(path, 0)], flags)
    out = io.BytesIO()
    write_po(out, catalogue, width=100, include_lineno=False)
    return out.getvalue()


def _compiled(source: bytes, language: str) -> bytes:
    out = io.BytesIO()
    write_mo(out, read_po(io.BytesIO(source), locale=language))
    return out.getvalue()


def update(extra: dict[str, str] | None = None) -> None:
    """Write every catalogue anew from the sources and the translations that are there."""
    messages = extract()
    for language in LANGUAGES:
        # A message may have moved from one domain to another.
        known = {key: value for domain in DOMAINS for key, value in read_catalogue(language, domain).items() if value}
        known |= extra or {}
        for domain in DOMAINS:
            path = catalogue_path(language, domain)
            path.parent.mkdir(parents=True, exist_ok=True)
            source = _written(language, domain, known, [each for each in messages if each.domain == domain])
            path.write_bytes(source)
            path.with_suffix(".mo").write_bytes(_compiled(source, language))
        update_page(language)
        update_site(language)


def placeholders(template: str) -> list[str]:
    """Return the placeholders of a template, with their formats, sorted."""
    return sorted(match[0] for match in _PLACEHOLDER.finditer(template) if match[0] not in ("{{", "}}"))


def check() -> Iterator[str]:
    """Yield what is wrong with the catalogues, a line each."""
    messages = extract()
    for language in LANGUAGES:
        for domain in DOMAINS:
            wanted = [each for each in messages if each.domain == domain]
            yield from _check_catalogue(language, domain, wanted)
        yield from check_page(language)
        yield from check_site(language)


def _check_catalogue(language: str, domain: str, wanted: list[Message]) -> Iterator[str]:
    path = catalogue_path(language, domain)
    where = path.relative_to(ROOT)
    known = read_catalogue(language, domain)
    for message in wanted:
        translation = known.get(message.template)
        if not translation:
            yield f"{where}: not translated ({message.place}): {message.template!r}"
        elif placeholders(translation) != placeholders(message.template):
            yield f"{where}: other placeholders: {message.template!r} -> {translation!r}"
    templates = {message.template for message in wanted}
    yield from (f"{where}: no longer in the sources: {template!r}" for template in known if template not in templates)
    source = path.read_bytes() if path.exists() else b""
    compiled = path.with_suffix(".mo")
    if source and (not compiled.exists() or compiled.read_bytes() != _compiled(source, language)):
        yield f"{compiled.relative_to(ROOT)}: out of date; run: python -m translations.catalogues compile"


def _todo(domain: str | None) -> dict[str, str]:
    if domain == PAGE:
        done = read_page(LANGUAGES[0])
        return {message.key: "" for message in extract_page() if not done.get(message.key)}
    if domain == SITE:
        return dict.fromkeys(untranslated_messages(LANGUAGES[0]), "")
    known = {template for each in DOMAINS for template, done in read_catalogue(LANGUAGES[0], each).items() if done}
    return {each.template: "" for each in extract() if domain in (None, each.domain) and each.template not in known}


def main(arguments: list[str]) -> int:
    command, *rest = arguments or ["--help"]
    if command == "update":
        update()
    elif command == "compile":
        for language in LANGUAGES:
            for domain in DOMAINS:
                path = catalogue_path(language, domain)
                path.with_suffix(".mo").write_bytes(_compiled(path.read_bytes(), language))
            compile_page(language)
    elif command == "todo":
        click.echo(json.dumps(_todo(rest[0] if rest else None), ensure_ascii=False, indent=0))
    elif command == "merge":
        into = {PAGE: update_page, SITE: update_site}.get(rest[0] if rest else "")
        extra: dict[str, str] = {}
        for name in rest[1 if into else 0 :]:
            extra |= {key: value for key, value in json.loads(Path(name).read_text("utf-8")).items() if value}
        if into is not None:
            into(LANGUAGES[0], extra)
        else:
            update(extra)
    elif command == "check":
        problems = list(check())
        click.echo("\n".join(problems))
        return 1 if problems else 0
    else:
        click.echo(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

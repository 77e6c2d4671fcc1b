"""The languages of ownlab, which one a person wants, and the translations of its templates. Standard library only.

English is the language of the sources; the others are gettext catalogues below `locale/`. `translations/README.md` says
how they are made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gettext  # not needed for English

__all__ = [
    "DOMAINS",
    "ENGLISH",
    "LANGUAGES",
    "LANGUAGE_OPTION",
    "PSEUDO",
    "choose_language",
    "command_language",
    "english_environment",
    "environment_language",
    "known_language",
    "translations",
]

ENGLISH = "en"
# Name -> as its speakers call it. A name is that of its folder in locale/.
LANGUAGES = {ENGLISH: "English", "zh_CN": "简体中文"}
# Shows what is not translated: the letters of templates have accents, all others have not. For tests and translators.
PSEUDO = "qps"
_LETTERS = "AaCcDdEeGgIiNnOoSsTtUuYyZz"
_ACCENTED = "ÅåÇçĐđÉéĞğÎîÑñÖöŠšŤťÛûÝýŽž"
# What `listing`, `facts` and `sentences` of ownlab.text join. It is no message: the number of parts varies.
_JOINED = re.compile(r"\{[is]0\}(?:[,;]?\s+\{[is]\d+\})*$")
_PLACEHOLDER = re.compile(r"(\{\{|\}\}|\{[^{}]*\}|%\(\w+\)s|%[sd])")

# What a command calls the value of --lang in `click.Context.meta`.
LANGUAGE_OPTION = "ownlab.language"

# Catalogues, in the order in which they are searched: the doctor's is large, and pages of rules are rarely read.
DOMAINS = ("ownlab", "doctor", "pages")
_LOCALE = os.path.join(os.path.dirname(__file__), "locale")  # pathlib would slow every start down
# Spellings that mean a language, in lower case with "_"; the part before the first "_" of any other is tried, too.
# Traditional Chinese is another script, and not offered.
_NAMES = {
    "en": ENGLISH,
    "c": ENGLISH,
    "posix": ENGLISH,
    "zh": "zh_CN",
    "zh_cn": "zh_CN",
    "zh_sg": "zh_CN",
    "zh_my": "zh_CN",
    "zh_hans": "zh_CN",
    PSEUDO: PSEUDO,
}
_OTHER_SCRIPTS = ("zh_tw", "zh_hk", "zh_mo", "zh_hant")
# In the order of gettext. LANGUAGE is a list, and does not count where the locale is C.
_LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


def known_language(wanted: str) -> str | None:
    """Return the language that a name means: "zh_CN.UTF-8", "zh-Hans", "zh" and "zh_CN" are one. None: not offered."""
    name = wanted.strip().partition(".")[0].partition("@")[0].replace("-", "_").lower()
    if name.startswith(_OTHER_SCRIPTS):
        return None
    if name.startswith("zh_hans"):
        return "zh_CN"
    return _NAMES.get(name) or (_NAMES.get(name.partition("_")[0]) if not name.startswith("zh") else None)


def choose_language(environ: Mapping[str, str], *, setting: str = "") -> str:
    """Choose the language of a person: OWNLAB_LANG, the setting, then the variables of the locale."""
    for wanted in (environ.get("OWNLAB_LANG", ""), setting):
        if language := known_language(wanted):
            return language
    locale = next((environ[name] for name in _LOCALE_VARIABLES if environ.get(name)), "")
    if known_language(locale) == ENGLISH and not locale.lower().startswith("en"):
        return ENGLISH  # C and POSIX
    wishes = [*environ.get("LANGUAGE", "").split(":"), locale]
    return next((language for wish in wishes if (language := known_language(wish))), ENGLISH)


def command_language(arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """Choose the language of a command. One that prints a JSON document speaks English unless --lang stands before it.

    What is wrong with --lang, or with the configuration, is reported by what reads them: here it counts as not given.
    """
    if given := known_language(_option(arguments, "--lang") or ""):
        return given
    if "--json" in arguments:
        return ENGLISH
    return environment_language(environ)


def environment_language(environ: Mapping[str, str]) -> str:
    """Choose the language of a person by the environment and the setting, which is read only if it counts."""
    if known_language(environ.get("OWNLAB_LANG", "")):
        return choose_language(environ)
    return choose_language(environ, setting=_setting(environ))


def english_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of another ownlab whose output goes into a log, or is read by a program."""
    return {**environ, "OWNLAB_LANG": ENGLISH}


def translations(language: str) -> Callable[[str], str] | None:
    """Return what translates a template; None for English. A template without a translation stays English."""
    if language == ENGLISH:
        return None
    return _pseudo if language == PSEUDO else _catalogue(language)


@cache
def _catalogue(language: str) -> Callable[[str], str]:
    """Look templates up in the catalogues one after the other; most commands need the first alone."""

    def translate(template: str) -> str:
        if not template:  # gettext would answer with the header of the catalogue
            return template
        if _JOINED.match(template):
            return template.replace(", ", "、" if template.startswith("{i") else "，").replace("; ", "；")
        for domain in DOMAINS:
            if found := _read(language, domain).gettext(template):
                return found
        return template

    return translate


@cache
def _read(language: str, domain: str) -> gettext.NullTranslations:
    """Return a catalogue that answers with "" where it has no translation, so that the next, larger one is read only then."""
    import gettext

    class Missing(gettext.NullTranslations):
        def gettext(self, message: str) -> str:
            return ""

    catalogue = gettext.translation(domain, _LOCALE, [language], fallback=True)
    if type(catalogue) is gettext.NullTranslations:  # there is no such catalogue
        return Missing()
    catalogue.add_fallback(Missing())
    return catalogue


def _pseudo(template: str) -> str:
    """Put accents on the letters of a template, and brackets around it. Its placeholders stay, and what only arranges values."""
    letters = str.maketrans(_LETTERS, _ACCENTED)
    # Every second part is a placeholder.
    parts = [
        part if number % 2 else part.translate(letters) for number, part in enumerate(_PLACEHOLDER.split(template))
    ]
    words = any(character.isalpha() for part in parts[::2] for character in part)
    mark, start, rest = "".join(parts).rpartition("\b\n")  # click wants these at the beginning of a paragraph
    return f"{mark}{start}⟦{rest}⟧" if words else template


def _option(arguments: Iterable[str], name: str) -> str | None:
    """Return the value of an option that stands before the name of the command."""
    words: Iterator[str] = iter(arguments)
    for word in words:
        if word == name:
            return next(words, None)
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if not word.startswith("-"):
            return None
    return None


def _setting(environ: Mapping[str, str]) -> str:
    from ownlab.config.paths import config_file

    path = config_file(environ)
    if not os.path.isfile(path):
        return ""
    from ownlab.config.loader import read_setting  # most people have no such file, and need no parser of it

    return read_setting("interface.language", path)

"""The language of the page, and of what the server sends it.

A page states its language with each request (labextension/src/session/pageLanguage.ts): the server's process stays English
and renders its sentences for each request. A new page begins in the language of `ownlab up`, unless somebody has chosen
another one in JupyterLab's settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ownlab
from ownlab.languages import ENGLISH, PSEUDO, known_language, translations

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from tornado.httputil import HTTPServerRequest

__all__ = [
    "accepted_language",
    "page_catalogue",
    "request_language",
    "set_default_language",
    "translate_schemas",
    "translation_for",
]

# Where JupyterLab keeps its language: the id of a plugin, and the name of a setting.
_PLUGIN, _SETTING = "@jupyterlab/translation-extension:plugin", "locale"
# Our domain in schema files: "jupyter.lab.internationalization".
_DOMAIN = "ownlab"
_MOST = 20  # languages of a header that are looked at


def translation_for(request: HTTPServerRequest) -> Callable[[str], str] | None:
    """Return what translates sentences for the page that has sent a request; None: it is in English."""
    return translations(request_language(request))


def request_language(request: HTTPServerRequest) -> str:
    """Return the language of the page that has sent a request.

    A websocket states its language in the query, since a browser sends no other header than its own.
    """
    stated = request.query_arguments.get("language")
    if stated:
        return known_language(stated[-1].decode("ascii", "replace")) or ENGLISH
    return accepted_language(request.headers.get("Accept-Language", ""))


@lru_cache(maxsize=100)
def accepted_language(header: str) -> str:
    """Return the language of ours that a header Accept-Language likes best."""
    wishes = []
    for wish in header.split(",")[:_MOST]:
        name, _, weight = wish.partition(";")
        wishes.append((_weight(weight), known_language(name)))
    # Sorting keeps the order of equal weights.
    ranked = sorted((wish for wish in wishes if wish[0] > 0), key=lambda wish: -wish[0])
    return next((language for _, language in ranked if language), ENGLISH)


def _weight(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


# --- JupyterLab's own server ------------------------------------------------------------------------------------------


def set_default_language(server: ServerApp, language: str) -> None:
    """Let pages begin in a language, if the user's settings name none."""
    from jupyterlab_server import settings_utils, translation_utils, translations_handler

    # JupyterLab takes the locale of the server's process for a page without a setting, here and for menus.
    if language != PSEUDO:  # it has no catalogue
        for module in (settings_utils, translation_utils, translations_handler):
            module.SYS_LOCALE = language  # type: ignore[attr-defined]
    # The mark in Settings > Language, and languages that JupyterLab has no pack for.
    for overrides in _default_settings(server):
        overrides.setdefault(_PLUGIN, {}).setdefault(_SETTING, language)


def _default_settings(server: ServerApp) -> Iterable[dict[str, Any]]:
    """Yield the defaults of settings that JupyterLab's handlers have read from the files of this computer."""
    for app in server.extension_manager.extension_apps.get("jupyterlab", ()):
        for _, _, *options in app.handlers:
            if options and isinstance(options[0].get("overrides"), dict):
                yield options[0]["overrides"]


def translate_schemas() -> None:
    """Translate the titles of our settings and menus: JupyterLab's server looks for them only in language packs."""
    from jupyterlab_server import settings_utils
    from jupyterlab_server.translation_utils import TranslationBundle, translator

    class PageBundle(TranslationBundle):
        """Our messages with a context, from the catalogue of the page."""

        def pgettext(self, msgctxt: str, msgid: str) -> str:
            """Called by JupyterLab's server for each string of a schema."""
            return page_catalogue(self._locale).get(f"{msgctxt}\4{msgid}", msgid)

    translator._TRANSLATORS[_DOMAIN] = PageBundle(_DOMAIN, translator._LOCALE)
    read_schema = settings_utils._get_schema

    def read_translated(*args: Any, **more: Any) -> tuple[dict[str, Any], str]:
        schema, version = read_schema(*args, **more)
        ours = schema.get("jupyter.lab.internationalization", {}).get("domain") == _DOMAIN
        return (translator.translate_schema(schema) if ours else schema), version

    # In the list of all settings, from which menus are made, it translates no extension's.
    settings_utils._get_schema = read_translated


@cache
def page_catalogue(locale: str) -> dict[str, str]:
    """Return the messages of the page in a language: by its context and English, joined by the character 4."""
    language = known_language(locale)
    path = Path(ownlab.__file__).parent / "locale" / (language or ENGLISH) / "LC_MESSAGES" / f"{_DOMAIN}.json"
    if not path.is_file():
        return {}
    messages: dict[str, list[str]] = json.loads(path.read_bytes())
    return {key: forms[0] for key, forms in messages.items() if key}

"""Errors of routes, in the language of the page that has sent the request."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from jupyter_server.base.handlers import APIHandler, JupyterHandler
from tornado import web

from ownlab.lab.server.page_language import translation_for
from ownlab.text import in_english, render

__all__ = ["InPageLanguage", "PageError"]


class PageError(web.HTTPError):
    """An HTTP error with a sentence for people. tornado's own forgets how a sentence was made."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(status_code, message)
        self.sentence = message


class InPageLanguage(JupyterHandler):
    """Writes what it sends in the language of the page. A base before Jupyter's own handlers."""

    @property
    def translate(self) -> Callable[[str], str] | None:
        """What translates sentences for the page; None: it is in English."""
        return translation_for(self.request)

    def rendered(self, sentence: str) -> str:
        """Return a sentence in the language of the page."""
        return render(sentence, self.translate) if self.translate else in_english(sentence)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado with an exception, after it was logged in English."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        if not isinstance(error, PageError):
            super().write_error(status_code, **kwargs)
            return
        message = self.rendered(error.sentence)
        if isinstance(self, APIHandler):
            # As Jupyter's own, which doubles each "%".
            self.log.warning("wrote error: %r", in_english(error.sentence))
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps({"message": message, "reason": error.reason}))
        else:
            shown = web.HTTPError(status_code, message, reason=error.reason)
            super().write_error(status_code, exc_info=(type(shown), shown, None))

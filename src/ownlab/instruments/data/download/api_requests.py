"""Requests for lists of files: tried again where that may help."""

from __future__ import annotations

import time

from ownlab.errors import InputError
from ownlab.instruments.data.download.answers import check_status
from ownlab.instruments.data.download.connection import Client, Response, Transient
from ownlab.text import text

__all__ = ["get_with_retries"]

_ATTEMPTS = 5
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 60.0


def get_with_retries(client: Client, url: str) -> Response:
    """Send a request until the server answers with anything but a passing trouble. Raises InputError."""
    attempt = 1
    while not isinstance(result := _attempt(client, url), Response):
        if attempt == _ATTEMPTS:
            break
        pause = _FIRST_PAUSE * 2 ** (attempt - 1) if result.retry_after is None else result.retry_after
        time.sleep(min(pause, _LONGEST_PAUSE))
        attempt += 1
    else:
        return result
    raise InputError(
        result.message, hint=text("Gave up after {attempts} attempts. Try again later.", attempts=_ATTEMPTS)
    ) from result


def _attempt(client: Client, url: str) -> Response | Transient:
    try:
        response = client.get(url)
        if response.status < 500 and response.status not in (408, 425, 429):
            return response
        with response:
            check_status(response, url.partition("?")[0])
    except Transient as exc:
        return exc
    return response

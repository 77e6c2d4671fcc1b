"""Secrets: kept by `ownlab secrets`, given to the notebooks that a person granted them to.

A value comes straight from ownlab's own process: through no message, no file of the notebook, no environment.
"""

import os
import re
from typing import Any, Dict, Tuple

from . import _host, _message, errors

__all__ = ["NotebookAccessError", "SecretNotFoundError", "TimeoutException", "get"]

READ_SECONDS = 60.0  # for a process that takes one, on a machine that is very busy


class NotebookAccessError(Exception):
    """The secret is there, and this notebook may not have it."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Notebook does not have access to secret {key}. `ownlab secrets grant {key} NOTEBOOK` grants it."
        )


class SecretNotFoundError(errors.Error):
    """There is no secret of this name."""

    def __init__(self, key: str) -> None:
        super().__init__(f"Secret {key} does not exist. `ownlab secrets set {key}` keeps one.")


class TimeoutException(errors.Error):
    """Nobody answered."""

    def __init__(self, key: str, why: str = "") -> None:
        super().__init__(f"Requesting secret {key} timed out" + (f": {why}." if why else "."))


def get(key: str) -> str:
    """A secret by its name. Where there is none kept, the environment variable of that name counts."""
    if not key or not isinstance(key, str):
        raise ValueError("Please enter a valid secret name")
    if re.search(r"\s", key):
        raise ValueError("Secret name cannot contain spaces or whitespace")
    kind, text = _read(key)
    if kind == "NotGranted" and _is_granted(key):
        kind, text = _read(key)
    if kind == "Found":
        return text
    if kind == "SecretNotFound" and key in os.environ:
        return os.environ[key]
    raise _error(kind, text, key)


def _error(kind: str, text: str, key: str) -> Exception:
    if kind == "SecretNotFound":
        return SecretNotFoundError(key)
    if kind == "NotGranted":
        return NotebookAccessError(key)
    if kind == "Timeout":
        return TimeoutException(key, text)
    return errors.Error(f"Secret {key} could not be read: {text}")


def _read(key: str) -> Tuple[str, str]:
    """("Found", the value), or the kind of an error and what was said."""
    # A run writes into a copy of its notebook: what was granted to either counts.
    notebooks = [os.environ[name] for name in ("JPY_SESSION_NAME", "OWNLAB_NOTEBOOK") if os.environ.get(name)]
    if not _host.is_there() or not notebooks:
        return "SecretNotFound", ""
    arguments = ("secrets", "read", *(f"--notebook={each}" for each in notebooks), "--json", "--", key)
    try:
        code, answer = _host.ask(*arguments, timeout=READ_SECONDS)
    except TimeoutError as exc:
        return "Timeout", str(exc)
    if code == 0 and isinstance(answer.get("value"), str):
        return "Found", answer["value"]
    error: Dict[str, Any] = answer.get("error") or {}
    said = error.get("message") or f"`ownlab secrets read` ended with {code}"
    return str(error.get("kind", "")), str(said)


def _is_granted(key: str) -> bool:
    """Ask the person. Without anybody to ask it stays as it is."""
    if not _message.can_ask():
        return False
    request = {"key": key, "notebook": os.environ.get("JPY_SESSION_NAME", "")}
    try:
        answer = _message.blocking_request("ownlab_grant", request, timeout_sec=None)
    except _message.MessageError as exc:
        raise TimeoutException(key, str(exc)) from None
    return isinstance(answer, dict) and answer.get("granted") is True

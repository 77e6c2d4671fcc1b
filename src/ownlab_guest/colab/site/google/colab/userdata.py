"""google.colab.userdata: secrets of `ownlab secrets`, for the notebooks that a person granted them to.

A value comes directly from ownlab's own process, never through a message, a file of the notebook or the environment.
"""

import os
import re
from typing import Any, Dict, Tuple

from . import _host, _message, errors

__all__ = ["NotebookAccessError", "SecretNotFoundError", "TimeoutException", "get"]

READ_SECONDS = 60.0  # the process takes one second; a very busy machine takes longer


class NotebookAccessError(Exception):
    """The secret exists, but this notebook may not read it."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Notebook does not have access to secret {key}. Grant it: `ownlab secrets grant {key} NOTEBOOK`."
        )


class SecretNotFoundError(errors.Error):
    """There is no secret of this name."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Secret {key} does not exist. Add it in the panel Secrets of the lab (the key on the left), or set it: `ownlab secrets set {key}`."
        )


class TimeoutException(errors.Error):
    """There was no answer in time."""

    def __init__(self, key: str, reason: str = "") -> None:
        message = f"Requesting secret {key} timed out"
        super().__init__(f"{message}: {reason}." if reason else f"{message}.")


def get(key: str) -> str:
    """Return a secret by its name; without such a secret, the environment variable of that name."""
    if not key or not isinstance(key, str):
        raise ValueError("Please enter a valid secret name")
    if re.search(r"\s", key):
        raise ValueError("Secret name cannot contain spaces or whitespace")
    kind, text = _read(key)
    if kind == "NotGranted" and _request_grant(key):
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
    """Return ("Found", the value), or the kind of an error and its message."""
    # A run uses a copy of its notebook: a grant for either one counts.
    notebooks = [os.environ[name] for name in ("JPY_SESSION_NAME", "OWNLAB_NOTEBOOK") if os.environ.get(name)]
    if not _host.is_available() or not notebooks:
        return "SecretNotFound", ""
    arguments = ("secrets", "read", *(f"--notebook={each}" for each in notebooks), "--json", "--", key)
    try:
        code, answer = _host.call(*arguments, timeout=READ_SECONDS)
    except TimeoutError as exc:
        return "Timeout", str(exc)
    if code == 0 and isinstance(answer.get("value"), str):
        return "Found", answer["value"]
    error: Dict[str, Any] = answer.get("error") or {}
    message = error.get("message") or f"`ownlab secrets read` failed with exit code {code}"
    return str(error.get("kind", "")), str(message)


def _request_grant(key: str) -> bool:
    """Ask the user for a grant; False without a page."""
    if not _message.can_ask():
        return False
    request = {"key": key, "notebook": os.environ.get("JPY_SESSION_NAME", "")}
    try:
        answer = _message.blocking_request("ownlab_grant", request, timeout_sec=None)
    except _message.MessageError as exc:
        raise TimeoutException(key, str(exc)) from None
    return isinstance(answer, dict) and answer.get("granted") is True

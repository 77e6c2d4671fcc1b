"""Snippets of code, from a notebook at an address."""

from . import _message

__all__ = ["register"]


def register(url: str) -> None:
    """Tell the page of more snippets. Where nobody could insert one, nothing happens."""
    if _message.can_ask():
        _message.send_request("register_snippets", {"url": url}, expect_reply=False)

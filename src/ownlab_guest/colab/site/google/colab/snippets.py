"""google.colab.snippets: code snippets from a notebook at an address."""

from . import _message

__all__ = ["register"]


def register(url: str) -> None:
    """Register more snippets with the page. Without a page, do nothing."""
    if _message.can_ask():
        _message.send_request("register_snippets", {"url": url}, expect_reply=False)

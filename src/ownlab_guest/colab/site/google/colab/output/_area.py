"""Areas of a cell's output.

Each display has its area in the metadata, `{"ownlab": {"area": SELECTOR}}`. ownlab's page puts it there, also after a reload;
other front ends show it with the other outputs.
"""

import contextlib
from typing import Any, Dict, Iterator

from .. import _message
from . import _displays, _js

HEADER, FOOTER = "#output-header", "#output-footer"


@contextlib.contextmanager
def redirect_to_element(selector: str) -> Iterator[None]:
    """Redirect outputs to the element of this CSS selector."""
    with _redirected(str(selector)):
        yield


@contextlib.contextmanager
def to_header_area() -> Iterator[None]:
    """Redirect outputs to the top of the cell's output."""
    with _redirected(HEADER):
        yield


@contextlib.contextmanager
def to_footer_area() -> Iterator[None]:
    """Redirect outputs to the bottom of the cell's output."""
    with _redirected(FOOTER):
        yield


@contextlib.contextmanager
def to_default_area() -> Iterator[None]:
    """Redirect outputs to the default area."""
    with _redirected(""):
        yield


def no_vertical_scroll() -> None:
    """Show this cell's output in full, however long it is."""
    _js.eval_js("google.colab.output.setIframeHeight(-1, true, {maxHeight: 99999})", ignore_result=True)


@contextlib.contextmanager
def _redirected(selector: str) -> Iterator[None]:
    def mark(message: Dict[str, Any]) -> None:
        metadata = message["content"].setdefault("metadata", {})
        metadata.pop("ownlab", None)  # of an outer context
        if selector:
            metadata["ownlab"] = {"area": selector}

    if not _message.can_ask():
        yield
        return
    with _displays.marked(mark):
        yield

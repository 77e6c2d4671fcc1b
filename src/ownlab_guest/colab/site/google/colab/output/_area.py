"""Where in the cell the next outputs stand.

Each display says it in its metadata, `{"ownlab": {"area": SELECTOR}}`, so that a page which knows this word puts it there,
also after a reload; elsewhere, and without a page, it stands where all outputs do.
"""

import contextlib
from typing import Any, Dict, Iterator

from .. import _message
from . import _displays, _js

HEADER, FOOTER = "#output-header", "#output-footer"


@contextlib.contextmanager
def redirect_to_element(selector: str) -> Iterator[None]:
    """Outputs go into the element that this CSS selector finds."""
    with _redirected(str(selector)):
        yield


@contextlib.contextmanager
def to_header_area() -> Iterator[None]:
    """Outputs go above all others of the cell."""
    with _redirected(HEADER):
        yield


@contextlib.contextmanager
def to_footer_area() -> Iterator[None]:
    """Outputs go beneath all others of the cell."""
    with _redirected(FOOTER):
        yield


@contextlib.contextmanager
def to_default_area() -> Iterator[None]:
    """Outputs go where they go without any of these contexts."""
    with _redirected(""):
        yield


def no_vertical_scroll() -> None:
    """However long this cell's output is, it is shown whole."""
    _js.eval_js("google.colab.output.setIframeHeight(-1, true, {maxHeight: 99999})", ignore_result=True)


@contextlib.contextmanager
def _redirected(selector: str) -> Iterator[None]:
    def mark(message: Dict[str, Any]) -> None:
        metadata = message["content"].setdefault("metadata", {})
        metadata.pop("ownlab", None)  # of a context around this one
        if selector:
            metadata["ownlab"] = {"area": selector}

    if not _message.can_ask():
        yield
        return
    with _displays.marked(mark):
        yield

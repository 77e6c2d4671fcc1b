"""Where in the output frame the next outputs go. Without a page they go where all go."""

import contextlib
import json
from typing import Iterator

from . import _js, _util

# The areas that were active, so that each context gives back what it found.
_KEPT = "window.__ownlab_areas = window.__ownlab_areas || []"
_OUTPUT = "google.colab.output"


@contextlib.contextmanager
def redirect_to_element(selector: str) -> Iterator[None]:
    """Outputs go into the element that this CSS selector finds."""
    with _redirected(f"document.querySelector({json.dumps(str(selector))})"):
        yield


@contextlib.contextmanager
def to_header_area() -> Iterator[None]:
    """Outputs go above all others of the cell."""
    with redirect_to_element("#output-header"):
        yield


@contextlib.contextmanager
def to_footer_area() -> Iterator[None]:
    """Outputs go beneath all others of the cell."""
    with redirect_to_element("#output-footer"):
        yield


@contextlib.contextmanager
def to_default_area() -> Iterator[None]:
    """Outputs go where they go without any of these contexts."""
    with _redirected(f"{_OUTPUT}.getDefaultOutputArea()"):
        yield


def no_vertical_scroll() -> None:
    """However long this cell's output is, it is shown whole."""
    script = f"{_OUTPUT}.setIframeHeight(-1, true, {{interactive: true, maxHeight: 99999}})"
    _js.eval_js(script, ignore_result=True)


@contextlib.contextmanager
def _redirected(element: str) -> Iterator[None]:
    begin = f"{_KEPT}; window.__ownlab_areas.push({_OUTPUT}.getActiveOutputArea()); "
    _util.flush_all()
    _js.eval_js(f"{begin}{_OUTPUT}.setActiveOutputArea({element})", ignore_result=True)
    try:
        yield
    finally:
        _util.flush_all()
        _js.eval_js(f"{_KEPT}; {_OUTPUT}.setActiveOutputArea(window.__ownlab_areas.pop())", ignore_result=True)

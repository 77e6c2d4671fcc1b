"""IPython's display functions, imported on use: google.colab is imported before IPython."""

import importlib
import sys
from typing import Any


def display(*objects: Any, raw: bool = False) -> None:
    """Display objects in the cell's output; raw ones map media types to data."""
    importlib.import_module("IPython.display").display(*objects, raw=raw)


def display_html(page: str, text: str) -> None:
    """Display HTML, with text for front ends that do not show HTML."""
    display({"text/html": page, "text/plain": text}, raw=True)


def clear_output(wait: bool = False) -> None:
    """Clear the current output."""
    importlib.import_module("IPython.display").clear_output(wait)


def flush_all() -> None:
    """Flush printed text and open matplotlib figures now, not at the end of the cell."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    if inline is not None and "matplotlib.pyplot" in sys.modules:
        inline.flush_figures()


def shell() -> Any:
    """Return IPython's shell; None outside of one."""
    return importlib.import_module("IPython").get_ipython()

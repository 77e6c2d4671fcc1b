"""IPython's display functions, imported when they are used: google.colab is imported before IPython is."""

import importlib
import sys
from typing import Any


def display(*objects: Any, raw: bool = False) -> None:
    """Show objects in the cell's output; raw ones are mappings from media types to data."""
    importlib.import_module("IPython.display").display(*objects, raw=raw)


def display_html(page: str, text: str) -> None:
    """Show HTML; the text is for whoever shows none."""
    display({"text/html": page, "text/plain": text}, raw=True)


def clear_output(wait: bool = False) -> None:
    """Clear the cell's output, or that of the part that is written to."""
    importlib.import_module("IPython.display").clear_output(wait)


def flush_all() -> None:
    """Printed text and open figures of matplotlib are put out now, and not at the cell's end."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    if inline is not None and "matplotlib.pyplot" in sys.modules:
        inline.flush_figures()


def shell() -> Any:
    """IPython's shell; None outside of one."""
    return importlib.import_module("IPython").get_ipython()

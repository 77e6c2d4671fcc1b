"""google.colab.widgets: outputs in tabs and grids, with ipywidgets."""

from typing import Any

from ._grid import Grid, create_grid
from ._tabbar import TabBar

__all__ = ["Grid", "InteractiveTable", "TabBar", "create_grid"]


def __getattr__(name: str) -> Any:
    if name == "InteractiveTable":  # its class derives from a widget, so importing it needs ipywidgets
        from ._interactive_table import InteractiveTable

        return InteractiveTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

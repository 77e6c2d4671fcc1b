"""Outputs in tabs and grids, over ipywidgets."""

from typing import Any

from ._grid import Grid, create_grid
from ._tabbar import TabBar

__all__ = ["Grid", "InteractiveTable", "TabBar", "create_grid"]


def __getattr__(name: str) -> Any:
    if name == "InteractiveTable":  # is a widget by its class, and so needs ipywidgets already when it is imported
        from ._interactive_table import InteractiveTable

        return InteractiveTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

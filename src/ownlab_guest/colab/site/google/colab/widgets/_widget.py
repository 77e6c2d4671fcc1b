"""The base of tabs and grids: parts that receive outputs."""

import contextlib
import importlib
from typing import Any, Generator, List, Optional

from .. import errors
from .._display import clear_output, display, flush_all

WidgetException = errors.WidgetException


def ipywidgets() -> Any:
    """Import ipywidgets, which the notebook's environment must have."""
    try:
        return importlib.import_module("ipywidgets")
    except ImportError as exc:
        raise WidgetException("google.colab.widgets needs ipywidgets: %pip install ipywidgets") from exc


class OutputAreaWidget:
    """Several outputs, at most one of which is active."""

    def __init__(self, number_of_parts: int) -> None:
        self._parts: List[Any] = [ipywidgets().Output() for _ in range(number_of_parts)]
        self._current: Optional[int] = None
        self._root: Any = None

    def _show(self, root: Any) -> None:
        flush_all()
        self._root = root
        display(root)

    def remove(self, wait: bool = False) -> None:
        """Remove the widget from the page."""
        flush_all()
        self._root.layout.display = "none"  # closing alone would leave an error message
        for widget in (*self._parts, self._root):
            widget.close()

    @contextlib.contextmanager
    def _output_in(self, part: int) -> Generator[None, None, None]:
        if self._current is not None:
            raise WidgetException("Already inside a component")
        flush_all()
        self._current = part
        raised: Optional[BaseException] = None
        try:
            with self._parts[part]:
                try:
                    yield
                except BaseException as exc:  # ipywidgets would show it and swallow it
                    raised = exc
                flush_all()
        finally:
            self._current = None
        if raised is not None:
            raise raised

    def _clear(self, part: Optional[int]) -> None:
        """Clear one part; None is the active one."""
        flush_all()
        if part is None and self._current is None:
            raise WidgetException("No active component selected")
        if part is None or part == self._current:
            clear_output()
        else:
            self._parts[part].clear_output()

"""Outputs in a grid."""

import uuid
from typing import Any, Callable, ContextManager, Iterable, Iterator, Optional, Tuple

from .._display import display
from . import _widget

_BORDER = "1px solid var(--jp-border-color2, lightgray)"


class Grid(_widget.OutputAreaWidget):
    """Outputs in rows and columns: `with grid.output_to(0, 1): print(…)`."""

    def __init__(
        self, rows: int, columns: int, header_row: bool = False, header_column: bool = False, style: str = ""
    ) -> None:
        self.rows, self.columns = rows, columns
        self.header_row, self.header_column = header_row, header_column
        super().__init__(rows * columns)
        self._show(self._build(style))

    def output_to(self, row: int, column: int) -> ContextManager[None]:
        """Redirect outputs to a cell; both numbers start at 0."""
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            raise _widget.WidgetException(f"({row}, {column}) is not a cell of a {self.rows}x{self.columns} grid")
        return self._output_in(row * self.columns + column)

    def clear_cell(self, row: Optional[int] = None, col: Optional[int] = None) -> None:
        """Clear a cell, or the current one."""
        if row is None or col is None:
            self._clear(None)
            return
        if not 0 <= row < self.rows:
            raise ValueError(f"{row} is not a valid row")
        if not 0 <= col < self.columns:
            raise ValueError(f"{col} is not a valid column")
        self._clear(row * self.columns + col)

    def __iter__(self) -> Iterator[Tuple[int, int]]:
        for row in range(self.rows):
            for column in range(self.columns):
                with self.output_to(row, column):
                    yield row, column

    def _build(self, style: str) -> Any:
        library = _widget.ipywidgets()
        name = "ownlab-grid-" + uuid.uuid4().hex[:12]
        for number, part in enumerate(self._parts):
            row, column = divmod(number, self.columns)
            if (self.header_row and row == 0) or (self.header_column and column == 0):
                part.add_class(name + "-head")
            else:
                part.add_class(name + "-cell")
        template = library.Layout(grid_template_columns=f"repeat({self.columns}, auto)", width="fit-content")
        grid = library.GridBox(children=self._parts, layout=template)
        grid.add_class(name)
        css = f".{name} > * {{border: {_BORDER}; padding: 4px}} .{name}-head {{font-weight: bold}} {style}"
        return library.VBox([library.HTML(f"<style>{css}</style>"), grid])


def create_grid(
    row_data: Iterable[Any],
    col_data: Iterable[Any],
    render: Callable[[Any, Any], Any],
    header_render: Optional[Callable[[Any], Any]] = None,
    header_row: bool = True,
    header_column: bool = True,
) -> Grid:
    """Create a grid with a cell for each pair of row and column data, filled by `render`."""
    rows, columns = list(row_data), list(col_data)
    grid = Grid(len(rows) + header_row, len(columns) + header_column, header_row, header_column)

    def put(row: int, column: int, function: Callable[..., Any], *data: Any) -> None:
        with grid.output_to(row, column):
            result = function(*data)
            if result is not None:
                display(result)

    head = header_render or display
    for number, datum in enumerate(columns if header_row else []):
        put(0, number + header_column, head, datum)
    for row, row_datum in enumerate(rows):
        if header_column:
            put(row + header_row, 0, head, row_datum)
        for column, column_datum in enumerate(columns):
            put(row + header_row, column + header_column, render, row_datum, column_datum)
    return grid

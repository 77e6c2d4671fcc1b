"""A table whose pages the kernel renders, for more rows than an output should hold."""

from typing import Any, Optional

from .. import _table
from . import _widget

_library = _widget.ipywidgets()


_VBox: Any = _library.VBox


class InteractiveTable(_VBox):  # type: ignore[misc]  # optional and untyped
    """A DataFrame, shown page by page and sorted by a column."""

    def __init__(self, df: Any = None, page_size: int = 10, **kwargs: Any) -> None:
        self.data: Any = None
        self.page_num, self.page_size = 0, page_size
        self.sort_column: Optional[int] = None
        self.sort_ascending = True
        self._shown = _library.HTML()
        self._back = _library.Button(description="‹ Previous")
        self._next = _library.Button(description="Next ›")
        self._sort = _library.Dropdown(description="Sort by", options=[("", None)])
        self._order = _library.ToggleButtons(options=[("▲", True), ("▼", False)])
        self._order.style.button_width = "3em"
        self._back.on_click(lambda _: self.set_page(self.page_num - 1))
        self._next.on_click(lambda _: self.set_page(self.page_num + 1))
        self._sort.observe(self._choose, "value")
        self._order.observe(self._choose, "value")
        controls = _library.HBox([self._back, self._next, self._sort, self._order])
        super().__init__([self._shown, controls], **kwargs)
        if df is not None:
            self.set_data(df)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return 0 if self.data is None else len(self.data)

    def set_data(self, df: Any) -> None:
        """Show another DataFrame."""
        self.data, self.page_num, self.sort_column = df, 0, None
        self._sort.options = [("", None), *((_table.header(name), n) for n, name in enumerate(df.columns))]
        self.update_active_data()

    def set_page(self, page_num: int) -> None:
        """Show a page, counted from 0."""
        last = max(0, (self.rows - 1) // self.page_size)
        self.page_num = min(max(page_num, 0), last)
        self.update_active_data()

    def update_active_data(self) -> None:
        """Render the current page."""
        if self.data is None:
            return
        frame = self.data
        if self.sort_column is not None:
            frame = frame.sort_values(by=frame.columns[self.sort_column], ascending=self.sort_ascending)
        begin = self.page_num * self.page_size
        page = frame.iloc[begin : begin + self.page_size]
        rows = [[_table.cell(value) for value in row] for row in page.itertuples(index=False, name=None)]
        note = f"{begin + 1}–{begin + len(rows)} of {self.rows}" if rows else "no rows"
        self._shown.value = _table.plain([_table.header(name) for name in frame.columns], rows, note)
        self._back.disabled = begin == 0
        self._next.disabled = begin + self.page_size >= self.rows

    def _choose(self, change: Any) -> None:
        self.sort_column, self.sort_ascending = self._sort.value, self._order.value
        self.set_page(0)

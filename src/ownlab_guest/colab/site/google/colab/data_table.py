"""google.colab.data_table: tables with pages and sorting. All data is in the output: no network or kernel is needed."""

from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _display, _table

__all__ = [
    "DataTable",
    "disable_dataframe_formatter",
    "display_dataframe",
    "enable_dataframe_formatter",
    "load_ipython_extension",
    "unload_ipython_extension",
]

# The names of DataFrame up to pandas 2, and since pandas 3.
_DATAFRAMES = (("pandas.core.frame", "DataFrame"), ("pandas", "DataFrame"))


class DataTable:
    """A table of a pandas DataFrame. The class attributes are the defaults."""

    include_index = True
    num_rows_per_page = 25
    max_rows = 20000
    max_columns = 20
    min_width: Optional[str] = None

    def __init__(
        self,
        dataframe: Any,
        include_index: Optional[bool] = None,
        num_rows_per_page: Optional[int] = None,
        max_rows: Optional[int] = None,
        max_columns: Optional[int] = None,
        min_width: Optional[str] = None,
    ) -> None:
        def or_default(value: Any, name: str) -> Any:
            return getattr(self, name) if value is None else value

        self._dataframe = dataframe
        self._include_index = or_default(include_index, "include_index")
        self._num_rows_per_page = or_default(num_rows_per_page, "num_rows_per_page")
        self._max_rows = or_default(max_rows, "max_rows")
        self._max_columns = or_default(max_columns, "max_columns")
        self._min_width = or_default(min_width, "min_width")

    @classmethod
    def formatter(cls, dataframe: Any, **kwargs: Any) -> Optional[str]:
        """Return the HTML of a DataFrame; pandas's own where it is too large or has multi-level headers."""
        too_large = _too_large(dataframe, cls.max_rows, cls.max_columns)
        if too_large:
            print(f"Warning: {too_large}. Falling back to pandas display.")
        if too_large or dataframe.columns.nlevels > 1 or dataframe.index.nlevels > 1:
            html: Optional[str] = dataframe._repr_html_()
            return html
        return cls(dataframe, **kwargs)._repr_html_()

    def _repr_html_(self) -> str:
        frame = self._dataframe
        too_large = _too_large(frame, self._max_rows, self._max_columns)
        if too_large:
            print(f"Warning: {too_large}. Showing the first ones.")
        frame = frame.iloc[: self._max_rows, : self._max_columns]
        names = [_table.header(name) for name in frame.columns]
        rows = [[_table.cell(value) for value in row] for row in frame.itertuples(index=False, name=None)]
        if self._include_index or not names:
            names = [_table.header(name or "index") for name in frame.index.names] + names
            keys = ([value] if frame.index.nlevels == 1 else list(value) for value in frame.index)
            rows = [[_table.cell(each) for each in key] + row for key, row in zip(keys, rows)]
        return _table.html(names, rows, int(self._num_rows_per_page), self._min_width)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Dict[str, str]:
        return {"text/html": self._repr_html_(), "text/plain": repr(self._dataframe)}


def display_dataframe(df: Any) -> None:
    """Display a DataFrame, its charts and its summary."""
    from . import autoviz, widgets

    tabs = widgets.TabBar(["Data", "Charts", "Summary"])
    with tabs.output_to("Data"):
        _display.display(DataTable(df, include_index=False))
    with tabs.output_to("Charts", select=False):
        autoviz.quickchart(df)
    with tabs.output_to("Summary", select=False):
        _display.display(DataTable(df.describe(include="all").astype(object).fillna("")))


_previous: List[Tuple[Tuple[str, str], Optional[Callable[..., Any]]]] = []


def enable_dataframe_formatter() -> None:
    """Display every DataFrame as such a table."""
    formatter = _html_formatter()
    if formatter is not None and not _previous:
        _previous.extend((name, formatter.for_type_by_name(*name, DataTable.formatter)) for name in _DATAFRAMES)


def disable_dataframe_formatter() -> None:
    """Display every DataFrame as before."""
    formatter = _html_formatter()
    if formatter is None:
        return
    for name, function in _previous:
        formatter.pop(".".join(name), None)
        if function is not None:
            formatter.for_type_by_name(*name, function)
    _previous.clear()


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext google.colab.data_table`."""
    enable_dataframe_formatter()


def unload_ipython_extension(ipython: Any) -> None:
    """`%unload_ext google.colab.data_table`."""
    disable_dataframe_formatter()


def _html_formatter() -> Any:
    shell = _display.shell()
    return shell.display_formatter.formatters["text/html"] if shell else None


def _too_large(frame: Any, max_rows: int, max_columns: int) -> str:
    rows, columns = frame.shape
    if rows > max_rows:
        return f"total number of rows ({rows}) exceeds max_rows ({max_rows})"
    if columns > max_columns:
        return f"total number of columns ({columns}) exceeds max_columns ({max_columns})"
    return ""

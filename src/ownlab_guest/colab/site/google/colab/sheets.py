"""google.colab.sheets: not available. It needs Google's own page and sign-in."""

from typing import Any

from . import errors

WHY = (
    "google.colab.sheets.InteractiveSheet needs Google's own page and sign-in, which ownlab does not have. "
    "With your credentials, `gspread` reads and writes sheets (gspread.oauth(), gspread.service_account()). "
    "Read a public sheet with pandas.read_csv('https://docs.google.com/spreadsheets/d/ID/export?format=csv')."
)


class InteractiveSheet:
    """Raise an error that names alternatives."""

    def __init__(
        self,
        *,
        title: str = "",
        url: str = "",
        sheet_id: str = "",
        df: Any = None,
        worksheet_id: Any = None,
        worksheet_name: str = "",
        credentials: Any = None,
        include_column_headers: bool = True,
        display: bool = True,
        backend: str = "pandas",
    ) -> None:
        raise errors.Error(WHY)

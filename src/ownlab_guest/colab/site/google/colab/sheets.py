"""Google Sheets: not here. The page that shows them, and the sign-in that they need, are Google's."""

from typing import Any

from . import errors

WHY = (
    "google.colab.sheets.InteractiveSheet needs Google's own page and sign-in, which ownlab has not. "
    "With credentials of yours `gspread` reads and writes sheets (gspread.oauth(), gspread.service_account()); "
    "a sheet that anybody may see is read by pandas.read_csv('https://docs.google.com/spreadsheets/d/ID/export?format=csv')."
)


class InteractiveSheet:
    """Raises an error that says what to use instead."""

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

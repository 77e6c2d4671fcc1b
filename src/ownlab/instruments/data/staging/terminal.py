"""`ownlab data sets` for people."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ownlab.instruments.data.staging.records import DataSetList
from ownlab.text import facts, text
from ownlab.units import format_bytes, format_seconds

__all__ = ["show_data_sets"]


_KINDS = {
    "downloaded": text("downloaded"),
    "unpacked": text("unpacked"),
    "packed": text("packed"),
    "staged": text("staged"),
}
_STATES = {"partial": text("partial"), "copying": text("copying"), "missing": text("missing")}


def show_data_sets(listed: DataSetList, console: Console) -> None:
    """Print the list, the last used first."""
    if not listed.data_sets:
        console.print(Text(text("No data sets yet. Download one: ownlab data get SOURCE")))
        return
    table = Table(box=None, pad_edge=False)
    titles = (text("path"), text("kind"), text("size"), text("files"), text("used"), text("source"))
    for title in titles:
        table.add_column(title, justify="right" if title in titles[2:4] else "left", overflow="fold")
    now = time.time()
    for row in listed.data_sets:
        kind = _KINDS[row.kind]
        if row.state != "complete":
            kind = text("{kind}, {state}", kind=kind, state=_STATES[row.state])
        used = text("{time} ago", time=format_seconds(max(1.0, now - row.last_used)))
        cells = (row.path, kind, format_bytes(row.size), f"{row.files:,}", used, row.source)
        table.add_row(*map(Text, cells))
    console.print(table)
    staged = text("{size} staged in {folder}", size=format_bytes(listed.stage_size), folder=listed.stage_folder)
    limit = text("limit {limit}", limit=format_bytes(listed.stage_limit)) if listed.stage_limit is not None else ""
    free = text("{free} free", free=format_bytes(listed.stage_free)) if listed.stage_free is not None else ""
    if listed.stage_size:
        console.print(Text(facts(staged, limit, free), style="dim"))
